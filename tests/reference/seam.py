"""The pairing of borders and the step that brings them together, point by point as the formulas read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial.transform import Rotation

from bitr.assembly.seam import ACROSS, ALONG, DAMPING, LESS, OUT, TURNED
from bitr.assembly.surface import Border


@dataclass
class Met:
    """One border point of one piece and its nearest on the other, under one motion."""

    p: np.ndarray
    q: np.ndarray
    normal_p: np.ndarray
    normal_q: np.ndarray
    outward_p: np.ndarray
    outward_q: np.ndarray
    share: float

    @property
    def squared(self) -> float:
        gap = self.p - self.q
        tangent = np.cross(self.normal_p, self.outward_p) - np.cross(self.normal_q, self.outward_q)
        length = np.linalg.norm(tangent)
        counted = gap @ gap
        return counted - LESS * (gap @ tangent / length) ** 2 if length > 1 else counted

    @property
    def alignment(self) -> float:
        agree, oppose = self.normal_p @ self.normal_q, -(self.outward_p @ self.outward_q)
        return min(max(agree, 0), 1) * min(max(oppose, 0), 1)


def meet(x: Border, y: Border, motion: np.ndarray) -> list[Met]:
    """Every point of either border with the nearest of the other."""
    turn, points = motion[:3, :3], x.points @ motion[:3, :3].T + motion[:3, 3]
    apart = np.linalg.norm(points[:, None] - y.points, axis=2)
    couples = [(i, int(apart[i].argmin()), 0.5 / len(x)) for i in range(len(x))]
    couples += [(int(apart[:, j].argmin()), j, 0.5 / len(y)) for j in range(len(y))]
    found = []
    for i, j, share in couples:
        normal_p, normal_q = turn @ x.normals[i], y.normals[j]
        sign = np.sign(normal_p @ normal_q)
        outward = turn @ x.outward[i], y.outward[j]
        found.append(Met(points[i], y.points[j], normal_p, sign * normal_q, *outward, share))
    return found


def step(met: list[Met], width: float, spacing: float) -> np.ndarray:
    """Least squares for (omega, v), row by row; the arms are about the weighted mean of the midpoints."""
    weights = np.array([m.share * max(m.alignment, 0.05) / (1 + m.squared / width**2) ** 2 for m in met])
    weights /= weights.sum()
    center = sum(w * (m.p + m.q) / 2 for w, m in zip(weights, met, strict=True))
    a, b = np.zeros((6, 6)), np.zeros(6)

    def add(row: np.ndarray, residual: float, weight: float) -> None:
        nonlocal a, b
        a, b = a + weight * np.outer(row, row), b + weight * residual * row

    for w, m in zip(weights, met, strict=True):
        arm, gap = (m.p + m.q) / 2 - center, m.p - m.q
        normal, outward = (m.normal_p + m.normal_q) / 2, (m.outward_p - m.outward_q) / 2
        places = [(normal, ACROSS), (outward, OUT), *((axis, ALONG) for axis in np.eye(3))]
        for direction, size in places:
            row = np.concatenate([np.cross(arm, direction), direction])
            add(row, direction @ gap, w / (size * spacing) ** 2)
        for mean, off in ((normal, m.normal_p - m.normal_q), (outward, m.outward_p + m.outward_q)):
            for k, axis in enumerate(np.eye(3)):  # the k-th coordinate of off + omega x mean
                row = np.concatenate([np.cross(mean, axis), np.zeros(3)])
                add(row, off[k], w / TURNED**2)
    a += DAMPING * np.trace(a) / 6 * np.eye(6)
    solved = -np.linalg.solve(a, b)
    turn, half = Rotation.from_rotvec(solved[:3]).as_matrix(), solved[3:] / 2
    motion = np.eye(4)
    motion[:3, :3], motion[:3, 3] = turn, center + half + turn @ (half - center)
    return motion
