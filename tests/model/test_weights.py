"""The weights that come with bitr: each loads, is small, and has a card that is true to it."""

import json
import shutil
from dataclasses import replace
from importlib import resources
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import bitr
from bitr.assembly.network import Network
from bitr.data import dataset, info
from bitr.evaluation.metrics import is_right
from bitr.groups import Cloud
from bitr.model.checkpoint import card_of
from bitr.testing import SETTINGS, example_pair

FOLDER = Path(str(resources.files("bitr") / "weights"))
NAMES = sorted(path.stem for path in FOLDER.glob("*.safetensors"))
SAYS = {"data", "terms", "split_sha256", "minutes", "threads", "seed", "steps", "validation", "figures"}
NO_SHIPPING = ("no redistribution", "non-commercial", "no commercial", "research", "GPL", "BY-NC")


def card(name):
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def test_the_weights_of_the_tasks_are_there():
    assert NAMES == ["bowl-placing", "default", "fracture", "mug-hanging"]


@pytest.mark.parametrize("name", NAMES)
def test_the_card_says_what_the_file_is(name):
    says = card(name)
    assert set(says) >= SAYS | {"command", "limits", "config"}
    assert bitr.load(name).config == bitr.BITRConfig.from_dict(says["config"]["model"])
    assert says["figures"]
    assert (FOLDER / f"{name}.safetensors").stat().st_size < 600_000


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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "data", "share"),
    [
        ("default", "shapes:cut", 0.7),
        ("fracture", "shapes:fracture", 0.6),
        ("mug-hanging", "", 0.8),
        ("bowl-placing", "", 0.8),
    ],
)
def test_weights_are_as_good_as_ever_on_held_out_pairs(name, data, share):
    """Share of right answers of the default command; chance has none."""
    pairs = dataset(data or name, "val", seed=0)[:8]
    right = [
        is_right(pair, bitr.assemble(pair.source, pair.reference, model=name).transformation)
        for pair in pairs
    ]
    assert sum(right) >= share * len(pairs)


# Poses of a pair as they were before the layers were rewritten, the first three rows of each matrix

SHIPPED = {
    "default": (
        (-0.0326966273929108, -0.892759938460856, -0.449344659294508, -0.866302816718285),
        (-0.900136986103904, 0.221697704976929, -0.374971377381983, 0.41958011792147),
        (0.434378103505354, 0.392211447929978, -0.810855007573956, -1.29520434580448),
    ),
    "bowl-placing": (
        (0.146149686030548, 0.828353706368083, 0.540805331352635, 0.540387074341647),
        (-0.659352138557018, 0.489110654769392, -0.570986448850885, -0.158070391426909),
        (-0.737492390912245, -0.273131661543142, 0.617660156404169, 1.01467755958188),
    ),
    "fracture": (
        (-0.584987038727636, 0.0341085231122392, 0.810325103382447, 2.66347303765279),
        (-0.194450667709246, 0.964076422575383, -0.180957423892142, -0.34088592775586),
        (-0.787387517267133, -0.263426004952726, -0.557339786455755, 0.324480284498871),
    ),
    "mug-hanging": (
        (0.167151507362829, 0.513817369499738, 0.841458308169041, 1.64616786018495),
        (0.894275295336517, -0.438366674793706, 0.0900352963070293, -0.753178279512171),
        (0.415128979640208, 0.737445841557656, -0.532767830327809, -1.42023660842062),
    ),
}
PAPER = {"radial": "homogeneous", "radial_functions": [8, 4], "smooth": False}
OLDER = {
    "the paper's layers, named by width 0": (
        {"width": 0, "num_layers": 2, "num_keypoints": 8},
        (
            (0.626946517098347, -0.118199500209334, 0.770043468155218, 0.367377865905635),
            (-0.547153477062781, -0.770422739596979, 0.327218390146389, 1.08640457091594),
            (0.554581948170296, -0.626480391123417, -0.547687120810312, -1.87944593546366),
        ),
    ),
    "degree 2": (
        {"width": 0, "max_degree": 2, "num_keypoints": 8, "offset": True},
        (
            (-0.579529508972636, 0.633794606914732, -0.512298686779242, 0.305848926989838),
            (0.789730130324671, 0.281576351713546, -0.545014751555468, -2.02643132971396),
            (-0.201176215013889, -0.720429840027112, -0.663708502364702, -0.881807487472648),
        ),
    ),
    "the paper's construction": (
        {"width": 0, **PAPER, "position_features": False, "normalize": False, "num_keypoints": 8},
        (
            (-0.270719222484556, -0.457526717012147, 0.846983120137258, 1.7684349589521),
            (-0.962155851130683, 0.10017418731772, -0.253419119898687, 0.788388838928701),
            (0.0311001722237776, -0.883535191950678, -0.467331085925525, -1.04631165587767),
        ),
    ),
    "wide": (
        {"width": 8, "num_layers": 2, "num_keypoints": 8, "dense": True, "num_modes": 2},
        (
            (-0.346433973166926, -0.154536397447579, -0.925257804127963, -0.50594642675091),
            (-0.810304993109777, -0.447660167479786, 0.378161595873159, 1.40349014943874),
            (-0.472640794237168, 0.880749042756161, 0.0298630759796238, 0.0342275131289286),
        ),
    ),
}


def assert_stored(model, rows):
    """To 1e-12, over the singular gap where that is small."""
    pieces = [Cloud(points) for points in example_pair(0, 100, SETTINGS[0])]
    if model.config.normals:
        pieces = [replace(each, normals=nn.functional.normalize(each.points, dim=-1)) for each in pieces]
    with torch.no_grad():
        found = model.double().solve(*pieces)
    tolerance = 1e-12 / min(1.0, float(found.singular_gap))
    expected = torch.tensor(rows, dtype=torch.float64)
    torch.testing.assert_close(found.pose.matrix()[0, :3], expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", NAMES)
def test_shipped_weights_keep_their_poses(name):
    assert_stored(bitr.load(name), SHIPPED[name])


@pytest.mark.parametrize("name", OLDER)
def test_older_checkpoints_keep_their_poses(name, tmp_path):
    """Configs from before ``extractor``, with weights that no generator has drawn."""
    config, rows = OLDER[name]
    drawn = bitr.BITR(bitr.BITRConfig.from_dict(config)).double()
    weights = {
        key: 0.4 * torch.cos(1.7 * torch.arange(value.numel(), dtype=torch.float64) + i).reshape(value.shape)
        for i, (key, value) in enumerate(sorted(drawn.state_dict().items()))
    }
    metadata = {"format": "bitr-1", "config": json.dumps(config)}
    save_file(weights, tmp_path / "model.safetensors", metadata)
    loaded = bitr.load(tmp_path)
    assert loaded.config.extractor == ("wide" if config["width"] else "paper")
    assert bitr.BITRConfig.from_dict(loaded.config.to_dict()) == loaded.config
    assert_stored(loaded, rows)
