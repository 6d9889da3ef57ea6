"""What is compared in a table: anything that turns a pair into a pose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from bitr.assembly.assemble import Assembly, Settings, assemble_geometries
from bitr.assembly.network import Network
from bitr.data import AssemblyPair
from bitr.model import BITR, FrozenBITR

Pose = Float64[np.ndarray, "4 4"]
Solve = Callable[[AssemblyPair], "Pose | Assembly"]
"""The pose ``ref_from_src`` of a pair, or an answer with a confidence. Only a bound may look at the pair's
own ``ref_from_src``."""


@dataclass(frozen=True)
class Method:
    """A way to assemble, and what the tables call it."""

    name: str
    solve: Solve

    def pose(self, pair: AssemblyPair) -> Pose:
        return pose_of(self.solve(pair))


def pose_of(answer: Pose | Assembly) -> Pose:
    return answer.transformation if isinstance(answer, Assembly) else answer


def engine(network: Network, settings: Settings | None = None, name: str = "") -> Method:
    """What ``bitr assemble`` answers, with these weights and settings."""
    chosen = settings or Settings()
    return Method(
        name or network.name,
        lambda pair: assemble_geometries(pair.source, pair.reference, network, chosen),
    )


def model_alone(model: BITR, points: int | None, name: str = "BITR") -> Method:
    """What ``bitr assemble --fast`` answers: one forward pass of the model."""
    return engine(Network(_frozen(model), name, points), Settings(fast=True))


def network_of(model: BITR, points: int | None, joints: tuple[str, ...], name: str = "BITR") -> Network:
    """The engine's network from a model that was just trained."""
    return Network(_frozen(model), name, points, joints)


def _frozen(model: BITR) -> BITR:
    return model if isinstance(model, FrozenBITR) else FrozenBITR(model.double())
