"""``bitr data``, as it is typed."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from bitr.cli.data import app
from bitr.data import DatasetInfo, dataset, fetch, info, registry
from bitr.data.own import write_pairs
from bitr.data.poses import Pairs
from bitr.data.registry import overlap, split_stats
from bitr.data.storage import SPLITS
from bitr.data.transforms import assembled, move_randomly
from bitr.errors import InputError
from bitr.io import Geometry
from tests.data.cases import pair_of, shape


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def make(i, rng):
    return replace(pair_of(40 + i, rng), id=f"pair {i}")


@pytest.fixture
def generated(monkeypatch):
    """A data set that is generated, and one that is missing: no more."""
    here = DatasetInfo(
        "made-up",
        "points in a cube",
        "Sec. 0",
        "none needed",
        "bitr data make made-up",
        SPLITS,
        lambda root: True,
        lambda split, root, seed: Pairs("made-up", split, seed, make, range(20)),
    )
    entry = {"title": here.title, "section": "Sec. 0", "licence": here.licence, "source": here.source}
    table = {"made-up": entry, "bunny": registry.TABLE["bunny"]}
    for module in (registry, fetch):
        monkeypatch.setattr(module, "TABLE", table)
    real = registry.info
    monkeypatch.setattr(registry, "info", lambda name: here if name == "made-up" else real(name))
    monkeypatch.setattr("bitr.data.info", registry.info)
    return here


@pytest.mark.parametrize(
    "arguments",
    [["list"], ["fetch", "bunny", "--from", "none.zip"], ["fetch", "bunny", "--from", "text.zip"]],
)
def test_a_list_and_an_archive_that_is_refused_wait_for_nothing_heavy(tmp_path, arguments):
    """torch and scipy take seconds to import."""
    (tmp_path / "text.zip").write_text("no archive")
    code = (
        "import sys; from bitr.cli import main; status = main(sys.argv[1:])\n"
        "heavy = {'torch', 'scipy', 'matplotlib'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else status)"
    )
    command = [sys.executable, "-c", code, "data", *arguments, "--data-root", "data"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == (0 if arguments == ["list"] else 2), done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["text.zip"]


@pytest.mark.slow
def test_the_list_agrees_with_what_can_be_opened(tmp_path, real_data):
    def opens(name, root):
        try:
            return len(info(name).open("test", root, 0)) > 0
        except (InputError, IndexError):
            return False

    for name in fetch.TABLE:
        for root in (None, tmp_path, real_data):
            assert fetch.is_here(name, root) == opens(name, root), (name, root)


def test_the_list_says_what_is_here_and_what_brings_the_rest(generated, tmp_path):
    done = run("list", "--data-root", tmp_path)
    assert done.exit_code == 0
    assert "made-up" in done.stdout
    assert "bunny: bitr data fetch bunny" in done.stdout


def test_the_list_as_json(generated, tmp_path):
    (tmp_path / "bunny").mkdir()
    (tmp_path / "bunny" / "readme").write_bytes(bytes(1234))
    answer = json.loads(run("list", "--json", "--stats", "--data-root", tmp_path).stdout)
    assert answer["root"] == str(tmp_path)
    made, bunny = answer["data"]
    assert (made["name"], made["here"], made["section"]) == ("made-up", True, "Sec. 0")
    assert (bunny["here"], bunny["bytes"], bunny["stats"]) == (False, 1234, [])
    assert [row["split"] for row in made["stats"]] == list(SPLITS)
    assert made["stats"][0]["pairs"] == 20


def test_the_statistics_are_a_markdown_table(generated, tmp_path):
    lines = run("list", "--stats", "--data-root", tmp_path).stdout.splitlines()
    assert len(lines) == 5
    assert lines[2].startswith("| made-up | train | 20 |  | 49, 49 |")
    assert {line.count("|") for line in lines} == {8}


def test_making_pairs(generated, tmp_path):
    done = run("make", "made-up", "--pairs", 5, "--output", tmp_path / "out", "--split", "val", "--seed", 2)
    assert done.exit_code == 0
    found = dataset(str(tmp_path / "out"), "val")
    expected = Pairs("made-up", "val", 2, make, range(5))
    assert [pair.id for pair in found] == [pair.id for pair in expected]
    np.testing.assert_array_equal(found[4].source.points, expected[4].source.points)
    with pytest.raises(InputError, match="has 20 pairs for train"):
        raise run("make", "made-up", "--pairs", 21, "--output", tmp_path / "more").exception
    with pytest.raises(InputError, match="not an empty folder"):
        raise run("make", "made-up", "--pairs", 1, "--output", tmp_path / "out").exception
    assert "wrote 1 pair; listed in" in run("make", "made-up", "--pairs", 1, "-o", tmp_path / "one").stderr


def test_a_contact_sheet(generated, tmp_path):
    done = run("show", "made-up", "-o", tmp_path / "sheet.png", "--pairs", 5)
    assert done.exit_code == 0
    picture = np.asarray(Image.open(tmp_path / "sheet.png").convert("RGB")).astype(int)
    red, green, blue = picture.reshape(-1, 3).T
    for seen in (
        (red - green > 50) & (abs(green - blue) < 40),  # the source
        (green - blue > 50) & (red - green < 80),  # where it belongs
        (blue - red > 50),  # the reference
    ):
        assert seen.sum() > 30
    with pytest.raises(InputError, match="exists already"):
        raise run("show", "made-up", "-o", tmp_path / "sheet.png").exception
    assert run("show", "made-up", "-o", tmp_path / "sheet.png", "--force").exit_code == 0
    with pytest.raises(InputError, match=r"expected one of \.png"):
        raise run("show", "made-up", "-o", tmp_path / "sheet.jpg").exception


def test_own_pairs_are_shown_too(tmp_path):
    write_pairs(tmp_path / "mine", [make(i, np.random.default_rng(i)) for i in range(2)], "test")
    assert run("show", tmp_path / "mine", "-o", tmp_path / "mine.png").exit_code == 0


def test_fetching_needs_a_place_and_something_to_fetch(generated, monkeypatch, tmp_path):
    monkeypatch.delenv("BITR_DATA", raising=False)
    with pytest.raises(InputError, match="give --data-root FOLDER"):
        raise run("fetch", "bunny").exception
    with pytest.raises(InputError, match="nothing to fetch: bitr data make made-up"):
        raise run("fetch", "made-up", "--data-root", tmp_path).exception


def test_each_command_has_an_example():
    for command in ("list", "fetch", "make", "show"):
        assert f"example: bitr data {command} " in " ".join(run(command, "--help").stdout.split())


def test_overlap_is_the_share_of_points_with_a_partner():
    rng = np.random.default_rng(0)
    cloud = shape(500, rng)
    same = move_randomly(assembled(cloud, cloud, "same"), rng)
    assert overlap(same) == 1
    apart = assembled(cloud, Geometry(cloud.points + 10), "apart")
    assert overlap(apart) == 0
    half = Geometry(np.concatenate([cloud.points[:250], cloud.points[250:] + 10]))
    assert overlap(move_randomly(assembled(half, cloud, "half"), rng)) == pytest.approx(0.5, abs=0.01)


def test_a_count_that_is_the_papers_says_so():
    pairs = Pairs("indoor", "test", 0, make, range(59))
    row = split_stats("indoor", "test", pairs)
    assert (row.pairs, row.paper_pairs, row.note) == (59, 59, "as in the paper")
    other = split_stats("indoor", "train", pairs)
    assert (other.paper_pairs, other.note) == (
        278,
        "trained on SUN3D, the paper on six other scenes of 7-Scenes",
    )
