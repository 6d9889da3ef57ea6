"""Evidence that no law changes, and a verifier that survives its journey through a checkpoint."""

import json

import numpy as np
import pytest

from bitr.assembly.assemble import Settings, judge
from bitr.assembly.finish import METHODS
from bitr.assembly.network import KEY, Network, with_verifier
from bitr.assembly.verify import NAMES, RUNNER_UP, Verifier, shipped_verifier
from bitr.errors import InputError
from bitr.io import Geometry
from bitr.model.checkpoint import note_of, save, with_note
from tests.assembly.cases import (
    LAWS,
    changed,
    changed_pose,
    cut_pair,
    judged,
    linear_verifier,
    network,
    overlapping,
    small_model,
)
from tests.pieces import motion, two_pieces


@pytest.fixture(scope="module")
def cut():
    x, y, _ = cut_pair(700)
    return x.points, y.points


@pytest.fixture(scope="module")
def plain(cut):
    return judged(*cut, init=motion(5))


@pytest.mark.slow
def test_evidence_is_finite_and_has_a_number_of_every_name(plain):
    assert plain.evidence.shape == (len(plain.candidates), len(NAMES))
    assert np.isfinite(plain.evidence).all()
    assert len(set(NAMES)) == len(NAMES)
    one_of = [NAMES.index(f"is_{name}") for name in METHODS]
    given = plain.evidence[:, NAMES.index("is_given")] == 1
    assert given.any()
    assert (plain.evidence[:, one_of].sum(1) <= 1).all()
    shares = (
        "overlap_larger",
        "overlap_smaller",
        "seam",
        "border_on",
        "border_air",
        "crossing",
        "model_share",
    )
    for name in shares:
        column = plain.evidence[:, NAMES.index(name)]
        assert column.min() >= 0
        assert column.max() <= 1 + 1e-9


def test_no_law_changes_the_evidence(cut, plain):
    """All laws at once: the pieces are moved, scaled and swapped."""
    init = motion(5)
    for law in LAWS:
        cut, init = changed(law, *cut), changed_pose(law, init)
    found = judged(*cut, init=init)
    assert found.candidates.methods == plain.candidates.methods
    assert found.candidates.origins == plain.candidates.origins
    np.testing.assert_allclose(found.evidence, plain.evidence, atol=1e-5)
    np.testing.assert_allclose(found.scores, plain.scores, atol=1e-4)


def test_scores_come_best_first_after_a_given_pose_that_is_kept(plain):
    assert plain.candidates.methods[0] == "given" or plain.candidates.origins[0] == "given"
    assert (np.diff(plain.scores[1:]) <= 0).all()


@pytest.mark.slow
def test_the_truth_of_a_crop_has_more_overlap_and_of_a_cut_more_seam_than_the_rest(plain, cut):
    pair = overlapping(0, n=600)
    found = judged(pair.source.points, pair.reference.points, init=pair.ref_from_src)
    rows = {m: found.evidence[i] for i, m in enumerate(found.candidates.methods) if m == "given"}
    assert rows["given"][NAMES.index("overlap_larger")] > 0.4
    _, _, truth = cut_pair(700)
    found = judged(*cut, init=truth)
    given = found.candidates.methods.index("given")
    assert found.evidence[given, NAMES.index("seam")] > 0.25
    given = plain.candidates.methods.index("given")
    assert plain.evidence[given, NAMES.index("seam")] < 0.2


@pytest.mark.slow
def test_without_borders_and_in_few_points_evidence_is_finite():
    rng = np.random.default_rng(0)
    for x, y in ((rng.normal(size=(6, 3)), rng.normal(size=(40, 3))), two_pieces(60)):
        found = judge(Geometry(x), Geometry(y), network(), Settings())
        assert np.isfinite(found.evidence).all()


def test_a_verifier_is_the_same_after_a_round_trip():
    rng = np.random.default_rng(0)
    one = Verifier(
        rng.normal(size=len(NAMES)) - 3,
        rng.normal(size=len(NAMES)) + 3,
        rng.normal(size=(len(NAMES), 5)),
        rng.normal(size=5),
        rng.normal(size=5),
        0.25,
        rng.normal(size=3),
        {"data": "shapes", "pairs": 60},
    )
    other = Verifier.from_dict(json.loads(json.dumps(one.to_dict(), allow_nan=False)))
    rows = rng.normal(size=(20, len(NAMES)))
    np.testing.assert_array_equal(one.scores(rows), other.scores(rows))
    assert other.to_dict() == one.to_dict()
    assert other.confidence(1.0, 0.5) == one.confidence(1.0, 0.5)


def test_values_outside_the_range_count_as_its_end():
    found = linear_verifier(seam=1.0)
    rows = np.zeros((3, len(NAMES)))
    rows[:, NAMES.index("seam")] = [5.0, 10.0, 1e9]
    np.testing.assert_allclose(found.scores(rows), [5.0, 10.0, 10.0], rtol=1e-5)


