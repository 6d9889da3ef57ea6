"""Several poses for one pair: what the model holds possible, and what the shapes' symmetries allow."""

from bitr.hypotheses.orbit import Nearness, Orbit
from bitr.hypotheses.proposals import Proposals, proposals
from bitr.hypotheses.ranking import Ranked, merged, ranked
from bitr.hypotheses.same_assembly import with_symmetry
from bitr.hypotheses.symmetry import Symmetries, symmetries
from bitr.hypotheses.words import described

__all__ = [
    "Nearness",
    "Orbit",
    "Proposals",
    "Ranked",
    "Symmetries",
    "described",
    "merged",
    "proposals",
    "ranked",
    "symmetries",
    "with_symmetry",
]
