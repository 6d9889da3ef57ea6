"""The data set ``shapes``: endless pairs of generated objects, which no download is needed for."""

from bitr.data.generated.cache import ShapeCache, broken_solid
from bitr.data.generated.config import ShapesConfig
from bitr.data.generated.dataset import INFO, shapes

__all__ = ["INFO", "ShapeCache", "ShapesConfig", "broken_solid", "shapes"]
