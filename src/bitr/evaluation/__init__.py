"""Evaluation: metrics, methods to compare, tables, the certificate, and the paper's experiments again."""

from bitr.evaluation.evaluate import Errors, Evaluation, Score
from bitr.evaluation.method import Method, engine, model_alone
from bitr.evaluation.report import Repeated, Report, table

__all__ = [
    "Errors",
    "Evaluation",
    "Method",
    "Repeated",
    "Report",
    "Score",
    "engine",
    "model_alone",
    "table",
]
