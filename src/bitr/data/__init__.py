"""Pairs to assemble: the data sets of the paper, generated ones, and the user's own."""

from bitr.data.info import DatasetInfo
from bitr.data.jug import jug
from bitr.data.pair import AssemblyPair
from bitr.data.registry import dataset, datasets
from bitr.data.simple import bumpy_shape, cut

__all__ = ["AssemblyPair", "DatasetInfo", "bumpy_shape", "cut", "dataset", "datasets", "jug"]
