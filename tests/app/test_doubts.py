import numpy as np
import pytest
from bitr.app.doubts import doubts

import bitr
from bitr.hypotheses import symmetries
from tests.app.cases import motion, moved, two_pieces, untrained
from tests.hypotheses.shapes import CUBE_CORNERS, solid

X, Y = two_pieces(600)
RNG = np.random.default_rng(0)
NO_SHAPE = {
    "has its points on a plane": moved(RNG.random((300, 3)) * [1, 2, 0], motion(1)),
    "has its points on a line": np.outer(RNG.random(300), [1.0, 2, 3]),
    "has 6 different points, too few to show a shape (expected 32)": RNG.normal(size=(6, 3)),
    "has 5 different points, too few to show a shape (expected 32)": np.repeat(
        RNG.normal(size=(5, 3)), 40, axis=0
    ),
}


def found(x, y, gap=1.0):
    return doubts(x, y, (symmetries(x), symmetries(y)), gap)


def test_pieces_with_a_shape_of_their_own_raise_none():
    assert found(X, Y) == bitr.app.doubts.Doubts(False, False, None)


@pytest.mark.parametrize("reason", NO_SHAPE)
@pytest.mark.parametrize(("refine", "hypotheses"), [("none", 1), ("icp", 2)])
def test_a_piece_without_a_shape_is_told_and_does_no_harm(reason, refine, hypotheses):
    model = untrained()
    options = {"model": model, "refine": refine, "hypotheses": hypotheses}
    for name, pair in (("source", (NO_SHAPE[reason], Y)), ("reference", (Y, NO_SHAPE[reason]))):
        answer = bitr.assemble(*pair, **options)
        assert answer.degenerate
        assert answer.reason.startswith(f"the {name} {reason}")
        assert np.isfinite(answer.transformation).all()


def test_a_thin_plate_is_no_plane():
    plate = solid("box", 0) * [1, 1, 0.1]
    assert not found(plate, Y).degenerate


def test_a_symmetric_piece_makes_an_answer_ambiguous():
    cube = solid("cube", 0)
    assert found(cube, Y).reason == "the source looks the same after 23 turns, those of a cube"
    assert found(Y, cube).reason == "the reference looks the same after 23 turns, those of a cube"
    assert found(cube, solid("cube", 1)).reason == "both pieces look the same after 23 turns, those of a cube"
    different = found(cube, solid("pyramid 4", 0))
    assert different.reason == (
        "the source looks the same after 23 turns, those of a cube; "
        "the reference looks the same after turns by 90° about one axis"
    )
    assert different.ambiguous
    assert not different.degenerate


def test_a_closed_gap_makes_an_answer_ambiguous():
    assert found(X, Y, gap=2e-3).reason is None
    closed = found(X, Y, gap=5e-4)
    assert closed.ambiguous
    assert closed.reason == "the model's rotation is not determined (singular gap 5.0e-04)"


def test_all_doubts_are_told():
    answer = bitr.assemble(CUBE_CORNERS, CUBE_CORNERS, model=untrained().double())
    assert answer.singular_gap < 1e-3
    assert answer.ambiguous
    assert answer.degenerate
    assert answer.reason.count(";") == 2
    assert answer.warnings == ()
