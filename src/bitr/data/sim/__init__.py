"""Manipulation in simulation: mugs to hang on stands, bowls to put on plates, and a test of poses."""

from bitr.data.sim.dataset import sim_pairs
from bitr.data.sim.scenes import Outcome, Scene, scene_of, success
from bitr.data.sim.world import Cameras, Surface

__all__ = ["Cameras", "Outcome", "Scene", "Surface", "scene_of", "sim_pairs", "success"]
