"""How right a pose is: each metric with its definition, one family a file."""

from bitr.evaluation.metrics.clouds import add_s, chamfer, part_accuracy, part_chamfer, shape_chamfer
from bitr.evaluation.metrics.overlap import information_matrix, overlap, registration_rmse
from bitr.evaluation.metrics.pose import displacement, rotation_error_deg, translation_error
from bitr.evaluation.metrics.recall import BENCHMARKS, Benchmark, Recall, recall
from bitr.evaluation.metrics.symmetry import nearest_truth

__all__ = [
    "BENCHMARKS",
    "Benchmark",
    "Recall",
    "add_s",
    "chamfer",
    "displacement",
    "information_matrix",
    "nearest_truth",
    "overlap",
    "part_accuracy",
    "part_chamfer",
    "recall",
    "registration_rmse",
    "rotation_error_deg",
    "shape_chamfer",
    "translation_error",
]