def test_gains_are_what_each_number_of_a_linear_score_gives():
    verifier, row, other = (
        linear_verifier(1.0, seam=2.0, crossing=-3.0),
        np.zeros(len(NAMES)),
        np.zeros(len(NAMES)),
    )
    row[NAMES.index("seam")], other[NAMES.index("crossing")] = 0.5, 0.2
    gains = dict(zip(NAMES, verifier.gains(row, other), strict=True))
    assert gains.pop("seam") == pytest.approx(1.0, rel=1e-3)
    assert gains.pop("crossing") == pytest.approx(0.6, rel=1e-3)
    np.testing.assert_allclose(list(gains.values()), 0, atol=1e-12)


def test_a_second_candidate_casts_doubt_from_a_score_on():
    found = linear_verifier()
    doubting = Verifier.from_dict(found.to_dict() | {"calibration": [0.0, 1.0, -0.5]})
    alone = doubting.confidence(2.0, None)
    assert alone == doubting.confidence(2.0, RUNNER_UP - 3) == doubting.confidence(2.0, RUNNER_UP)
    assert doubting.confidence(2.0, 0.0) < alone
    assert 0 < doubting.confidence(-50.0, 50.0) < doubting.confidence(50.0, None) <= 1


@pytest.mark.parametrize("name", ["verifier", "puzzle-verifier"])
def test_a_shipped_verifier_is_whole(name):
    found = shipped_verifier(name)
    assert found.hidden.shape[0] == len(NAMES)
    assert (found.high >= found.low).all()
    assert np.isfinite(found.scores(np.zeros((2, len(NAMES))))).all()
    assert found.calibration[1] > 0  # a better score, more confidence


GOOD = linear_verifier().to_dict()
DAMAGED = {
    "no JSON": ("{", "Expecting property name"),
    "a list": ("[1]", "list indices"),
    "nothing": ("{}", "joints"),
    "unknown joints": (json.dumps({"joints": ["glue"], **GOOD}), "expected some of overlap, seam"),
    "no joints": (json.dumps({"joints": [], **GOOD}), "expected some of overlap, seam"),
    "other evidence": (
        json.dumps({"joints": ["model"], **GOOD, "names": ["a"]}),
        "for other evidence than this version has; fit it again",
    ),
    "a shape": (json.dumps({"joints": ["model"], **GOOD, "low": [1.0]}), "low is not"),
    "a number less": (json.dumps({"joints": ["model"], **GOOD, "last": [1.0, 2.0]}), "last is not"),
    "NaN": (
        json.dumps({"joints": ["model"], **GOOD, "calibration": [0, 1, float("nan")]}),
        "calibration is not",
    ),
    "text": (json.dumps({"joints": ["model"], **GOOD, "hidden_bias": ["x"]}), "could not convert"),
    "no bias": (
        json.dumps({k: v for k, v in GOOD.items() if k != "last_bias"} | {"joints": ["model"]}),
        "last_bias",
    ),
    "an infinite bias": (json.dumps({"joints": ["model"], **GOOD, "last_bias": float("inf")}), "last_bias"),
    "no matrix": (json.dumps({"joints": ["model"], **GOOD, "hidden": 3}), "cannot be used"),
}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return save(small_model().float(), tmp_path_factory.mktemp("weights") / "small.safetensors")


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_verifier_is_refused_in_one_line(checkpoint, tmp_path, name):
    text, message = DAMAGED[name]
    path = tmp_path / "damaged.safetensors"
    with_note(checkpoint, path, KEY, text)
    with pytest.raises(InputError, match="the verifier inside cannot be used") as error:
        Network.of(path)
    assert message in str(error.value)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_evidence_that_is_newer_than_a_file_has_no_weight():
    """A file without one of the names scores as one that gives it no weight."""
    verifier = linear_verifier(0.5, seam=2.0, overlap_larger=-1.0)
    values = verifier.to_dict()
    k = NAMES.index("broken_contact")
    older = values | {"names": [name for name in NAMES if name != "broken_contact"]}
    older |= {key: values[key][:k] + values[key][k + 1 :] for key in ("low", "high", "hidden")}
    rows = np.random.default_rng(0).normal(size=(9, len(NAMES)))
    np.testing.assert_allclose(Verifier.from_dict(older).scores(rows), verifier.scores(rows), rtol=1e-12)


def test_a_checkpoint_keeps_its_verifier_and_joints(checkpoint, tmp_path):
    path, verifier = tmp_path / "fitted.safetensors", linear_verifier(0.5, seam=2.0)
    plain = Network.of(checkpoint)
    assert (plain.own_verifier, plain.fitted, plain.joints) == (None, False, METHODS)
    assert plain.verifier is shipped_verifier()
    with_verifier(checkpoint, path, verifier, ("seam", "model"))
    found = Network.of(path)
    assert (found.fitted, found.joints) == (True, ("seam", "model"))
    assert found.verifier.to_dict() == verifier.to_dict()
    assert note_of(path, "config") == note_of(checkpoint, "config")
