"""Pairs to assemble: at this stage, generated shapes."""

from bitr.data.jug import jug
from bitr.data.shapes import bumpy_shape, cut

__all__ = ["bumpy_shape", "cut", "jug"]
