"""Charts: their curves are those of the numbers, and files appear whole."""

import sys

import numpy as np
import pytest
from PIL import Image

from bitr.errors import InputError
from bitr.evaluation.calibrate import reliability
from bitr.evaluation.metrics import chance_density, chance_recall
from bitr.evaluation.report import (
    BIN,
    Curve,
    error_against_keep,
    recall_curve,
    reliability_diagram,
    rotation_histogram,
    spread,
)

SMALL, LARGE = np.array([1.0, 5.0, 20.0]), np.array([100.0, np.nan, 179.0, 60.0])
KEEP = np.array([0.7, 0.5, 0.3])
CURVES = {"a": Curve(KEEP, np.array([1.0, 2.0, 9.0]), np.array([0.1, 0.2, 0.3]))}


def drawn(chart):
    """The axes of the chart as matplotlib draws it."""
    from matplotlib.figure import Figure

    axes = Figure().add_subplot()
    chart.draw(axes)
    return axes


def line(axes, label):
    return next(each for each in axes.get_lines() if each.get_label().startswith(label)).get_xydata()


def test_recall_counts_failed_pairs():
    axes = drawn(recall_curve({"small": SMALL, "large": LARGE}))
    assert line(axes, "small")[-1].tolist() == [180, 100]
    assert line(axes, "large")[-1].tolist() == [180, 75]  # three of four were answered
    degrees, share = line(axes, "small").T
    assert share[degrees == 5.0].tolist() == pytest.approx([100 / 3, 200 / 3])  # a step
    degrees, share = line(axes, "chance").T
    np.testing.assert_allclose(share, 100 * chance_recall(degrees))


def test_the_histogram_counts_the_answered_pairs_of_each_bin():
    chart = rotation_histogram({"small": SMALL, "large": LARGE})
    for curve, values in zip(chart.curves.values(), (SMALL, LARGE), strict=True):
        share = curve.y[1:-1:2]
        assert share.sum() == pytest.approx(100)
        known = values[~np.isnan(values)]
        assert np.flatnonzero(share).tolist() == np.unique(known // BIN).tolist()
    degrees, share = line(drawn(chart), "chance").T
    np.testing.assert_allclose(share, 100 * BIN * chance_density(degrees))


def test_the_reliability_diagram_shows_bins_their_error_and_the_diagonal():
    confidence = np.array([0.1, 0.2, 0.7, 0.9])
    found = reliability(confidence, np.array([False, True, True, True]), bins=2)
    axes = drawn(reliability_diagram({"a": found}))
    (container,) = axes.containers
    np.testing.assert_allclose(container.lines[0].get_xydata(), [[0.15, 0.5], [0.8, 1.0]])
    assert container.get_label() == "a (ECE 0.275)"
    assert line(axes, "calibrated").tolist() == [[0, 0], [1, 1]]


def test_errors_stand_at_their_keep_ratios_with_bars():
    axes = drawn(error_against_keep(CURVES, "rotation error Δr (°)", chance=126.5))
    bars = axes.containers[0]
    np.testing.assert_allclose(bars[0].get_xydata(), np.stack([KEEP, CURVES["a"].y], axis=1))
    lengths = [np.ptp(segment[:, 1]) for segment in bars[2][0].get_segments()]
    np.testing.assert_allclose(lengths, 2 * CURVES["a"].bars)
    assert axes.get_ylabel() == "rotation error Δr (°)"
    assert axes.get_xlim()[0] > axes.get_xlim()[1]  # what is easy comes first
    assert axes.get_ylim()[1] > 126.5
    assert line(axes, "chance")[0, 1] == 126.5


def test_curves_that_coincide_differ_in_colour_and_dashes():
    lines = drawn(recall_curve(dict.fromkeys("abc", SMALL))).get_lines()[:3]
    assert len({each.get_color() for each in lines}) == 3
    assert len({str(each.get_linestyle()) + str(each._unscaled_dash_pattern) for each in lines}) == 3


@pytest.mark.parametrize("suffix", [".png", ".pdf", ".svg"])
def test_the_name_says_the_format(suffix, tmp_path):
    path = tmp_path / f"a{suffix}"
    recall_curve({"small": SMALL}).write(path)
    starts = {".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<?xml"}
    assert path.read_bytes().startswith(starts[suffix])
    if suffix == ".png":
        with Image.open(path) as image:
            assert image.size == (1050, 780)
    if suffix == ".svg":
        assert "recall (% of pairs)" in path.read_text(encoding="utf-8")  # letters, not outlines


def test_files_are_not_overwritten_unasked(tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(b"mine")
    with pytest.raises(InputError, match="exists already"):
        recall_curve({"small": SMALL}).write(path)
    assert path.read_bytes() == b"mine"
    recall_curve({"small": SMALL}).write(path, force=True)
    assert path.read_bytes() != b"mine"


def test_other_formats_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"expected \.png, \.pdf or \.svg"):
        recall_curve({"small": SMALL}).write(tmp_path / "a.bmp")


def test_the_users_own_settings_stay(tmp_path):
    import matplotlib

    before = dict(matplotlib.rcParams)
    rotation_histogram({"nobody": np.array([np.nan])}).write(tmp_path / "a.png")
    assert dict(matplotlib.rcParams) == before


def test_without_matplotlib_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(InputError, match=r"\.\[viz\]"):
        recall_curve({"small": SMALL}).write(tmp_path / "a.png")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("total", [1, 2, 24, 25, 26, 1000])
def test_a_spread_has_both_ends_and_the_middle(total):
    found = spread(total, 25)
    assert len(found) == min(total, 25)
    assert (found[0], found[-1]) == (0, total - 1)
    if total >= 25:
        assert round((total - 1) / 2) in found
        assert np.ptp(np.diff(found)) <= 1
