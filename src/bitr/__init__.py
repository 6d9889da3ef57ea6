"""Point cloud assembly whose answer provably moves with the pieces."""

from bitr.errors import InputError
from bitr.groups import Cloud, Rigid
from bitr.model import BITR, BITRConfig
from bitr.model.checkpoint import load, save
from bitr.refine import arun

__version__ = "0.1.0"
__all__ = ["BITR", "BITRConfig", "Cloud", "InputError", "Rigid", "arun", "load", "save"]
