"""Two pieces to a pose: read, sample, propose, finish, verify, answer."""

from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType


def __getattr__(name: str) -> ModuleType:
    """Import the modules on first use: each is reachable after ``import bitr``."""
    if name not in (part.name for part in iter_modules(__path__)):
        raise AttributeError(f"module 'bitr.assembly' has no attribute {name!r}")
    return import_module(f"bitr.assembly.{name}")
