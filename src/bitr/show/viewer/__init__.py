"""``bitr view``: two pieces in a browser, where the answer follows them; and puzzles of more.

``session`` is the state and its answer, ``scene`` the drawing, ``panel`` the controls, ``gallery`` an
evaluated data set as a wall of pictures; ``page`` joins them for one tab, and ``server`` serves the pages.
"""

from bitr.show.viewer.gallery import Gallery
from bitr.show.viewer.server import PuzzleViewer, Viewer, is_local

__all__ = ["Gallery", "PuzzleViewer", "Viewer", "is_local"]
