"""What is drawn from the generated shapes."""

from __future__ import annotations

from dataclasses import dataclass

from bitr.errors import InputError

KINDS = ("fracture", "cut", "crop")


@dataclass(frozen=True)
class ShapesConfig:
    """How pairs are made; lengths are in a unit in which every shape fits a ball of radius 1.

    Levels of noise, outliers and unevenness are the highest: each side draws its own between 0, or the
    lowest level, and it.
    """

    points: int = 1000
    """Of either side; a cut shares out twice as many between its two sides."""
    mix: tuple[float, float, float] = (0.5, 0.2, 0.3)
    """How much there is of each kind: pieces of a fracture, whose broken surfaces match; a surface cut in two
    by a plane, with nothing in common; a surface cropped twice, by a plane for each side, which overlap."""
    pieces: tuple[int, int] = (2, 8)
    """Fewest and most that a solid breaks into."""
    share: tuple[float, float] = (0.3, 0.7)
    """Of the points of a cut, those of the source."""
    keep: tuple[float, float] = (0.3, 0.9)
    """Of the surface, what a crop keeps."""
    overlap: float = 0.1
    """Of the smaller crop, what at least lies in the other too; less would not tell the pose."""
    noise: float = 0.005
    """Standard deviation of each coordinate."""
    least_noise: float = 0.0
    """The lowest level of noise."""
    outliers: float = 0.0
    """As a share of the points; uniform in a cube around the shape."""
    unevenness: float = 0.5
    """How much the density changes across a side: e^unevenness for one standard deviation of its points."""
    solids: int = 1024
    """Different shapes to train from; each is made once and stored."""

    def __post_init__(self) -> None:
        low, high = self.pieces
        rules = {
            "points": self.points >= 1,
            "mix": len(self.mix) == len(KINDS) and min(self.mix) >= 0 and sum(self.mix) > 0,
            "pieces": 2 <= low <= high <= 8,
            "share": 0 < self.share[0] <= self.share[1] < 1,
            "keep": 0 < self.keep[0] <= self.keep[1] <= 1,
            "overlap": 0 <= self.overlap <= 1,
            "noise": self.noise >= self.least_noise,
            "least_noise": self.least_noise >= 0,
            "outliers": 0 <= self.outliers <= 1,
            "unevenness": 0 <= self.unevenness <= 3,
            "solids": self.solids >= 1,
        }
        for name, kept in rules.items():
            if not kept:
                raise InputError(f"ShapesConfig: {name} = {getattr(self, name)!r} is out of range")
