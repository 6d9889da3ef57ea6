"""Two pieces that share a surface, laid onto each other by it: from anywhere, and with nothing to train."""

from bitr.refine.matching.match import auto, match

__all__ = ["auto", "match"]
