"""Models with one law broken at a known place; the certificate has to find it."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import nn

from bitr import BITR, BITRConfig, Rigid
from bitr.layers import Elu
from bitr.model.keypoints import KeyPointNetwork

SMALL = {"width": 0, "num_keypoints": 8, "num_neighbors": 8, "num_layers": 2}


def small(kind: type[BITR] = BITR, **changes: bool) -> BITR:
    torch.manual_seed(0)
    return kind(BITRConfig(**SMALL, **changes)).eval()


class Then(nn.Module):
    """A layer, and something done to its output."""

    def __init__(self, inner: nn.Module, change) -> None:
        super().__init__()
        self.inner, self.change = inner, change

    def forward(self, *args):
        return self.change(self.inner(*args))


class BiasedElu(Elu):
    """A bias is fine for scalars and for nothing else."""

    def forward(self, field):
        return {degree: value + 0.1 for degree, value in super().forward(field).items()}


class OffCenter(BITR):
    def _enter(self, source, reference):
        x, y, frame = super()._enter(source, reference)
        return replace(x, points=x.points + 0.1), replace(y, points=y.points + 0.1), frame


class WithALengthOfItsOwn(BITR):
    """The unit is of scale degree 1 no more."""

    def _enter(self, source, reference):
        x, y, frame = super()._enter(source, reference)
        factor = frame.unit / (frame.unit + 0.1)
        x, y = (replace(cloud, points=cloud.points * factor.to(cloud.points)) for cloud in (x, y))
        return x, y, replace(frame, unit=frame.unit + 0.1)


class RemembersTheUnit(BITR):
    """A layer deep inside hears of the unit that the pair was divided by."""

    def _enter(self, source, reference):
        x, y, frame = super()._enter(source, reference)
        self.transform.blocks[1].elu.change = lambda field: {
            degree: value * (1 + frame.unit) for degree, value in field.items()
        }
        return x, y, frame


class PushedAtTheEnd(BITR):
    def forward(self, source, reference):
        pose = super().forward(source, reference)
        return Rigid(pose.rotation, pose.translation + torch.tensor([0.1, 0.0, 0.0]).to(pose.translation))


class ReachOfTheSource(KeyPointNetwork):
    """One cloud's length as the unit of both."""

    def _unit(self, around):
        return around.mean_reach().chunk(2)[0].repeat(2)


def constant_vector() -> BITR:
    model = small()
    block = model.extract.blocks[1]
    block.layer = Then(block.layer, lambda field: {**field, (1, 0): field[1, 0] + 0.1})
    return model


def biased_elu() -> BITR:
    model = small()
    model.extract.blocks[0].elu.__class__ = BiasedElu
    return model


def constant_matrix() -> BITR:
    model = small()
    block = model.transform.blocks[0]
    block.norm = Then(block.norm, lambda field: {**field, (1, 1): field[1, 1] + 0.1})
    return model


def prefers_the_source() -> BITR:
    """Scalars of the first points in the row, which are the source's, are pushed."""
    model = small()

    def push(field):
        pushed = field[0, 0].clone()
        pushed[:10] += 0.1
        return {**field, (0, 0): pushed}

    model.extract.last = Then(model.extract.last, push)
    return model


def one_sided_unit() -> BITR:
    model = small()
    model.extract.__class__ = ReachOfTheSource
    return model


def remembers_the_unit() -> BITR:
    model = small(RemembersTheUnit)
    block = model.transform.blocks[1]
    block.elu = Then(block.elu, lambda field: field)
    return model


BROKEN = {
    "a layer that adds a constant vector": (constant_vector, {"bi": "extract.blocks.1.layer"}),
    "an Elu with a bias on vectors": (biased_elu, {"bi": "extract.blocks.0.elu"}),
    "a constant matrix on the merged cloud": (constant_matrix, {"bi": "transform.blocks.0.norm"}),
    "a centring that is off": (lambda: small(OffCenter), {"bi": "centring"}),
    "weights untied": (lambda: small(swap=False), {"swap": "transform.embed"}),
    "one cloud's length for both": (one_sided_unit, {"swap": "extract.edges"}),
    "a layer that prefers the source": (prefers_the_source, {"swap": "extract.last"}),
    "no unit of length": (lambda: small(scale=False), {"scale": "centring"}),
    "a length of its own": (lambda: small(WithALengthOfItsOwn), {"scale": "centring"}),
    "a layer that knows the unit": (remembers_the_unit, {"scale": "transform.blocks.1.elu"}),
    "a push at the end": (
        lambda: small(PushedAtTheEnd),
        {"bi": "projection", "swap": "projection", "scale": "projection"},
    ),
}
"""Each with the laws that it breaks and the stage where each of them breaks first."""
