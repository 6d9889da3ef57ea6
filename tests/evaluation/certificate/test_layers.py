"""Stage by stage: lawful models pass, and of a broken one the first stage that breaks a law is named."""

import math

import pytest
import torch

from bitr import BITR, BITRConfig
from bitr.evaluation.certificate import Certificate
from bitr.evaluation.certificate.features import OfClouds, OfMerged, feature_gap
from bitr.evaluation.certificate.layers import layer_rows
from bitr.evaluation.certificate.pairs import Trial, as_cloud, cloud_pair
from bitr.evaluation.certificate.trace import trace
from bitr.groups import Rep, Rigid
from tests.conftest import random_field
from tests.evaluation.certificate.broken import BROKEN, SMALL, small

PIECES = cloud_pair(60)
FEATURES = {"normals": True, "colors": True}


@torch.no_grad()
def of_layers(model):
    return Certificate("model", 0, tuple(layer_rows(model, PIECES, 1, 0)))


@pytest.mark.parametrize("kind", ["default", "paper"])
@pytest.mark.parametrize(
    "changes", [{}, {"max_degree": 2, "num_layers": 1}, {"width": 6, "depth": 2}, FEATURES], ids=str
)
def test_every_layer_of_a_lawful_model_passes(kind, changes):
    make = BITRConfig.paper if kind == "paper" else BITRConfig
    certificate = of_layers(BITR(make(**{**SMALL, **changes})))
    assert certificate.ok, certificate.broken
    assert {row.worst < 1e-11 for row in certificate.rows} == {True}


@pytest.mark.parametrize("name", BROKEN)
def test_the_first_stage_that_breaks_a_law_is_named_and_no_other_law_is_blamed(name):
    make, expected = BROKEN[name]
    certificate = of_layers(make())
    found = {law: certificate.first_broken_layer(law) for law in certificate.broken}
    assert found == expected


def test_stages_are_in_the_order_in_which_they_are_computed():
    paths = list(dict.fromkeys(row.path for row in of_layers(small()).rows))
    assert paths[:5] == [
        "centring",
        "extract.edges",
        "extract.inputs",
        "extract.blocks.0.layer",
        "extract.blocks.0.norm",
    ]
    middle = paths.index("extract.keypoints")
    assert paths[middle : middle + 2] == ["extract.keypoints", "merge"]
    assert [path for path in paths if path.startswith("transform.")][-2:] == [
        "transform.last",
        "transform.one_channel",
    ]
    assert paths[-1] == "projection"


@torch.no_grad()
def test_small_clouds_where_some_places_hold_no_neighbour():
    model = small()
    trial = Trial.draw(cloud_pair(16, share=0.3), torch.Generator().manual_seed(0))
    assert len(trial.source.points) <= model.config.num_neighbors < len(trial.reference.points)
    rows = layer_rows(model, cloud_pair(16, share=0.3), 1, 0)
    assert all(row.ok for row in rows)


@torch.no_grad()
def test_a_trace_leaves_no_hook_and_does_not_change_the_pose():
    model = small().double()
    pair = PIECES(torch.Generator().manual_seed(0))
    x, y = (as_cloud(piece, torch.float64, model.config) for piece in pair)
    assert torch.equal(trace(model, x, y).pose.matrix(), model(x, y).matrix())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_checking_the_layers_does_not_change_the_model():
    model = small()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    of_layers(model)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert next(model.parameters()).dtype == torch.float32


def test_features_act_as_the_group_does(rng):
    """Moving twice is moving by the product, and a swap exchanges the roles of the motions."""
    one, two = Rep.one_sided(2, 3), Rep.two_sided(2, 3)
    (r1, r2), (s1, s2) = (Rigid.random(rng, 2).rotation for _ in range(2))
    for f in (
        OfClouds(random_field(one, 5, rng), random_field(one, 7, rng)),
        OfMerged(random_field(two, 5, rng)),
    ):
        assert feature_gap(f.moved(r1, r2).moved(s1, s2), f.moved(s1 @ r1, s2 @ r2)) < 1e-12
        assert feature_gap(f.moved(r1, r2).swapped(), f.swapped().moved(r2, r1)) < 1e-12
        assert feature_gap(f.swapped().swapped(), f) == 0
        assert feature_gap(f.moved(r1, r2), f) > 0.1


def test_features_that_cannot_be_compared_are_infinitely_apart(rng):
    f = random_field(Rep.two_sided(1, 3), 5, rng)
    fewer = {degree: value for degree, value in f.items() if degree != (0, 1)}
    assert feature_gap(OfMerged(fewer), OfMerged(f)) == math.inf
    nothing = {degree: torch.zeros_like(value) for degree, value in f.items()}
    assert feature_gap(OfMerged(nothing), OfMerged(nothing)) == 0
    assert feature_gap(OfMerged(f), OfMerged(nothing)) > 1e100
