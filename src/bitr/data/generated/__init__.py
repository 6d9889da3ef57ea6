"""The data sets ``shapes``, endless pairs of generated objects, and ``shapes:many``, puzzles of them."""

from bitr.data.generated.dataset import ManyConfig, ShapesConfig, puzzles, shapes
from bitr.data.generated.fracture import ShapeCache, broken_solid

__all__ = ["ManyConfig", "ShapeCache", "ShapesConfig", "broken_solid", "puzzles", "shapes"]
