"""The weights that come with bitr: each loads, is small, and has a card that is true to it."""

import json
import shutil
from importlib import resources
from pathlib import Path

import pytest

import bitr
from bitr.assembly.network import Network
from bitr.data import info
from bitr.model.checkpoint import card_of, note_of

FOLDER = Path(str(resources.files("bitr") / "weights"))
NAMES = sorted(path.stem for path in FOLDER.glob("*.safetensors"))
SAYS = {"data", "terms", "split_sha256", "minutes", "threads", "seed", "steps", "validation", "figures"}
NO_SHIPPING = ("no redistribution", "non-commercial", "no commercial", "research", "GPL", "BY-NC")


def card(name):
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def test_the_weights_of_the_tasks_are_there():
    assert NAMES == ["bowl-placing", "default", "mug-hanging"]


@pytest.mark.parametrize("name", NAMES)
def test_the_card_says_what_the_file_is(name):
    says = card(name)
    assert set(says) >= SAYS | {"command", "limits", "config"}
    assert bitr.load(name).config == bitr.BITRConfig.from_dict(says["config"]["model"])
    assert says["figures"]
    assert (FOLDER / f"{name}.safetensors").stat().st_size < 400_000


@pytest.mark.parametrize("name", NAMES)
def test_the_model_sees_as_many_points_as_the_card_says(name, tmp_path):
    data = card(name)["config"]["data"]
    assert Network.of(name).points == (data.get("seen") or data["points"])
    assert card_of(name) == card(name)
    copied = shutil.copy(FOLDER / f"{name}.safetensors", tmp_path)
    assert card_of(copied) == {}


@pytest.mark.parametrize("name", NAMES)
def test_only_weights_whose_data_allows_it_are_shipped(name):
    terms = info(card(name)["config"]["data"]["name"]).licence
    assert card(name)["terms"] == terms
    assert not any(word in terms for word in NO_SHIPPING)


def test_the_default_weights_know_how_sure_they_are():
    assert note_of("default", "calibration") is not None
