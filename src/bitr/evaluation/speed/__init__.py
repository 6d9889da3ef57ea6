"""How fast, and with how much memory: the tables of ``bitr bench``."""
