"""Assemblies for the eye: pictures, films, reports as one HTML page, and the viewer in a browser.

Reports are in ``bitr.show.report`` and the viewer in ``bitr.show.viewer``; they build on ``bitr.evaluation``,
which draws with the names below.
"""

from bitr.show.picture import write_animation, write_png, write_sheet
from bitr.show.stage import MOST_SHOWN, Scene

__all__ = ["MOST_SHOWN", "Scene", "write_animation", "write_png", "write_sheet"]
