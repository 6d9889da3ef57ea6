"""The sizes and choices of a model: saved inside every checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from bitr.errors import require
from bitr.settings import from_mapping

LIMITS = {
    "num_keypoints": (4, 4096),
    "num_layers": (1, 64),
    "channels": (1, 256),
    "cloud_channels": (1, 256),
    "width": (1, 1024),
    "depth": (1, 64),
    "num_neighbors": (1, 4096),
    "max_degree": (1, 6),
    "num_heads": (1, 256),
    "num_modes": (1, 64),
}
"""Far beyond any use, and below what a damaged file could ask for."""

BEFORE = {"offset": False, "dense": False, "num_modes": 1, "spread": False, "mating": False}
"""Settings of a checkpoint that is older than they are and does not name them."""


@dataclass(frozen=True)
class BITRConfig:
    """``BITRConfig()`` is our default; ``BITRConfig.paper()`` is the paper's own construction."""

    num_keypoints: int = 16
    num_layers: int = 1
    channels: int = 4
    """Channels of each degree on the merged cloud (Φ_S)."""
    cloud_channels: int = 8
    """Channels of each degree on the edges of the clouds (Φ_E). The paper has one number for both."""
    extractor: Literal["wide", "paper"] = "wide"
    """Φ_E: few layers on neighbourhoods and many channels on whole clouds, or the paper's stack of layers."""
    width: int = 32
    """Channels of each degree in the blocks of the wide extractor that see whole clouds."""
    depth: int = 3
    """Number of these blocks after each layer on neighbourhoods."""
    num_neighbors: int = 16
    max_degree: int = 1
    num_heads: int = 2
    radial: Literal["chebyshev", "homogeneous"] = "chebyshev"
    radial_functions: tuple[int, int] = (3, 2)
    """Number of functions of a distance in a cloud, and of each of the two distances in the merged cloud."""
    smooth: bool = True
    """Continuous in the points: an envelope on neighbours, directions and Elu that fade, not jump."""
    position_features: bool = True
    """The input features are x − m(X) and its length beside a constant."""
    normalize: bool = True
    """Fields at size 1 before each Elu layer, so that key points start spread out and not at the centroid."""
    offset: bool = True
    """Key points may leave the convex hull by a learned vector, to a place that neither piece has."""
    dense: bool = True
    """Every point predicts contact, the nearest point of the other piece, and the centre of the whole."""
    num_modes: int = 4
    """Number of poses that the model holds possible, each with a score."""
    spread: bool = True
    """Scores come with how well the place is known, which a likelihood learns; else it is a constant."""
    mating: bool = False
    """Every point predicts whether it lies on a break, and descriptors that match those of the other side."""
    normals: bool = False
    colors: bool = False
    swap: bool = True
    scale: bool = True

    @classmethod
    def paper(cls, **changes: Any) -> BITRConfig:
        """The construction of the paper: φ₀ and φ₁ of App. C.4, plain softmax, a constant as input."""
        own: dict[str, Any] = {
            "num_keypoints": 32,
            "num_layers": 2,
            "cloud_channels": 4,
            "extractor": "paper",
            "num_neighbors": 24,
            "radial": "homogeneous",
            "radial_functions": (96, 16),
            "smooth": False,
            "position_features": False,
            "normalize": False,
            **BEFORE,
        }
        return cls(**(own | changes))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> BITRConfig:
        """The inverse of ``to_dict``; an unknown key raises and names the nearest one.

        Settings that are newer than the checkpoint are off.
        """
        return from_mapping(cls, {**BEFORE, **values}, "model")

    def basis_size(self, sides: int) -> int:
        """Number of functions of a length that the edges carry; the paper's are networks of each layer."""
        return self.radial_functions[sides - 1] if self.radial == "chebyshev" else 0

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __post_init__(self) -> None:
        if self.width == 0:  # how files older than ``extractor`` name the paper's
            object.__setattr__(self, "extractor", "paper")
            object.__setattr__(self, "width", type(self).width)
        for name, (least, most) in LIMITS.items():
            value = getattr(self, name)
            fits = type(value) is int and least <= value <= most
            require(fits, f"{name} = {value!r}: expected a whole number from {least} to {most}")
        both = self.radial_functions
        fits = isinstance(both, tuple) and [type(f) for f in both] == [int, int]
        expected = "expected a tuple of two numbers from 1 to 512"
        require(fits and 1 <= min(both) <= max(both) <= 512, f"radial_functions = {both!r}: {expected}")
        choices = {"radial": ("chebyshev", "homogeneous"), "extractor": ("wide", "paper")}
        for field in fields(self):
            one, other = choices.get(field.name, (True, False))
            value = getattr(self, field.name)
            fits = type(value) is type(one) and value in (one, other)
            is_free = field.type != "bool" and field.name not in choices
            require(is_free or fits, f"{field.name} = {value!r}: expected {one!r} or {other!r}")
        scored = f"num_modes = {self.num_modes}: scores are made of dense outputs, set dense = True"
        require(self.num_modes == 1 or self.dense, scored)
        require(self.normals or not self.mating, "mating = True: breaks face each other, set normals = True")
        for name in ("channels", "cloud_channels", "num_keypoints"):
            found = f"{name} = {getattr(self, name)} is not a multiple of num_heads = {self.num_heads}"
            require(getattr(self, name) % self.num_heads == 0, found)
