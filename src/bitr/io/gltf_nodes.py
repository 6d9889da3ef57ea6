"""The nodes of a glTF scene: a tree of maps from one frame to the next."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitr.io.source import Source


def placed_nodes(source: Source, tree: dict[str, Any]) -> list[tuple[dict[str, Any], NDArray[np.float64]]]:
    """Every node of the scene with the map from its own coordinates to the scene's."""
    nodes = tree.get("nodes", [])
    children = [c for node in nodes for c in node.get("children", [])]
    if len(set(children)) < len(children):
        raise source.error("damaged glTF: a node has two parents")
    scenes = tree.get("scenes", [])
    own = set(range(len(nodes))) - set(children)
    roots = scenes[tree.get("scene", 0)].get("nodes", []) if scenes else sorted(own)
    if not set(roots) <= own or len(set(roots)) < len(roots):
        raise source.error("damaged glTF: a root of the scene has a parent or is named twice")
    found, queue = [], [(root, np.eye(4)) for root in reversed(roots)]
    while queue:
        index, parent = queue.pop()
        matrix = parent @ _matrix(nodes[index])
        found.append((nodes[index], matrix))
        queue += [(child, matrix) for child in reversed(nodes[index].get("children", []))]
    return found


def _matrix(node: dict[str, Any]) -> NDArray[np.float64]:
    if "matrix" in node:
        return np.array(node["matrix"], dtype=np.float64).reshape(4, 4).T
    x, y, z, w = np.array(node.get("rotation", (0, 0, 0, 1)), dtype=np.float64)
    matrix = np.eye(4)
    matrix[:3, :3] = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    matrix[:3, :3] *= np.array(node.get("scale", (1, 1, 1)), dtype=np.float64).reshape(3)
    matrix[:3, 3] = np.array(node.get("translation", (0, 0, 0)), dtype=np.float64).reshape(3)
    return matrix
