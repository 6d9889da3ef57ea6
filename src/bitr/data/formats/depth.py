"""Depth images with poses, as 7-Scenes and 3DMatch record them, fused into fragments.

A fragment is a run of 50 frames, as in 3DMatch: each fifth frame is back-projected and taken into the camera
of the first one, and the points of all are averaged on a grid. There is no test for free space, so noise at
the rims of objects stays in.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from bitr.data.poses import inverse, pose_of_numbers
from bitr.data.scans import Scan
from bitr.data.transforms import sample_grid
from bitr.errors import InputError
from bitr.io import Geometry, join

FRAMES, GRID = 50, 0.025
EVERY = 5
"""Of a run, each fifth frame is fused: neighbours see the same."""
NO_DEPTH = (0, 65535)
NEAREST, FARTHEST = 0.1, 5.0
"""In metres; beyond, a Kinect measures mostly noise."""
KINECT = np.array([[585.0, 0.0, 320.0], [0.0, 585.0, 240.0], [0.0, 0.0, 1.0]])
"""The intrinsics that 7-Scenes states for all its scenes; a file camera-intrinsics.txt goes before."""


@dataclass(frozen=True, eq=False)
class Run:
    """Frames of one sequence that make a fragment, in the coordinates of the first one's camera."""

    frames: tuple[Path, ...]
    intrinsics: Float64[np.ndarray, "3 3"]

    def __call__(self) -> Geometry:
        first_from_world = inverse(frame_pose(self.frames[0]))
        clouds = []
        for path in self.frames[::EVERY]:
            cloud = Geometry(back_projected(read_depth(path), self.intrinsics), name=str(path))
            if len(cloud.points):
                clouds.append(cloud.moved(first_from_world @ frame_pose(path)))
        if not clouds:
            raise InputError(
                f"{self.frames[0]}: no depth in it or in the {len(self.frames) - 1} frames after it"
            )
        return sample_grid(join(clouds, str(self.frames[0])), GRID)


def read_depth_scene(folder: Path) -> list[Scan]:
    """The fragments of all sequences of a scene, one after the other."""
    intrinsics = _intrinsics(folder)
    scans: list[Scan] = []
    for sequence in sorted(folder.glob("seq-*")):
        frames = sorted(sequence.glob("frame-*.depth.png"))
        # a rest that is shorter than half a run joins the one before it
        starts = list(range(0, max(len(frames) - FRAMES // 2, 0) + 1, FRAMES))
        for start, stop in pairwise([*starts, len(frames)]):
            run = tuple(frames[start:stop])
            if run:
                scans.append(Scan(len(scans), Run(run, intrinsics), frame_pose(run[0])))
    return scans


def back_projected(
    depth: Float64[np.ndarray, "h w"], intrinsics: Float64[np.ndarray, "3 3"]
) -> Float64[np.ndarray, "n 3"]:
    """The points that the pixels with a depth show, in the camera's frame: z forward, y down."""
    row, column = np.nonzero((depth > NEAREST) & (depth < FARTHEST))
    rays = np.stack([column, row, np.ones(len(row))], axis=1) @ np.linalg.inv(intrinsics).T
    return rays * depth[row, column, None]


def read_depth(path: Path) -> Float64[np.ndarray, "h w"]:
    """The depths of a 16-bit image, in metres; 0 where there is none."""
    try:
        from PIL import Image
    except ModuleNotFoundError as error:
        raise InputError(f'{path}: reading depth images needs pillow: pip install "bitr[data]"') from error
    try:
        with Image.open(path) as image:
            pixels = np.asarray(image)
    except (OSError, SyntaxError, ValueError) as error:
        raise InputError(f"{path}: damaged or not an image ({str(error)[:80]})") from error
    if pixels.ndim != 2 or pixels.dtype.kind not in "iu" or pixels.dtype.itemsize < 2:
        raise InputError(
            f"{path}: {pixels.dtype} of the shape {pixels.shape}, expected 16-bit depths in millimetres"
        )
    return np.where(np.isin(pixels, NO_DEPTH), 0, pixels) / 1000.0


def frame_pose(depth: Path) -> Float64[np.ndarray, "4 4"]:
    """``world_from_camera`` of a frame, from the pose file beside its depth image."""
    path = depth.with_name(depth.name.replace(".depth.png", ".pose.txt"))
    if not path.is_file():
        raise InputError(f"{path}: no such file, expected the pose of {depth.name}")
    return pose_of_numbers(path.read_text(encoding="utf-8"), str(path))


def _intrinsics(folder: Path) -> Float64[np.ndarray, "3 3"]:
    path = folder / "camera-intrinsics.txt"
    if not path.is_file():
        return KINECT
    try:
        matrix = np.loadtxt(path, dtype=np.float64, ndmin=2)
    except ValueError as error:
        raise InputError(f"{path}: {str(error)[:80]}, expected a 3×3 matrix") from error
    if matrix.shape != (3, 3):
        raise InputError(f"{path}: a matrix of the shape {matrix.shape}, expected 3×3")
    return matrix
