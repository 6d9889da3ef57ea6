"""BITR in three steps: key points (Φ_E), the transformer on the merged cloud (Φ_S), projection (Φ_P)."""

from bitr.model.bitr import BITR, Solution
from bitr.model.config import BITRConfig

__all__ = ["BITR", "BITRConfig", "Solution"]
