"""Manipulation in simulation: mugs to hang on stands, bowls to put on plates, and whether a pose works."""

from bitr.data.sim.camera import Cameras, Surface
from bitr.data.sim.dataset import BOWL_PLACING, MUG_HANGING, scene_of, sim_pairs
from bitr.data.sim.release import Outcome
from bitr.data.sim.scene import Scene
from bitr.data.sim.success import success

__all__ = [
    "BOWL_PLACING",
    "MUG_HANGING",
    "Cameras",
    "Outcome",
    "Scene",
    "Surface",
    "scene_of",
    "sim_pairs",
    "success",
]
