"""Two pieces that share a surface, laid onto each other by it: from anywhere, and with nothing to train."""

from bitr.refine.matching.match import match

__all__ = ["match"]
