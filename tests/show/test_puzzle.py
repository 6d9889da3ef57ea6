"""The page and the picture of a puzzle."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest

import bitr
from bitr.assembly.puzzle import Joint, Puzzle
from bitr.io import Geometry
from bitr.show.puzzle import (
    Exhibit,
    as_puzzle,
    render_puzzle,
    set_apart,
    tell_puzzle,
    write_exhibits,
    write_puzzle_page,
    write_puzzle_png,
)


@pytest.fixture
def pieces():
    rng = np.random.default_rng(0)
    return [Geometry(rng.normal(size=(60, 3)), name=f"piece <{k}>.ply") for k in range(4)]


@pytest.fixture
def puzzle(pieces):
    poses = np.tile(np.eye(4), (4, 1, 1))
    poses[1, :3, 3] = [3.0, 0.0, 0.0]
    joints = (Joint(0, 1, poses[1], 0.97, 0.6, "seam"),)
    pairs = (
        {"first": 0, "second": 2, "status": "error", "method": None, "confidence": None},
        {"first": 0, "second": 3, "status": "unsure", "method": "mate", "confidence": 0.12},
        {"first": 1, "second": 0, "status": "ok", "method": "seam", "confidence": 0.6},
    )
    names = tuple(piece.name for piece in pieces)
    return Puzzle(
        names, poses, ((0, 1),), (2, 3), (0.97, 0.97, 0.2, 0.1), joints, pairs, 1.5, "default", ("odd",)
    )


def test_the_page_names_pieces_joints_and_what_is_left_over_and_loads_nothing(pieces, puzzle):
    page = render_puzzle(pieces, puzzle)
    assert "piece &lt;2&gt;.ply, piece &lt;3&gt;.ply" in page
    assert "<3>" not in page
    assert page.count('data-pair="0,1"') == 2  # in the graph and in the table
    assert page.count('class="copy"') == 4
    assert not re.search(r"(src|href)=", page)
    scene = json.loads(re.search(r'class="scene">(.*?)</script>', page, re.DOTALL)[1])
    assert len(scene["pieces"]) == 4
    assert len(scene["view"]) == 9
    assert render_puzzle(pieces, puzzle) == page


def test_the_page_tells_how_all_pairs_compared_and_which_became_joints(pieces, puzzle):
    (table,) = re.findall(r"<details>.*?</details>", render_puzzle(pieces, puzzle), re.DOTALL)
    rows = [re.findall(r"<td>(.*?)</td>", row) for row in re.findall(r"<tr>(?!<th)(.*?)</tr>", table)]
    first = "piece &lt;{}&gt;.ply – piece &lt;{}&gt;.ply".format
    assert rows == [
        [first(1, 0), "seam", "60%", "yes"],
        [first(0, 3), "mate", "12%", "no"],
        [first(0, 2), "not compared", "–", "no"],
    ]
    assert "<details" not in render_puzzle(pieces, replace(puzzle, pairs=()))


def test_the_graph_has_the_confidence_at_each_joint(pieces, puzzle):
    poses = puzzle.poses
    across = (Joint(0, 2, poses[2], 0.91, 0.5, "seam"), Joint(1, 3, poses[3], 0.82, 0.5, "seam"))
    page = render_puzzle(pieces, replace(puzzle, joints=across))
    labels = re.findall(r'<text x="(\S+)" y="(\S+)"><tspan[^>]*>(\d+%)</tspan></text>', page)
    assert [label[2] for label in labels] == ["91%", "82%"]
    assert labels[0][:2] != labels[1][:2]  # the lines cross in the middle


def test_groups_and_pieces_left_over_are_sentences(puzzle):
    assert tell_puzzle(puzzle) == [
        "piece <0>.ply and piece <1>.ply belong together.",
        "piece <2>.ply and piece <3>.ply are left over.",
    ]
    whole = replace(puzzle, groups=((0, 1, 2, 3),), left_over=())
    assert tell_puzzle(whole)[1] == "Nothing is left over."
    assert tell_puzzle(whole)[0].startswith("piece <0>.ply, piece <1>.ply, piece <2>.ply and piece <3>.ply ")
    assert (
        tell_puzzle(replace(puzzle, groups=(), left_over=(0, 1, 2, 3)))[0] == "No two pieces belong together."
    )


def test_the_script_finds_every_element_it_asks_for(pieces, puzzle):
    page = render_puzzle(pieces, puzzle)
    script = page.rpartition("<script>")[2]
    for name in re.findall(r'\$\("([a-z-]+)"\)', script):
        assert re.search(rf'class="[^"]*\b{name}\b', page), name


def test_several_puzzles_share_a_page_each_with_its_own_pieces_and_facts(pieces, puzzle, tmp_path):
    exhibits = [Exhibit(title, pieces, puzzle, [("error", "0.3°")]) for title in ("one", "<two>")]
    write_exhibits(tmp_path / "all.html", "both", exhibits, force=False)
    page = (tmp_path / "all.html").read_text(encoding="utf-8")
    assert page.count('class="scene"') == 2
    assert page.count("0.3°") == 2
    assert "&lt;two&gt;" in page
    assert not re.search(r"(src|href)=", page)


def test_a_pair_is_a_puzzle_of_two_in_the_frame_of_the_reference():
    rng = np.random.default_rng(0)
    cloud = rng.normal(size=(300, 3)) * [1.0, 2.0, 3.0]
    found = bitr.assemble(cloud, cloud[::-1] + 1.0, fast=True)
    told = as_puzzle(found)
    np.testing.assert_array_equal(told.poses, [found.transformation, np.eye(4)])
    assert told.largest == 1
    assert told.confidence == (found.confidence,) * 2
    assert told.joints[0].first_from_second is found.transformation


def test_what_is_not_of_the_first_group_stands_beside_it(pieces, puzzle):
    moves = set_apart(pieces, puzzle)
    assert np.array_equal(moves[0], puzzle.poses[0])
    assert np.array_equal(moves[1], puzzle.poses[1])
    places = [piece.moved(move).points for piece, move in zip(pieces, moves, strict=True)]
    group = np.concatenate(places[:2])
    for k in (2, 3):
        assert places[k][:, 0].min() > group[:, 0].max()
    assert places[3][:, 0].min() > places[2][:, 0].max()


def test_page_and_picture_are_written_whole(pieces, puzzle, tmp_path):
    pytest.importorskip("matplotlib")
    write_puzzle_page(tmp_path / "p.html", pieces, puzzle, force=False)
    write_puzzle_png(tmp_path / "p.png", pieces, puzzle, force=False)
    assert (tmp_path / "p.html").read_text().startswith("<!doctype html>")
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.html", "p.png"]
