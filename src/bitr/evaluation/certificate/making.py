"""The certificate of a model, and the audit of any other method."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64

from bitr.errors import InputError
from bitr.evaluation.certificate.certificate import Certificate, Skipped
from bitr.evaluation.certificate.layers import layer_rows
from bitr.evaluation.certificate.model_routes import (
    POINTS,
    compiled_route,
    eager_routes,
    exported_route,
    onnx_route,
)
from bitr.evaluation.certificate.pairs import cloud_pair
from bitr.evaluation.certificate.refinements import refinement_routes
from bitr.evaluation.certificate.routes import MOST_TRIALS, Route
from bitr.groups import Rigid
from bitr.io import Geometry
from bitr.model import BITR

TRACED = {"compiled": compiled_route, "torch.export": exported_route, "ONNX": onnx_route}

Method = Callable[[Float64[np.ndarray, "n 3"], Float64[np.ndarray, "n 3"]], Any]
"""From the points of source and reference to a pose, as a ``Rigid`` or a 4×4 matrix."""

log = logging.getLogger("bitr")


@torch.no_grad()
def certify(
    model: BITR,
    *,
    name: str = "BITR",
    trials: int = 10,
    seed: int = 0,
    traced: Sequence[str] = ("compiled", "torch.export"),
    routes: Sequence[Route] = (),
) -> Certificate:
    """The laws of every layer of ``model`` in float64, and of the model end to end.

    End to end in float64, float32 and under bfloat16 autocast, ``traced`` in these ways (also "ONNX"), and on
    ``routes`` around the model, such as preprocessing. Each trial has a new pair, new motions, a new factor.
    Refinement is also tried without the model.
    """
    _check_trials(trials)
    log.info("checking the layers")
    rows = layer_rows(model, cloud_pair(POINTS), trials, seed)
    for route in (*eager_routes(model), *refinement_routes(), *routes):
        log.info("checking %s", route.path)
        rows += route.rows(trials, seed)
    skipped = []
    for path, make in TRACED.items():
        if path not in traced:
            skipped.append(Skipped(path, "not asked for"))
            continue
        log.info("checking %s, which takes a while", path)
        try:
            rows += make(model).rows(trials, seed)
        except Exception as error:  # what cannot be traced breaks no law; tracers raise all kinds of errors
            first = (str(error).strip().splitlines() or [""])[0]
            skipped.append(Skipped(path, first if isinstance(error, InputError) else f"failed: {first}"))
    return Certificate(name, seed, tuple(rows), tuple(skipped))


def audit(method: Method, *, name: str = "method", trials: int = 10, seed: int = 0) -> Certificate:
    """The laws of any function of two (n, 3) float64 arrays of equally many points, end to end.

    An answer in float32 is held to the bounds of float32.
    """
    _check_trials(trials)

    def solve(source: Geometry, reference: Geometry) -> Any:
        return _checked(method(source.points.copy(), reference.points.copy()), name)

    make = cloud_pair(POINTS, share=0.5)
    first = solve(*make(torch.Generator().manual_seed(seed)))
    kind = (first.rotation if isinstance(first, Rigid) else torch.as_tensor(first)).dtype
    route = Route(name, solve, "float32" if kind == torch.float32 else "method", make)
    return Certificate(name, seed, tuple(route.rows(trials, seed)))


def _checked(answer: Any, name: str) -> Any:
    """The answer as it is, when it is a pose."""
    if isinstance(answer, Rigid):
        shape: tuple[int, ...] = (*answer.rotation.shape[:-2], 4, 4)
    else:
        try:
            shape = tuple(torch.as_tensor(answer).shape)
        except (TypeError, ValueError, RuntimeError) as error:
            raise InputError(f"{name}: returned {type(answer).__name__}, expected a 4×4 matrix") from error
    if shape not in ((4, 4), (1, 4, 4)):
        raise InputError(f"{name}: returned shape {shape}, expected a 4×4 matrix or a Rigid")
    return answer


def _check_trials(trials: int) -> None:
    if not 1 <= trials <= MOST_TRIALS:
        raise InputError(f"trials = {trials}: expected a whole number from 1 to {MOST_TRIALS}")
