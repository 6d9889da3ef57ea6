"""Pieces, motions and weights that the tests of the whole pipeline share."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
import trimesh

from bitr import Rigid, save
from bitr.data import bumpy_shape, cut
from bitr.groups import rotation_angle
from bitr.model import BITR, BITRConfig
from bitr.testing import cloud_size


def untrained(seed: int = 0, **config: bool) -> BITR:
    torch.manual_seed(seed)
    return BITR(BITRConfig(**config)).eval()


def model_file(folder: Path) -> Path:
    """Weights as they would ship: float32, on disk."""
    return save(untrained(), folder / "model.safetensors")


def two_pieces(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two pieces of a generated shape of n points, that do not overlap."""
    rng = torch.Generator().manual_seed(seed)
    x, y = cut(bumpy_shape(n, rng), 0.4, rng)
    return x.numpy(), y.numpy()


def bumpy_mesh(seed: int) -> trimesh.Trimesh:
    """A closed surface without symmetry."""
    mesh = trimesh.creation.icosphere(subdivisions=3)
    rng = np.random.default_rng(seed)
    bumps = np.exp(3 * (mesh.vertices @ rng.normal(size=(3, 5)) - 2)).sum(1)
    mesh.vertices *= (1 + 0.3 * np.tanh(bumps))[:, None] * [1.0, 0.8, 0.6]
    return mesh


def motion(seed: int, size: float = 2.0) -> np.ndarray:
    return Rigid.random(torch.Generator().manual_seed(seed), size=size).matrix().numpy()


def moved(points: np.ndarray, pose: np.ndarray) -> np.ndarray:
    return points @ pose[:3, :3].T + pose[:3, 3]


def scaled(pose: np.ndarray, factor: float) -> np.ndarray:
    """The same motion in another unit of length."""
    return pose * np.array([[1, 1, 1, factor]] * 3 + [[1, 1, 1, 1]])


def assert_same_pose(
    actual: np.ndarray, expected: np.ndarray, source: np.ndarray, degrees: float = 1e-3, length: float = 1e-4
) -> None:
    """To ``degrees``, and at the source's centroid to ``length`` of the source's size."""
    turn = torch.from_numpy(actual[:3, :3] @ expected[:3, :3].T)
    off = np.linalg.norm(moved(source.mean(0), actual) - moved(source.mean(0), expected)) / cloud_size(source)
    assert float(rotation_angle(turn)) * 180 / np.pi <= degrees
    assert off <= length
