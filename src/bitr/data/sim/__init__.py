"""Manipulation in simulation: mugs to hang on stands, bowls to put on plates, and a test of poses."""

from bitr.data.sim.scenes import Outcome, Scene, scene_of, sim_pairs, success

__all__ = ["Outcome", "Scene", "scene_of", "sim_pairs", "success"]
