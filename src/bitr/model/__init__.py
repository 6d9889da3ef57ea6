"""BITR in three steps: key points (Φ_E), the transformer on the merged cloud (Φ_S), projection (Φ_P)."""

from bitr.model.bitr import BITR, Solution
from bitr.model.config import BITRConfig
from bitr.model.frozen import FrozenBITR

__all__ = ["BITR", "BITRConfig", "FrozenBITR", "Solution"]
