"""Fractal detail: sums of plane waves whose lengths halve from octave to octave."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float64

WAVES = 7
"""Plane waves in an octave: enough that no direction stands out."""


@dataclass(frozen=True, eq=False)
class Fractal:
    """A smooth field x ↦ Σ gain · cos(wave·x + phase), with c components, on a space of d dimensions."""

    wave: Float64[np.ndarray, "w d"]
    phase: Float64[np.ndarray, " w"]
    gain: Float64[np.ndarray, "w c"]

    @classmethod
    def random(
        cls, rng: np.random.Generator, d: int, c: int, longest: float, octaves: int, roughness: float
    ) -> Fractal:
        """Wave lengths ``longest``, /2, /4, …; amplitudes length^(1.5 − roughness): 0 smooth, 1 jagged."""
        direction = rng.normal(size=(octaves, WAVES, d))
        direction /= np.linalg.norm(direction, axis=-1, keepdims=True)
        length = longest * 0.5 ** np.arange(octaves)[:, None] * rng.uniform(0.75, 1.3, (octaves, WAVES))
        gain = rng.normal(size=(octaves, WAVES, c)) * (length ** (1.5 - roughness))[..., None]
        phase = rng.uniform(0, 2 * np.pi, octaves * WAVES)
        wave = (2 * np.pi / length[..., None] * direction).reshape(-1, d)
        return cls(wave, phase, gain.reshape(-1, c))

    def __call__(self, points: Float64[np.ndarray, "n d"]) -> Float64[np.ndarray, "n c"]:
        return np.cos(points @ self.wave.T + self.phase) @ self.gain

    def slope(self, points: Float64[np.ndarray, "n d"]) -> float:
        """The largest stretch of the field at the points: the greatest singular value of its derivative."""
        rate = -np.sin(points @ self.wave.T + self.phase)
        return float(np.linalg.norm(np.einsum("nw,wc,wd->ncd", rate, self.gain, self.wave), 2, (1, 2)).max())

    def times(self, factor: float) -> Fractal:
        return replace(self, gain=self.gain * factor)
