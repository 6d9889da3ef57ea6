"""Poses from correspondence."""

from bitr.refine.arun import arun

__all__ = ["arun"]
