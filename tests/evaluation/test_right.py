"""What counts as a right answer."""

from dataclasses import replace

import numpy as np

from bitr.data import AssemblyPair
from bitr.data.poses import inverse, pose
from bitr.evaluation.right import is_right
from bitr.io import Geometry

X = np.array([[-1.0, 0, 0], [1.0, 0, 0], [0, 2.0, 0], [0, -2.0, 0]])
CONCENTRIC = AssemblyPair(Geometry(X), Geometry(0.5 * X), np.eye(4), "a")
"""Both about the origin, so that a turn about it displaces nothing; the assembled shape has radius 2."""


def off(degrees, along=0.0):
    """Turned about the third axis, and then shifted."""
    a = np.radians(degrees)
    turn = np.array([[np.cos(a), -np.sin(a), 0], [np.sin(a), np.cos(a), 0], [0, 0, 1]])
    return pose(turn, np.array([0, 0, along]))


def test_right_is_less_than_15_degrees_and_a_tenth_of_the_radius():
    assert is_right(CONCENTRIC, off(14))
    assert not is_right(CONCENTRIC, off(16))
    assert is_right(CONCENTRIC, off(0, 0.19))
    assert not is_right(CONCENTRIC, off(0, 0.21))
    assert is_right(CONCENTRIC, off(14, 0.19))


def test_unit_place_and_order_make_no_difference():
    larger = replace(CONCENTRIC, source=Geometry(100 * X), reference=Geometry(50 * X))
    assert is_right(larger, off(0, 19.0))
    assert not is_right(larger, off(0, 21.0))
    away = np.array([7.0, 8, 9])
    moved = replace(CONCENTRIC, reference=Geometry(0.5 * X + away), ref_from_src=pose(np.eye(3), away))
    assert is_right(moved, pose(np.eye(3), away) @ off(14, 0.19))
    assert not is_right(moved, pose(np.eye(3), away) @ off(14, 0.21))
    swapped = AssemblyPair(CONCENTRIC.reference, CONCENTRIC.source, np.eye(4), "b")
    assert is_right(swapped, inverse(off(14, 0.19)))
    assert not is_right(swapped, inverse(off(16)))


def test_every_symmetry_gives_a_right_answer():
    assert not is_right(CONCENTRIC, off(170))
    assert is_right(replace(CONCENTRIC, symmetry=np.stack([off(0), off(180)])), off(170))
    assert not is_right(replace(CONCENTRIC, symmetry=np.stack([off(0), off(180)])), off(90))
    assert is_right(replace(CONCENTRIC, axis=np.array([[0.0, 0, 0], [0, 0, 1]])), off(90))
