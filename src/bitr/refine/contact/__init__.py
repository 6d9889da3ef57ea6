"""Pieces that touch and do not intersect: how deep they are in each other, and how they come apart."""

from bitr.refine.contact.separate import separate
from bitr.refine.contact.separation import Separation

__all__ = ["Separation", "separate"]
