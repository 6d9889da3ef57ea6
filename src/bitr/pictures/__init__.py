"""Assemblies as pictures: what is shown, from where, and drawn by matplotlib."""
