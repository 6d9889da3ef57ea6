"""An evaluated data set as a wall of pictures."""

import json
import shutil
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest

from bitr.cli import main, view
from bitr.errors import InputError
from bitr.model.checkpoint import find
from bitr.show import picture, viewer
from bitr.show.viewer.gallery import FILE, Gallery
from tests.show.cases import colored, demo_pair


def test_pairs_are_sorted_by_error_and_are_those_of_the_data_set(results):
    gallery = Gallery(results)
    assert [entry.id for entry in gallery.entries] == ["pair 1 <b>", "pair 0 <b>", "pair 2 <b>"]
    assert [entry.error_text for entry in gallery.entries] == ["Δr 10.0°", "Δr 40.0°", "Δr 90.0°"]
    pair = gallery.pair(gallery.entries[0])
    assert pair.id == "pair 1 <b>"
    assert len(pair.source.points) == 338


def test_a_picture_shows_both_pieces_of_the_answer(results):
    gallery = Gallery(results)
    picture = gallery.picture(gallery.entries[0])
    for name in ("yellow", "blue"):
        assert colored(picture, name).mean() > 0.01
    assert colored(picture, "red").sum() == 0


def test_a_pair_without_an_answer_comes_last_with_an_empty_picture(results, tmp_path):
    found = json.loads((results / FILE).read_text())
    score = found["rows"][0]["samplings"][0]["scores"][1]
    score |= {"transformation": None, "rotation_error_deg": None, "failure": "nothing"}
    (tmp_path / FILE).write_text(json.dumps(found))
    gallery = Gallery(tmp_path)
    assert gallery.entries[-1].id == "pair 1 <b>"
    assert gallery.entries[-1].error_text == "no answer"
    assert len(np.unique(gallery.picture(gallery.entries[-1]))) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no such file, expected a folder that bitr evaluate -o has written"),
        ("{", "damaged or not JSON"),
        ("[]", "not what bitr evaluate writes"),
        ('{"dataset": "x", "split": "test", "seed": 0, "rows": []}', "not what bitr evaluate writes"),
        ('{"dataset": "x", "split": "test", "seed": 0, "rows": [{"samplings": []}]}', "no pairs"),
        ('{"dataset": "x", "split": "test", "seed": 0, "rows": [{"samplings": [3]}]}', "not what bitr"),
    ],
)
def test_a_folder_that_is_something_else_is_bad_input(content, message, tmp_path):
    if content is not None:
        (tmp_path / FILE).write_text(content)
    with pytest.raises(InputError, match=message):
        Gallery(tmp_path)


def test_a_data_set_that_has_changed_since_is_noticed(results, tmp_path):
    found = json.loads((results / FILE).read_text())
    found["rows"][0]["samplings"][0]["scores"][1]["id"] = "another"
    (tmp_path / FILE).write_text(json.dumps(found))
    gallery = Gallery(tmp_path)
    with pytest.raises(InputError, match="another is not in"):
        gallery.pair(gallery.entries[0])


@pytest.fixture
def elsewhere(results, tmp_path, monkeypatch):
    """The same results as if they had been made with paths as people type them, seen from another folder."""
    home = tmp_path / "home"
    shutil.copytree(results.parent, home)
    path = home / "evaluated" / FILE
    path.write_text(json.dumps(json.loads(path.read_text()) | {"dataset": "pairs.jsonl"}))
    (tmp_path / "another").mkdir()
    monkeypatch.chdir(tmp_path / "another")
    return path


def test_pairs_are_found_from_another_folder_than_they_were_evaluated_in(elsewhere):
    gallery = Gallery(elsewhere.parent)
    assert gallery.pair(gallery.entries[0]).id == "pair 1 <b>"
    assert gallery.title.endswith("on pairs.jsonl, test")


def test_pairs_that_are_gone_are_told_in_one_line_before_anything_is_served(elsewhere, capsys, monkeypatch):
    monkeypatch.setattr(view, "_serve", lambda *_: pytest.fail("served"))
    (elsewhere.parent.parent / "x.ply").unlink()
    assert main(["view", "--results", str(elsewhere.parent)]) == 2
    error = capsys.readouterr().err
    assert "x.ply: no such file" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("points", [300, None])
def test_pairs_are_opened_as_they_were_evaluated(elsewhere, points, monkeypatch):
    shutil.copy(find("default"), elsewhere.parent.parent / "own.safetensors")
    more = {"checkpoint": "own.safetensors", "method": "seam", "points": points}
    elsewhere.write_text(json.dumps(json.loads(elsewhere.read_text()) | more))
    made = []

    def serving(*given, **how):
        made.append((given, how))
        return nullcontext()

    monkeypatch.setattr(viewer, "Viewer", serving)
    monkeypatch.setattr(view, "_serve", lambda *_: None)
    assert main(["view", "--results", str(elsewhere.parent)]) == 0
    other = ["--model", "default", "--points", "50", "--method", "model"]
    assert main(["view", "--results", str(elsewhere.parent), *other]) == 0
    (network, _), how = made[0]
    assert network.name.endswith("home/own.safetensors")
    assert (how["points"], how["method"]) == (points, "seam")
    (network, _), how = made[1]
    assert (network.name, how["points"], how["method"]) == ("default", 50, "model")


@pytest.mark.parametrize("wrong", [{"method": "magic"}, {"points": 1}])
def test_settings_that_bitr_evaluate_does_not_write_are_bad_input(results, tmp_path, wrong):
    (tmp_path / FILE).write_text(json.dumps(json.loads((results / FILE).read_text()) | wrong))
    with pytest.raises(InputError, match="expected"):
        Gallery(tmp_path)


def test_a_picture_has_as_many_points_as_the_thumbnail_says(results, monkeypatch):
    counts, set_stage = [], picture.set_stage

    def counted(*given):
        stage = set_stage(*given)
        counts.append((len(stage.source.points), stage.source.total))
        return stage

    monkeypatch.setattr(picture, "set_stage", counted)
    gallery = Gallery(results)
    pair = replace(gallery.pair(gallery.entries[0]), source=demo_pair()[0])
    monkeypatch.setattr(gallery, "pair", lambda _: pair)
    gallery.picture(gallery.entries[0])
    assert counts == [(picture.THUMBNAIL_POINTS, 2700)]
