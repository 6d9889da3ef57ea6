"""The viewer: a page on this machine where the answer follows the pieces."""
