"""The data sets ``shapes``, endless pairs of generated objects, and ``shapes:many``, puzzles of them."""

from bitr.data.generated.dataset import ShapesConfig, shapes
from bitr.data.generated.fracture import ShapeCache, broken_solid
from bitr.data.generated.many import ManyConfig, puzzles

__all__ = ["ManyConfig", "ShapeCache", "ShapesConfig", "broken_solid", "puzzles", "shapes"]
