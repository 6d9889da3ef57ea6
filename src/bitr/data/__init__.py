"""Pairs to assemble: the data sets of the paper, generated ones, and the user's own."""

from bitr.data.bunny import bumpy_shape, cut, jug
from bitr.data.pair import AssemblyPair, Pairs
from bitr.data.registry import DatasetInfo, dataset, datasets, info, is_name
from bitr.data.storage import data_root

__all__ = [
    "AssemblyPair",
    "DatasetInfo",
    "Pairs",
    "bumpy_shape",
    "cut",
    "data_root",
    "dataset",
    "datasets",
    "info",
    "is_name",
    "jug",
]
