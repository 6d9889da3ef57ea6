"""What a browser sends is read with care, and what it gets is whole."""

import json
import tempfile
from dataclasses import replace

import numpy as np
import pytest

from bitr.assembly.network import Network
from bitr.cli.demo import SOURCE
from bitr.data.poses import inverse
from bitr.errors import InputError
from bitr.io import read
from bitr.viewer import files
from bitr.viewer.files import assembled_ply, pose_json, pose_text, read_upload
from bitr.viewer.solver import Solver
from tests.viewer.cases import session


@pytest.fixture(scope="module")
def answer():
    start = session(np.random.default_rng(0)).scaled(2.0).with_swap()
    return Solver(Network.of("default")).solve(start)


def test_an_upload_is_read_as_the_file_would_be():
    found, expected = read_upload("C:\\fakepath\\jug.PLY", SOURCE.read_bytes()), read(SOURCE)
    np.testing.assert_array_equal(found.points, expected.points)
    assert found.name == "jug.PLY"


@pytest.mark.parametrize(
    "name", ["../../../tmp/evil.ply", "/etc/evil.ply", "a/b\\..\\evil.ply", "evil\n\x00.ply", "x\u202e.ply"]
)
def test_the_name_from_the_browser_never_becomes_a_path(name, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    opened = []
    monkeypatch.setattr(files, "read", lambda path: opened.append(path) or read(path))
    shown = read_upload(name, SOURCE.read_bytes()).name
    assert [path.name for path in opened] == ["upload.ply"]
    assert opened[0].parent.parent == tmp_path
    assert not any(tmp_path.iterdir())
    assert shown.isprintable()
    assert not set("/\\") & set(shown)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.exe", b"MZ", "a.exe: found .exe, expected one of .ply"),
        ("ply", b"ply\n", "ply: found a file without a suffix, expected one of .ply"),
        ("a.ply", b"nothing", "a.ply: wrong magic"),
        ("a.ply", b"", "a.ply: is empty"),
        ("a.ply", SOURCE.read_bytes()[:-100], "a.ply: truncated"),
        ("a.xyz", b"1 2 3\nx y z\n", "a.xyz: "),
        (".." * 100 + ".txt", b"1 2", ".txt: "),
    ],
)
def test_what_is_wrong_with_an_upload_is_said_in_one_line_without_our_paths(name, content, message, tmp_path):
    with pytest.raises(InputError) as raised:
        read_upload(name, content)
    text = str(raised.value)
    assert message in text
    assert "\n" not in text
    assert "bitr-upload" not in text


def test_an_upload_that_is_too_large_is_refused_before_it_is_read(monkeypatch):
    monkeypatch.setattr(files, "MOST_BYTES", 3 * 2**20)
    with pytest.raises(InputError, match=r"a.ply: 4 MB, expected at most 3 MB"):
        read_upload("a.ply", bytes(4 * 2**20))


def test_the_pose_as_text_and_as_json_are_those_of_the_files(answer):
    pose = np.loadtxt(pose_text(answer).decode().splitlines())
    np.testing.assert_array_equal(pose, answer.pose_of_files)
    found = json.loads(pose_json(answer))
    np.testing.assert_array_equal(found["transformation"], pose)
    np.testing.assert_array_equal(found["hypotheses"][0]["transformation"], pose)
    assert found["source"].endswith("reference.ply")
    assert found["viewer"]["swapped"] is True
    assert found["viewer"]["scale"] == 2.0
    assert found["viewer"]["hypothesis"] == 1
    assert found["method"] == answer.assembly.method
    assert found["status"] == answer.assembly.status
    assert found["inlier_rmse"] == answer.assembly.inlier_rmse / 2


def test_what_is_downloaded_while_a_piece_is_held_is_the_last_answer(answer):
    there = answer.session.places[0]
    held = replace(answer, session=answer.session.moved(0, replace(there, middle=there.middle + 1)))
    assert held.carried
    assert pose_text(held) == pose_text(answer)
    assert json.loads(pose_json(held))["viewer"]["law_error"] is None


def test_the_assembled_cloud_holds_both_files_at_full_resolution(answer, tmp_path):
    (tmp_path / "assembled.ply").write_bytes(assembled_ply(answer))
    points = read(tmp_path / "assembled.ply").points
    y, x = (piece.file.points for piece in answer.session.problem.pieces)
    assert len(points) == len(x) + len(y)
    back = inverse(answer.pose_of_files)
    np.testing.assert_allclose(points[: len(x)] @ back[:3, :3].T + back[:3, 3], x, atol=1e-9)
    np.testing.assert_array_equal(points[len(x) :], y)
