"""An evaluated data set as a wall of pictures."""

import json
from dataclasses import replace

import numpy as np
import pytest

from bitr.app.network import Network
from bitr.cli import main
from bitr.cli.demo import TRUTH
from bitr.errors import InputError
from bitr.io import write
from bitr.pictures.scene import Scene
from bitr.viewer.gallery import FILE, Gallery
from bitr.viewer.thumbnail import thumbnail
from bitr.viewer.viewer import Viewer
from tests.app.browser import EXECUTABLE
from tests.pictures.scenes import colored
from tests.viewer.cases import demo_pair
from tests.viewer.chromium import chromium, until


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A folder of ``bitr evaluate``, of three pairs that are turned the more the later they come."""
    home = tmp_path_factory.mktemp("results")
    rows, predicted = [], []
    x, y = (replace(side, points=side.points[::8]) for side in demo_pair())
    write(home / "x.ply", x)
    write(home / "y.ply", y)
    truth = np.loadtxt(TRUTH)
    for number, degrees in enumerate((40.0, 10.0, 90.0)):
        c, s = np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees))
        turn = np.array([[c, -s, 0, 0], [s, c, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
        common = {"id": f"pair {number} <b>"}
        rows.append(common | {"source": "x.ply", "reference": "y.ply", "pose": truth.tolist()})
        predicted.append(common | {"transformation": (turn @ truth).tolist()})
    for name, table in (("pairs.jsonl", rows), ("predictions.jsonl", predicted)):
        (home / name).write_text("".join(json.dumps(row) + "\n" for row in table))
    folder = home / "evaluated"
    given = ["--predictions", str(home / "predictions.jsonl"), "-o", str(folder)]
    assert main(["evaluate", str(home / "pairs.jsonl"), *given]) == 0
    return folder


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


@pytest.mark.parametrize("shape", [np.zeros((5, 3)), np.eye(3), np.array([[0.0, 0, 0], [1e6, 0, 0]])])
def test_a_picture_of_a_degenerate_pair_is_still_a_picture(shape):
    assert thumbnail(Scene(shape, shape, np.eye(4))).shape == (240, 320, 3)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no such file, expected a folder that bitr evaluate -o has written"),
        ("{", "damaged or not JSON"),
        ("[]", "not what bitr evaluate writes"),
        ('{"dataset": "x", "split": "test", "seed": 0, "rows": []}', "not what bitr evaluate writes"),
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


@pytest.mark.slow
@pytest.mark.skipif(EXECUTABLE is None, reason="no Chromium is installed: apt-get install chromium")
@pytest.mark.filterwarnings("ignore:Queued:UserWarning")
def test_a_click_on_a_picture_opens_its_pair(results, tmp_path):
    network = Network.of("default")
    with Viewer(network, Gallery(results), port=0, budget=100) as viewer, chromium(tmp_path) as new_tab:
        tab = new_tab()
        tab.open(viewer.url)
        page = until(lambda: next(iter(viewer.pages.values()), None), "a page")
        until(lambda: len(page.wall._tiles) == 6, "three pictures and their captions")
        until(lambda: colored(tab.pixels(), "yellow").any(), "a picture in sight")

        def opened():
            """On the second picture of the first row, whose place goes with the size of the window."""
            box = np.argwhere(colored(tab.pixels()[:, : page.client.camera.image_width], "yellow"))
            second = box[np.abs(box[:, 1] - np.median(box[:, 1])).argmin()]
            tab.click_at(second[1], second[0])
            return page.answer

        until(opened, "the pair")
        entry = next(e for e in page.wall.gallery.entries if e.id in tab.text("bitr-pair"))
        assert f"{entry.id}: {entry.error_text} in the evaluation" == tab.text("bitr-pair")
        assert page.answer.assembly.source.endswith("x.ply")
        tab.click("Show the gallery")
        until(lambda: len(page.wall._tiles) == 6 and page.session is None, "the gallery again")
        assert tab.errors == []
