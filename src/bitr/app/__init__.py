"""The main job, from any two files or arrays to a pose, one pair or many."""
