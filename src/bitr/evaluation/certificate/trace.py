"""The features of a model at every stage of a forward pass, taken by hooks: the model needs no change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn

from bitr.evaluation.certificate.features import Features, OfClouds, OfMerged
from bitr.groups import Cloud, Field, Rigid
from bitr.layers import Edges, Elu, TransformerLayer, WholeCloudBlock
from bitr.model import BITR
from bitr.model.keypoints import KeyPoints


@dataclass(frozen=True)
class Trace:
    """The features of one pair stage by stage, in the order in which they are computed, and its pose."""

    stages: dict[str, Features]
    pose: Rigid


def trace(model: BITR, x: Cloud, y: Cloud) -> Trace:
    """Run the model on one pair and keep what its layers give."""
    recorder = _Recorder(x.points.shape[1])
    with _hooked(model, recorder):
        pose = model(x, y)
    return Trace(recorder.stages, pose)


class _Recorder:
    """Turns what goes in and out of modules into features of the clouds or of the merged cloud."""

    def __init__(self, n_source: int) -> None:
        self.n_source = n_source
        self.stages: dict[str, Features] = {}
        self.last: object = None

    def centred(self, module: nn.Module, args: tuple[Cloud, Cloud]) -> None:
        x, y = ({(1, 0): cloud.points[0, :, :, None]} for cloud in args)
        self.stages["centring"] = OfClouds(x, y)

    def entered(self, module: nn.Module, args: tuple[Field, Edges, Any]) -> None:
        field, edges, _ = args
        offsets, own = _edge_field(edges), slice(self.n_source)
        other = slice(self.n_source, None)
        self.stages["extract.edges"] = OfClouds(_rows(offsets, own), _rows(offsets, other))
        self.stages["extract.inputs"] = self._in_one_row(field)

    def fused(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        if isinstance(args[0], dict):  # of a wide model, the scalars alone
            self.stages["extract.fuse"] = self._in_one_row(args[0])

    def selected(self, module: nn.Module, args: Any, keys: tuple[KeyPoints, KeyPoints]) -> None:
        x, y = (_key_field(key) for key in keys)
        self.stages["extract.keypoints"] = OfClouds(x, y)

    def merged(self, module: nn.Module, args: tuple[Tensor, Field]) -> None:
        z, field = args
        places = {(1, 0): z[0, :, :3, None], (0, 1): z[0, :, 3:, None]}
        self.stages["merge"] = OfMerged(_beside(field, places))

    def entered_merged(self, module: nn.Module, args: tuple[Field, Edges, Any]) -> None:
        self.stages["transform.edges"] = OfMerged(_edge_field(args[1]))

    def output(self, path: str) -> Any:
        """A hook for any module; what is no field, or the very field of the stage before, is passed over."""

        def keep(module: nn.Module, args: Any, out: Any) -> None:
            if not isinstance(out, dict) or out is self.last:
                return
            self.last = out
            one_cloud = path.startswith("extract")
            self.stages[path] = self._in_one_row(out) if one_cloud else OfMerged(out)

        return keep

    def _in_one_row(self, field: Field) -> OfClouds:
        return OfClouds(_rows(field, slice(self.n_source)), _rows(field, slice(self.n_source, None)))


@contextmanager
def _hooked(model: BITR, recorder: _Recorder) -> Iterator[None]:
    extract, transform = model.extract, model.transform
    handles = [
        extract.register_forward_pre_hook(recorder.centred),
        extract.blocks[0].register_forward_pre_hook(recorder.entered),
        extract.last.register_forward_pre_hook(recorder.fused),
        extract.register_forward_hook(recorder.selected),
        transform.register_forward_pre_hook(recorder.merged),
        transform.blocks[0].register_forward_pre_hook(recorder.entered_merged),
    ]
    handles += [module.register_forward_hook(recorder.output(path)) for path, module in _layers(model)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _layers(module: nn.Module, path: str = "") -> Iterator[tuple[str, nn.Module]]:
    """All modules but the insides of a layer, with their paths."""
    if path:
        yield path, module
    if not isinstance(module, Elu | TransformerLayer | WholeCloudBlock):
        for name, child in module.named_children():
            yield from _layers(child, f"{path}.{name}" if path else name)


def _rows(field: Field, which: slice) -> Field:
    return {degree: values[which] for degree, values in field.items()}


def _key_field(key: KeyPoints) -> Field:
    return _beside(
        {degree: values[0] for degree, values in key.field.items()}, {(1, 0): key.points[0, :, :, None]}
    )


def _beside(field: Field, more: Field) -> Field:
    """More channels for some degrees."""
    return {**field, **{d: torch.cat([field[d], values], dim=-1) for d, values in more.items()}}


def _edge_field(edges: Edges) -> Field:
    """Directions and offsets to the neighbours as channels, in the order of the neighbours' numbers.

    The order of distances could be decided by rounding. The numbers within a cloud are in the same order
    whichever cloud comes first.
    """
    order = edges.index.argsort(-1)
    degrees = ((1, 0), (0, 1))[: edges.sides]
    return {
        degree: torch.cat([_ordered(side, edges, order), _ordered(side * length, edges, order)], dim=-1)
        for degree, side, length in zip(degrees, edges.directions, edges.lengths, strict=True)
    }


def _ordered(values: Tensor, edges: Edges, order: Int[Tensor, "N k"]) -> Tensor:
    """From (3, N, k) to (N, 3, k); places without a neighbour hold 0."""
    if edges.valid is not None:
        values = values.masked_fill(~edges.valid, 0)
    return values.take_along_dim(order[None], dim=-1).movedim(0, 1)
