"""Measuring: at this stage, speed and memory."""
