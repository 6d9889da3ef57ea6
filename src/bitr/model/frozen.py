"""A model for inference alone."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

from torch import nn

from bitr.errors import InputError
from bitr.layers import TransformerLayer
from bitr.model.bitr import BITR

Frozen = TypeVar("Frozen", bound="FrozenBITR")


class FrozenBITR(BITR):
    """A copy of a model as it is now, a little faster: its weights are laid out once, for its products.

    It gives the same poses, and is saved as the model itself would be. It does not train and takes no other
    weights, since what is laid out would not follow; the model that it was made from does.
    """

    def __init__(self, model: BITR) -> None:
        nn.Module.__init__(self)  # no new weights: those of the model are copied
        self.config = model.config
        self.extract, self.transform = copy.deepcopy(model.extract), copy.deepcopy(model.transform)
        self.dense, self.score = copy.deepcopy(model.dense), copy.deepcopy(model.score)
        for module in self.modules():
            if isinstance(module, TransformerLayer):
                module.freeze()
        self.requires_grad_(False).eval()

    def train(self: Frozen, mode: bool = True) -> Frozen:
        _refuse(mode)
        return super().train(mode)

    def requires_grad_(self: Frozen, requires_grad: bool = True) -> Frozen:
        _refuse(requires_grad)
        return super().requires_grad_(requires_grad)

    def load_state_dict(self, *_: Any, **__: Any) -> Any:
        _refuse(True)


def _refuse(change: bool) -> None:
    if change:
        raise InputError(
            "a frozen model does not follow its weights: train or load the model that it was made from"
        )
