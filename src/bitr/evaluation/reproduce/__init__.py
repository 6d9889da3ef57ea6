"""The paper's tables and figures again: ``experiments.toml`` lists them, and one runner makes them all."""

from bitr.evaluation.reproduce.plan import EXPERIMENTS, Budget, Experiment, Plan, experiment
from bitr.evaluation.reproduce.result import Result
from bitr.evaluation.reproduce.runner import run, run_all, run_one

__all__ = ["EXPERIMENTS", "Budget", "Experiment", "Plan", "Result", "experiment", "run", "run_all", "run_one"]
