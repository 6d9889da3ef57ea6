"""Manipulation in simulation: mugs to hang on stands, bowls to put on plates, and a test of poses."""

from bitr.data.sim.dataset import sim_pairs
from bitr.data.sim.scenes import Outcome, Scene, scene_of, success

__all__ = ["Outcome", "Scene", "scene_of", "sim_pairs", "success"]
