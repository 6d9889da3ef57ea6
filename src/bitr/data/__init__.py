"""Pairs to assemble: the data sets of the paper, generated ones, and the user's own."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bitr.data.bunny import bumpy_shape, cut, jug
    from bitr.data.poses import AssemblyPair, Pairs
    from bitr.data.registry import DatasetInfo, dataset, datasets, info, is_name
    from bitr.data.storage import data_root

__all__ = [
    "AssemblyPair", "DatasetInfo", "Pairs", "bumpy_shape", "cut", "data_root", "dataset", "datasets", "info",
    "is_name", "jug",
]  # fmt: skip

_HOMES = {
    **dict.fromkeys(("bumpy_shape", "cut", "jug"), "bunny"),
    **dict.fromkeys(("AssemblyPair", "Pairs"), "poses"),
    **dict.fromkeys(("DatasetInfo", "dataset", "datasets", "info", "is_name"), "registry"),
    "data_root": "storage",
}


def __getattr__(name: str) -> Any:
    """Import the public names on first use: ``bitr data list`` must not wait for torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'bitr.data' has no attribute {name!r}")
    value = getattr(import_module(f"bitr.data.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
