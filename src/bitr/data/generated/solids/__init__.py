"""Random closed solids: nine families of objects, with fractal detail."""

from bitr.data.generated.solids.families import FAMILIES, random_solid
from bitr.data.generated.solids.kernel import Solid

__all__ = ["FAMILIES", "Solid", "random_solid"]
