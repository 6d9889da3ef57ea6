"""The paper's tables and figures again: data, training, tests, and the paper's figures beside ours."""

from bitr.evaluation.reproduce.budget import Budget
from bitr.evaluation.reproduce.experiment import Experiment
from bitr.evaluation.reproduce.paper import EXPERIMENTS, experiment
from bitr.evaluation.reproduce.plan import Plan
from bitr.evaluation.reproduce.result import Result

__all__ = ["EXPERIMENTS", "Budget", "Experiment", "Plan", "Result", "experiment"]
