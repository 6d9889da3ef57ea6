"""Learned baselines, trained by our own loop on the same split: in the manner of published methods.

None of them is the published network, and none has its weights; what was left out stands in each docstring.
"""

from bitr.evaluation.baselines.learned.common import Regressor, Sizes
from bitr.evaluation.baselines.learned.kind import kind
from bitr.evaluation.baselines.learned.method import learned_method
from bitr.evaluation.baselines.learned.table import regressor, regressors
from bitr.evaluation.baselines.learned.weights import load, save

__all__ = ["Regressor", "Sizes", "kind", "learned_method", "load", "regressor", "regressors", "save"]
