"""Training: ``bitr train``, on one process or under torchrun."""

from bitr.training.config import TrainConfig
from bitr.training.train import Kind, TrainingError, train

__all__ = ["Kind", "TrainConfig", "TrainingError", "train"]
