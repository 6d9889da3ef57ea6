"""Training: ``bitr train``, on one process or under torchrun."""

from bitr.training.config import TrainConfig
from bitr.training.kind import Kind
from bitr.training.loop import TrainingError
from bitr.training.start import train

__all__ = ["Kind", "TrainConfig", "TrainingError", "train"]
