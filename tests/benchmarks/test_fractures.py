"""The study of fractures, on a block whose numbers are known."""

import numpy as np
import pytest
from benchmarks.fractures import Piece, crease_angles, measure

from tests.data.cases import box


def half(low: float) -> Piece:
    """A box of 1 × 1 × 0.5 that stands on ``low``; the break is the side at height 0."""
    mesh = box((1.0, 1.0, 0.5), (0.0, 0.0, low))
    return Piece(mesh.points, mesh.faces, (np.abs(mesh.points[mesh.faces][:, :, 2]) < 1e-9).all(axis=1))


def test_a_sawn_block_has_square_creases_and_a_flat_break():
    below, above = half(-0.5), half(0.0)
    angles, lengths = crease_angles(below)
    assert angles == pytest.approx(np.full(len(angles), 90.0))
    assert lengths.sum() == pytest.approx(4)
    found = measure((below, above))
    assert found.smaller == pytest.approx(0.5)
    assert found.broken == pytest.approx(2 / 8)  # each half has 2 + 4 · 0.5
    assert found.bow == pytest.approx(0, abs=1e-9)
    assert found.rough == pytest.approx(0, abs=1e-5)
    assert found.crease == pytest.approx(90)
    assert found.sharp == 1


def test_a_break_in_a_groove_has_a_crease_above_180_degrees():
    """The faces turned inside out: what was outside is the material."""
    below = half(-0.5)
    angles, _ = crease_angles(Piece(below.points, below.faces[:, ::-1], below.is_broken))
    assert angles == pytest.approx(np.full(len(angles), 270.0))
