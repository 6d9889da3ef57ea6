"""Equivariant layers on dense neighbourhoods, for one cloud (3-D) and for the merged cloud (6-D)."""

from bitr.layers.attention import TransformerLayer
from bitr.layers.edges import Chebyshev, Edges, Homogeneous, Radial, edges_of, full_precision
from bitr.layers.neighbors import Clouds, Neighborhoods, gather_neighbors, nearest_neighbors
from bitr.layers.pointwise import DegreeLinear, Elu, FeedForward, FieldNorm, WholeCloudBlock

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
    "full_precision",
    "gather_neighbors",
    "nearest_neighbors",
]
