"""The panel: files from a browser are read with care, downloads are whole, and no text becomes HTML."""

import json
import re
import tempfile
from dataclasses import replace

import numpy as np
import pytest

from bitr.assembly.network import Network
from bitr.cli.demo import SOURCE
from bitr.data.poses import inverse
from bitr.errors import InputError
from bitr.io import read
from bitr.show.report import render_part
from bitr.show.viewer import panel
from bitr.show.viewer.panel import (
    assembled_ply,
    pose_json,
    pose_text,
    read_upload,
    render_answer,
    render_hypotheses,
    render_pose,
)
from bitr.show.viewer.session import Solver
from tests.show.cases import hypothesis, place, session

EVIL = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def answer():
    return Solver(Network.of("default")).solve(session(np.random.default_rng(0)))


def with_assembly(answer, **changes):
    return replace(answer, assembly=replace(answer.assembly, **changes))


@pytest.fixture(scope="module")
def swapped():
    start = session(np.random.default_rng(0)).resize(2.0).swap()
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
    monkeypatch.setattr(panel, "read", lambda path: opened.append(path) or read(path))
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
        ("a.ply", b"nothing", "a.ply: is no .ply file"),
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
    monkeypatch.setattr(panel, "MOST_BYTES", 3 * 2**20)
    with pytest.raises(InputError, match=r"a.ply: 4 MB, expected at most 3 MB"):
        read_upload("a.ply", bytes(4 * 2**20))


def test_the_pose_as_text_and_as_json_are_those_of_the_files(swapped):
    pose = np.loadtxt(pose_text(swapped).decode().splitlines())
    np.testing.assert_array_equal(pose, swapped.pose_of_files)
    found = json.loads(pose_json(swapped))
    np.testing.assert_array_equal(found["transformation"], pose)
    np.testing.assert_array_equal(found["hypotheses"][0]["transformation"], pose)
    assert found["source"].endswith("reference.ply")
    assert found["viewer"]["swapped"] is True
    assert found["viewer"]["scale"] == 2.0
    assert found["viewer"]["hypothesis"] == 1
    assert found["method"] == swapped.assembly.method
    assert found["status"] == swapped.assembly.status
    assert found["inlier_rmse"] == swapped.assembly.inlier_rmse / 2


def test_what_is_downloaded_while_a_piece_is_held_is_the_last_answer(swapped):
    there = swapped.session.places[0]
    held = replace(swapped, session=swapped.session.move(0, replace(there, middle=there.middle + 1)))
    assert held.is_carried
    assert pose_text(held) == pose_text(swapped)
    assert json.loads(pose_json(held))["viewer"]["law_error"] is None


def test_the_assembled_cloud_holds_both_files_at_full_resolution(swapped, tmp_path):
    (tmp_path / "assembled.ply").write_bytes(assembled_ply(swapped))
    points = read(tmp_path / "assembled.ply").points
    y, x = (piece.file.points for piece in swapped.session.problem.pieces)
    assert len(points) == len(x) + len(y)
    back = inverse(swapped.pose_of_files)
    np.testing.assert_allclose(points[: len(x)] @ back[:3, :3].T + back[:3, 3], x, atol=1e-9)
    np.testing.assert_array_equal(points[len(x) :], y)


def test_names_warnings_reasons_and_messages_are_escaped(answer):
    x, y = answer.session.problem.pieces
    pieces = (replace(x, file=replace(x.file, name=EVIL)), y)
    named = replace(answer.session, problem=replace(answer.session.problem, pieces=pieces))
    doubtful = with_assembly(answer, warnings=(EVIL,), status="ambiguous", reason=EVIL)
    texts = [
        render_answer(replace(doubtful, session=named), 1),
        render_part("panel.html", "message", text=EVIL),
        render_part("panel.html", "caption", title=EVIL, pair=EVIL),
    ]
    for text in texts:
        assert "<img" not in text
        assert "&lt;img" in text


def test_the_facts_are_those_of_the_answer(answer):
    text = render_answer(with_assembly(answer, seconds=0.123), 7)
    assert f"{answer.law_error:.1e}" in text
    assert "123 ms an answer" in text
    assert f"{answer.assembly.confidence:.0%}" in text
    assert 'data-number="7"' in text
    assert "demo-source.ply<br>675 points" in text


def test_a_pose_that_is_carried_along_is_told_in_words_and_has_no_law_error(answer):
    moved = replace(answer, session=answer.session.move(0, place(np.random.default_rng(1))))
    text = render_answer(moved, 1)
    assert "carried along with the pieces, g₂ g g₁⁻¹" in text
    assert f"{answer.law_error:.1e}" not in text
    assert "carried along" not in render_answer(answer, 1)


@pytest.mark.parametrize("status", ["ambiguous", "unsure", "degenerate"])
def test_status_and_reason_are_told_unless_all_is_well(answer, status):
    doubtful = with_assembly(answer, status=status, reason="the source looks the same")
    assert f"<b>{status}</b>: the source looks the same" in render_answer(doubtful, 1)
    assert "bitr-status" not in render_answer(with_assembly(answer, status="ok", reason=None), 1)


def test_hypotheses_are_listed_with_what_speaks_for_them(answer):
    best = answer.assembly.transformation
    half = best @ np.diag([-1.0, -1.0, 1.0, 1.0])
    two = with_assembly(answer, hypotheses=(hypothesis(best, 0.7), hypothesis(half, 0.3, "overlap")))
    text = render_hypotheses(two)
    for word in ("70%", "30%", "seam", "overlap", "match", "0.25", "0.75", "50%"):
        assert f">{word}<" in text, word
    second = replace(two, session=two.session.choose(1))
    np.testing.assert_array_equal(second.pose, half)
    np.testing.assert_allclose(second.pose_of_files, answer.session.carry_back(half))
    rows = render_hypotheses(second).split("<tbody>")[1].split("<tr")[1:]
    assert ['aria-current="true"' in row for row in rows] == [False, True]


def test_the_pose_is_copied_with_all_digits(answer):
    copied = re.search(r'data-copy="(.*?)"', render_pose(answer), re.DOTALL)[1]
    np.testing.assert_array_equal(np.loadtxt(copied.splitlines()), answer.pose_of_files)


def test_a_choice_that_is_no_longer_there_is_the_last_one(answer):
    np.testing.assert_array_equal(replace(answer, session=answer.session.choose(5)).pose, answer.pose)
