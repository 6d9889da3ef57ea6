"""Measuring: how right the poses are, whether the laws hold, and how fast it is."""
