"""Pieces in different units: the ratio, its laws, and the answer with it."""

import json
from dataclasses import replace

import numpy as np
import pytest

import bitr
from bitr.assembly.assemble import Settings
from bitr.assembly.scale import scale_ratios
from bitr.cli import main
from bitr.cli.demo import ASSETS
from bitr.data.poses import random_pose
from bitr.errors import InputError
from bitr.io import read, write
from tests.assembly.cases import overlapping

MM = 1000.0


def sized(geometry, factor):
    return replace(geometry, points=factor * geometry.points)


@pytest.fixture(scope="module")
def scans():
    """Two scans that overlap; the truth is that both are in one unit."""
    return tuple(read(ASSETS / f"scan-{name}.ply") for name in ("source", "reference"))


@pytest.fixture(scope="module")
def ratios(scans):
    return scale_ratios(*scans)


@pytest.mark.slow
def test_the_ratio_of_scans_that_overlap_is_found(ratios):
    assert ratios[0] == pytest.approx(1, rel=0.01)


@pytest.mark.slow
def test_scaling_a_piece_scales_the_ratios_and_motions_change_nothing(scans, ratios):
    rng = np.random.default_rng(0)
    x, y = (side.moved(random_pose(rng, 2.0)) for side in scans)
    np.testing.assert_allclose(scale_ratios(sized(x, 0.0137), y), np.array(ratios) / 0.0137, rtol=1e-6)
    np.testing.assert_allclose(scale_ratios(x, sized(y, 304.8)), np.array(ratios) * 304.8, rtol=1e-6)


@pytest.mark.slow
def test_a_swap_inverts_the_ratios(scans, ratios):
    np.testing.assert_allclose(scale_ratios(*reversed(scans)), 1 / np.array(ratios), rtol=1e-6)


@pytest.mark.slow
def test_a_jug_in_millimetres_is_laid_onto_its_copy_in_metres():
    rng = np.random.default_rng(1)
    whole = read(ASSETS / "demo-reference.ply")
    there = random_pose(rng, 1.0)
    metres = whole.moved(there)
    found = bitr.assemble(sized(whole, MM), metres, scale="auto")
    assert found.scale == pytest.approx(1 / MM, rel=1e-3)
    placed = found.moved(sized(whole, MM)).points
    assert np.linalg.norm(placed - metres.points, axis=1).max() < 0.01 * np.ptp(metres.points)
    assert found.source_keypoints.std() > 0.1 * MM  # in the unit of the source


def test_a_given_ratio_is_that_of_the_answer():
    pair = overlapping(0)
    x, y = pair.source, pair.reference
    plain = bitr.assemble(x, y, fast=True)
    found = bitr.assemble(sized(x, MM), y, scale=1 / MM, fast=True)
    assert plain.scale == 1
    assert found.scale == 1 / MM
    np.testing.assert_allclose(found.transformation, plain.transformation, atol=1e-6)
    np.testing.assert_allclose(found.moved(sized(x, MM)).points, plain.moved(x).points, atol=1e-5)
    assert json.loads(found.to_json())["scale"] == 1 / MM


@pytest.mark.parametrize("scale", [0, -1.0, float("inf"), float("nan"), "mm"])
def test_what_is_no_ratio_is_refused(scale):
    with pytest.raises(InputError, match="expected auto or a number above 0"):
        Settings(scale=scale)


def test_the_command_writes_the_source_in_the_unit_of_the_reference(tmp_path, capsys):
    pair = overlapping(0)
    x, y = pair.source, pair.reference
    for name, piece in (("x.ply", sized(x, MM)), ("y.ply", y)):
        write(tmp_path / name, piece)
    files = [str(tmp_path / name) for name in ("x.ply", "y.ply")]
    out = tmp_path / "placed.ply"
    assert main(["assemble", *files, "--scale", "0.001", "--fast", "-o", str(out)]) == 0
    assert "scale       0.001, a length of the reference over that of the source" in capsys.readouterr().out
    assert np.ptp(read(out).points) == pytest.approx(np.ptp(x.points), rel=0.5)
    assert main(["assemble", *files, "--scale", "mm"]) == 2
    assert capsys.readouterr().err == "bitr: scale = 'mm': expected auto or a number above 0\n"
