"""Equivariant layers on dense neighbourhoods, for one cloud (3-D) and for the merged cloud (6-D)."""

from bitr.layers.activation import Elu
from bitr.layers.attention import TransformerLayer
from bitr.layers.clouds import Clouds
from bitr.layers.edges import Edges, Neighborhoods, edges_of, gather_neighbors
from bitr.layers.feed_forward import FeedForward
from bitr.layers.linear import DegreeLinear
from bitr.layers.neighbors import nearest_neighbors
from bitr.layers.normalization import FieldNorm
from bitr.layers.radial import Chebyshev, Homogeneous, Radial
from bitr.layers.whole import WholeCloudBlock

__all__ = [
    "Chebyshev",
    "Clouds",
    "DegreeLinear",
    "Edges",
    "Elu",
    "FeedForward",
    "FieldNorm",
    "Homogeneous",
    "Neighborhoods",
    "Radial",
    "TransformerLayer",
    "WholeCloudBlock",
    "edges_of",
    "gather_neighbors",
    "nearest_neighbors",
]
