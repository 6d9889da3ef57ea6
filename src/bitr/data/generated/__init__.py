"""The data set ``shapes``: endless pairs of generated objects; no download is needed."""

from bitr.data.generated.dataset import ShapesConfig, shapes
from bitr.data.generated.fracture import ShapeCache, broken_solid

__all__ = ["ShapeCache", "ShapesConfig", "broken_solid", "shapes"]
