"""Point cloud assembly whose answer provably moves with the pieces."""

from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bitr.assembly.align import arun
    from bitr.assembly.assemble import Assembly, assemble
    from bitr.assembly.puzzle import Puzzle, assemble_all
    from bitr.errors import InputError
    from bitr.groups import Cloud, Rigid
    from bitr.model import BITR, BITRConfig
    from bitr.model.checkpoint import load, save

__version__ = "0.2.0"
__all__ = [
    "BITR",
    "Assembly",
    "BITRConfig",
    "Cloud",
    "InputError",
    "Puzzle",
    "Rigid",
    "arun",
    "assemble",
    "assemble_all",
    "load",
    "save",
]

_HOMES = {
    "Assembly": "bitr.assembly.assemble",
    "BITR": "bitr.model",
    "BITRConfig": "bitr.model",
    "Cloud": "bitr.groups",
    "InputError": "bitr.errors",
    "Puzzle": "bitr.assembly.puzzle",
    "Rigid": "bitr.groups",
    "arun": "bitr.assembly.align",
    "assemble": "bitr.assembly.assemble",
    "assemble_all": "bitr.assembly.puzzle",
    "load": "bitr.model.checkpoint",
    "save": "bitr.model.checkpoint",
}
_PARTS = tuple(part.name for part in iter_modules(__path__) if not part.name.startswith("_"))


def __getattr__(name: str) -> Any:
    """Import the public names and parts on first use: ``bitr --help`` must not wait for torch."""
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    elif name in _PARTS:
        value = import_module(f"bitr.{name}")
    else:
        raise AttributeError(f"module 'bitr' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PARTS})
