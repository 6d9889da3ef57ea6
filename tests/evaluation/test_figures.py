"""Figures: what is drawn is what was given, and files appear whole."""

import sys
from contextlib import contextmanager

import numpy as np
import pytest
from PIL import Image

from bitr.errors import InputError
from bitr.evaluation import figures
from bitr.evaluation.figures import (
    Curve,
    error_against_keep,
    recall_curve,
    reliability_diagram,
    rotation_histogram,
)
from bitr.evaluation.metrics.chance import chance_density, chance_recall
from bitr.evaluation.metrics.reliability import reliability

SMALL, LARGE = np.array([1.0, 5.0, 20.0]), np.array([100.0, np.nan, 179.0, 60.0])
KEEP = np.array([0.7, 0.5, 0.3])
CURVES = {"a": Curve(KEEP, np.array([1.0, 2.0, 9.0]), np.array([0.1, 0.2, 0.3]))}


@pytest.fixture
def drawn(monkeypatch):
    """The axes of every figure that is drawn."""
    seen, plain = [], figures._axes

    @contextmanager
    def spied(path, force):
        with plain(path, force) as axes:
            seen.append(axes)
            yield axes

    monkeypatch.setattr(figures, "_axes", spied)
    return seen


def line(axes, label):
    return next(each for each in axes.get_lines() if each.get_label().startswith(label)).get_xydata()


def test_recall_counts_failed_pairs(drawn, tmp_path):
    recall_curve(tmp_path / "a.png", {"small": SMALL, "large": LARGE})
    assert line(drawn[0], "small")[-1].tolist() == [180, 100]
    assert line(drawn[0], "large")[-1].tolist() == [180, 75]  # three of four were answered
    degrees, share = line(drawn[0], "small").T
    assert dict(zip(degrees, share, strict=True))[5.0] == pytest.approx(200 / 3)
    degrees, share = line(drawn[0], "chance").T
    np.testing.assert_allclose(share, 100 * chance_recall(degrees))


def test_the_histogram_is_a_density(drawn, tmp_path):
    rotation_histogram(tmp_path / "a.png", {"small": SMALL, "large": LARGE})
    for patch, values in zip(drawn[0].patches, (SMALL, LARGE), strict=True):
        density, edges, _ = patch.get_data()
        assert (density * np.diff(edges)).sum() == pytest.approx(1)
        known = values[~np.isnan(values)]
        assert np.flatnonzero(density).tolist() == np.unique(known // figures.BIN).tolist()
    degrees, density = line(drawn[0], "chance").T
    np.testing.assert_allclose(density, chance_density(degrees))


def test_the_reliability_diagram_shows_bins_their_error_and_the_diagonal(drawn, tmp_path):
    confidence = np.array([0.1, 0.2, 0.7, 0.9])
    found = reliability(confidence, np.array([False, True, True, True]), bins=2)
    reliability_diagram(tmp_path / "a.png", {"a": found})
    (container,) = drawn[0].containers
    np.testing.assert_allclose(container.lines[0].get_xydata(), [[0.15, 0.5], [0.8, 1.0]])
    assert container.get_label() == "a (ECE 0.275)"
    assert line(drawn[0], "calibrated").tolist() == [[0, 0], [1, 1]]


def test_errors_stand_at_their_keep_ratios_with_bars(drawn, tmp_path):
    error_against_keep(tmp_path / "a.png", CURVES, "rotation error Δr (°)", chance=126.5)
    axes = drawn[0]
    bars = axes.containers[0]
    np.testing.assert_allclose(bars[0].get_xydata(), np.stack([KEEP, CURVES["a"].mean], axis=1))
    lengths = [np.ptp(segment[:, 1]) for segment in bars[2][0].get_segments()]
    np.testing.assert_allclose(lengths, 2 * CURVES["a"].std)
    assert axes.get_ylabel() == "rotation error Δr (°)"
    assert axes.get_xlim()[0] > axes.get_xlim()[1]  # what is easy comes first
    assert line(axes, "chance")[0, 1] == 126.5


@pytest.mark.parametrize("suffix", [".png", ".pdf", ".svg"])
def test_the_name_says_the_format(suffix, tmp_path):
    path = tmp_path / f"a{suffix}"
    recall_curve(path, {"small": SMALL})
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
        recall_curve(path, {"small": SMALL})
    assert path.read_bytes() == b"mine"
    recall_curve(path, {"small": SMALL}, force=True)
    assert path.read_bytes() != b"mine"


def test_other_formats_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"expected \.png, \.pdf or \.svg"):
        recall_curve(tmp_path / "a.bmp", {"small": SMALL})


def test_the_users_own_settings_stay(tmp_path):
    import matplotlib

    before = dict(matplotlib.rcParams)
    rotation_histogram(tmp_path / "a.png", {"nobody": np.array([np.nan])})
    assert dict(matplotlib.rcParams) == before


def test_without_matplotlib_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match=r"bitr\[viz\]"):
        recall_curve(tmp_path / "a.png", {"small": SMALL})
    assert not list(tmp_path.iterdir())
