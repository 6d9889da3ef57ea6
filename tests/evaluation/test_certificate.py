"""The certificate of models and of any method: its rows, its judgement, JSON and the page."""

import json
import math
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
import torch

from bitr import BITR, BITRConfig, Cloud, Rigid, arun
from bitr.errors import InputError
from bitr.evaluation.certificate import (
    BOUNDS,
    LAWS,
    Certificate,
    Row,
    audit,
    certify,
    cloud_pair,
    mesh_pair,
)
from bitr.show.report import render_certificate
from bitr.testing import untrained_model
from tests.show.chromium import EXECUTABLE, browser


@pytest.fixture(autouse=True)
def _smaller(monkeypatch):
    """Smaller clouds and fewer trials; the command is tried as it is."""
    monkeypatch.setattr("bitr.evaluation.certificate.POINTS", 100)
    monkeypatch.setattr("bitr.evaluation.certificate.FEWEST_FOR_A_MEDIAN", 3)


def small(kind=BITR, **changes):
    torch.manual_seed(0)
    return kind(
        BITRConfig(extractor="paper", num_keypoints=8, num_neighbors=8, num_layers=1, **changes)
    ).eval()


class PushedAtTheEnd(BITR):
    def forward(self, source, reference):
        pose = super().forward(source, reference)
        return Rigid(pose.rotation, pose.translation + torch.tensor([0.1, 0.0, 0.0]).to(pose.translation))


class InAGrid(BITR):
    """A grid about the centroids does not turn with the clouds; its width is a share of their size."""

    def forward(self, source, reference):
        return super().forward(*(self._rounded(cloud) for cloud in (source, reference)))

    def _rounded(self, cloud):
        center = cloud.points.mean(1, keepdim=True)
        width = (cloud.points - center).std() / 4
        return Cloud(((cloud.points - center) / width).round() * width + 1e-3 * cloud.points + center)


def paths(certificate):
    return list(dict.fromkeys(row.path for row in certificate.rows))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["default", "paper"])
def test_the_default_and_paper_models_pass(kind):
    certificate = certify(untrained_model(kind, 0, torch.float32), trials=1)
    assert certificate.ok, certificate.verdict
    assert paths(certificate) == ["model, float64", "model, float32", "model, bfloat16 autocast"]
    rounded = [row for row in certificate.rows if row.precision == "bfloat16" and row.law == "bi"]
    assert rounded[0].worst > 1e-4, "nothing was rounded"
    single = [row for row in certificate.rows if row.precision == "float32" and row.law == "bi"]
    assert single[0].worst > 1e-8
    assert {row.trials for row in certificate.rows if row.judged == "worst"} == {1}
    assert rounded[0].trials == 3, "one trial has no median"


