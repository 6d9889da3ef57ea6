"""Pairs that overlap well, and small helpers to look at the answers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from scipy.spatial.transform import Rotation

from bitr.data import AssemblyPair, bumpy_shape
from bitr.data.poses import pose
from bitr.data.transforms import assembled, crop, move
from bitr.groups import rotation_angle
from bitr.io import Geometry

AXIS = np.array([1.0, 2.0, -2.0]) / 3


def easy_pair(degrees: float, n: int = 1200, keep: float = 0.9, seed: int = 1) -> AssemblyPair:
    """Two samples of a bumpy shape, either cropped; the source is turned away by that angle and shifted."""
    rng = np.random.default_rng(seed)
    points = bumpy_shape(2 * n, torch.Generator().manual_seed(seed)).numpy()
    source, reference = (crop(Geometry(half), keep, rng) for half in (points[:n], points[n:]))
    turned = pose(Rotation.from_rotvec(np.deg2rad(degrees) * AXIS).as_matrix(), np.array([0.1, -0.05, 0.05]))
    return move(assembled(source, reference, "easy"), turned, np.eye(4))


def scaled(pair: AssemblyPair, factor: float) -> AssemblyPair:
    answer = pair.ref_from_src.copy()
    answer[:3, 3] *= factor
    source, reference = (replace(p, points=factor * p.points) for p in (pair.source, pair.reference))
    return replace(pair, source=source, reference=reference, ref_from_src=answer)


def degrees_off(found: np.ndarray, pair: AssemblyPair) -> float:
    turn = torch.from_numpy(pair.ref_from_src[:3, :3].T @ found[:3, :3])
    return float(torch.rad2deg(rotation_angle(turn)))


def apart(found: np.ndarray, pair: AssemblyPair) -> float:
    """How far the source's centroid is from its place, over the size of the source."""
    x = pair.source.points
    there = x.mean(0) @ (found - pair.ref_from_src)[:3, :3].T + (found - pair.ref_from_src)[:3, 3]
    return float(np.linalg.norm(there) / x.std())
