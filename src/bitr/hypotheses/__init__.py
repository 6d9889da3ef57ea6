"""Symmetries of a cloud, and the poses that they make of one."""

from bitr.hypotheses.orbit import Nearness, Orbit
from bitr.hypotheses.same_assembly import with_symmetry
from bitr.hypotheses.symmetry import Symmetries, symmetries
from bitr.hypotheses.words import described

__all__ = ["Nearness", "Orbit", "Symmetries", "described", "symmetries", "with_symmetry"]