BROKEN = {
    "weights untied": (lambda: small(swap=False), ("swap",)),
    "no unit of length": (lambda: small(scale=False), ("scale",)),
    "a grid": (lambda: small(InAGrid), ("bi",)),
    "a push at the end": (lambda: small(PushedAtTheEnd), LAWS),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_law_is_found_on_every_path_and_no_other_is_blamed(name):
    make, broken = BROKEN[name]
    certificate = certify(make(), trials=1)
    assert certificate.broken == broken
    exact = [row.law for row in certificate.rows if row.precision == "float64" and not row.ok]
    assert tuple(exact) == broken
    assert certificate.verdict == f"Broken: {', '.join(f'Δ_{law}' for law in broken)}."


@pytest.mark.slow
def test_certifying_does_not_change_the_model():
    model = small()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    certify(model, trials=1)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert next(model.parameters()).dtype == torch.float32


def test_a_certificate_depends_on_the_seed_alone():
    first, again, other = (audit(by_rows, trials=2, seed=seed) for seed in (0, 0, 1))
    assert first == again
    assert first.rows != other.rows


def test_meshes_are_closed_and_turn_with_their_vertices(rng):
    x, y = mesh_pair(rng, 50)
    assert len(x.points) == len(y.points) == 50
    assert len(x.faces) == 2 * 50 - 4  # Euler, for a sphere
    edges = np.sort(np.concatenate([x.faces[:, [0, 1]], x.faces[:, [1, 2]], x.faces[:, [2, 0]]]), axis=1)
    assert set(np.unique(edges, axis=0, return_counts=True)[1]) == {2}


def test_the_number_of_trials_is_checked():
    for trials in (0, -3, 100_000):
        with pytest.raises(InputError, match=f"trials = {trials}: expected"):
            certify(small(), trials=trials)
        with pytest.raises(InputError, match="expected a whole number from 1"):
            audit(lambda x, y: np.eye(4), trials=trials)


def by_rows(x, y):
    """Arun's method, as if the points corresponded in their order."""
    return arun(torch.from_numpy(x), torch.from_numpy(y))


def centroids(x, y):
    pose = np.eye(4)
    pose[:3, 3] = y.mean(0) - x.mean(0)
    return pose


def turned_about_the_source(x, y):
    """Lawful but for the swap: a motion that follows the source alone comes first."""
    center, far = x.mean(0), x[np.linalg.norm(x - x.mean(0), axis=1).argmax()]
    push = Rigid(torch.eye(3).double(), torch.from_numpy(0.1 * (far - center)))
    return by_rows(x, y) @ push


def in_millimetres(x, y):
    """Lawful but for the scale: a fixed length along an axis that follows the source and the reference."""
    pose = by_rows(x, y)
    gap = torch.from_numpy(y[0]) - pose.act(torch.from_numpy(x[:1]))[0]
    return Rigid(pose.rotation, pose.translation + 0.1 * gap / gap.norm())


@pytest.mark.parametrize(
    ("method", "broken"),
    [
        (by_rows, ()),
        (lambda x, y: by_rows(x, y).matrix().numpy(), ()),
        (centroids, ("bi",)),
        (turned_about_the_source, ("swap",)),
        (in_millimetres, ("scale",)),
        (lambda x, y: np.full((4, 4), np.nan), LAWS),
    ],
)
def test_any_method_can_be_audited(method, broken):
    certificate = audit(method, trials=3)
    assert certificate.broken == broken
    assert {row.precision for row in certificate.rows} == {"method"}


def test_an_answer_in_float32_is_held_to_the_bounds_of_float32():
    certificate = audit(lambda x, y: by_rows(x, y).to(torch.float32), trials=2)
    assert certificate.ok
    assert {row.precision for row in certificate.rows} == {"float32"}
    assert max(row.worst for row in certificate.rows) > 1e-9


@pytest.mark.parametrize(
    ("answer", "says"),
    [(np.eye(3), r"shape \(3, 3\)"), ("a pose", "returned str"), (None, "returned NoneType")],
)
def test_an_answer_that_is_no_pose_is_bad_input(answer, says):
    with pytest.raises(InputError, match=says):
        audit(lambda x, y: answer, trials=1)


def test_a_method_cannot_change_the_pair_that_the_law_is_checked_on():
    def careless(x, y):
        pose = by_rows(x, y)
        x += 1
        return pose

    assert audit(careless, trials=2).ok


def test_pieces_of_a_pair_have_the_share_that_was_asked_for(rng):
    x, y = cloud_pair(rng, share=0.3)
    assert (len(x.points), len(y.points)) == (30, 70)
    np.testing.assert_allclose(np.linalg.norm(x.normals, axis=1), 1)
    assert 0 <= x.colors.min() <= x.colors.max() <= 1


def row(law="bi", worst=1e-12, precision="float64", path="model", median=None):
    median = worst if median is None else median
    return Row(path, law, worst, median, precision, 4)


def test_a_row_is_judged_by_its_worst_trial_or_by_the_median_where_the_bound_says_so():
    assert row(worst=1e-9).ok
    assert not row(worst=1.1e-9, median=0.0).ok
    assert not row(worst=math.nan).ok
    assert row(worst=2.0, median=0.1, precision="bfloat16").ok
    assert not row(worst=2.0, median=0.31, precision="bfloat16").ok


def test_json_is_one_object_in_which_what_is_no_number_is_null():
    certificate = Certificate("m", 0, (row(), row("swap", math.nan), row("scale", math.inf)))
    found = json.loads(certificate.to_json(), parse_constant=lambda name: pytest.fail(name))
    assert [each["worst"] for each in found["rows"]] == [1e-12, None, None]
    assert [each["ok"] for each in found["rows"]] == [True, False, False]
    assert (found["ok"], found["broken"]) == (False, ["swap", "scale"])
    assert (found["rows"][0]["bound"], found["rows"][0]["judged"]) == (BOUNDS["float64"].bi, "worst")


def example():
    rows = [row(law, path="compiled") for law in LAWS]
    rows += [row(law, 3.25e-13) for law in LAWS]
    rows[1] = replace(rows[1], worst=0.0423)
    return Certificate("<b>a</b> & b", 7, tuple(rows))


class Tags(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.seen = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))


def test_the_page_has_the_figures_and_loads_nothing():
    page = render_certificate(example())
    tags = Tags(page).seen
    assert "<b>4.2e-02</b>" in page
    assert "<b>3.2e-13</b>" in page
    assert "Broken: Δ_swap." in page
    assert "&lt;b&gt;a&lt;/b&gt; &amp; b" in page
    assert not {"script", "img", "link", "iframe"} & {tag for tag, _ in tags}
    assert not any({"src", "href", "style"} & attrs.keys() for _, attrs in tags)
    assert [attrs["class"] for tag, attrs in tags if tag == "td" and attrs].count("bad") == 1
    assert "Random pairs, seed 7." in page
    assert "{{" not in page


@pytest.mark.slow
@pytest.mark.skipif(EXECUTABLE is None, reason="no Chromium is installed: apt-get install chromium")
@pytest.mark.parametrize("dark", [False, True])
def test_a_browser_draws_the_page_with_what_is_broken_in_red(tmp_path, dark):
    path = tmp_path / "certificate.html"
    path.write_text(render_certificate(example()), encoding="utf-8")
    with browser(tmp_path / "profile") as page:
        page.open(path, width=1000, height=700, dark=dark)
        pixels = page.pixels()
        assert page.errors == []
        assert page.requested == [path.as_uri()]
    red, green, _ = np.moveaxis(pixels, -1, 0)
    assert (red - green > 90).sum() > 300
    assert (green - red > 60).sum() > 300
