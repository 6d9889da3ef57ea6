import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest

from bitr.cli import main
from bitr.io import read
from tests.assembly.shapes import solid
from tests.pieces import moved, two_pieces
from tests.show.parsed import Parsed

WRITTEN = (".ply", ".pcd", ".npz", ".npy", ".xyz", ".obj", ".glb")


@pytest.fixture
def files(tmp_path):
    for name, points in zip(("x.npy", "y.npy"), two_pieces(200), strict=True):
        np.save(tmp_path / name, points)
    return str(tmp_path / "x.npy"), str(tmp_path / "y.npy")


@pytest.fixture
def engine(files, weights, capsys):
    """Runs the command; returns exit status, standard output and standard error."""

    def run(*arguments, pair=files):
        status = main(["assemble", *map(str, pair), "--model", str(weights), *map(str, arguments)])
        return status, *capsys.readouterr()

    return run


@pytest.fixture
def assemble(engine):
    """The same with --fast, where all that matters is what is read and written."""
    return lambda *arguments, **pair: engine("--fast", *arguments, **pair)


def test_json_is_one_object_and_nothing_else(assemble, files):
    status, out, err = assemble("--json")
    assert (status, err) == (0, "")
    assert out.count("\n") == 1
    found = json.loads(out)
    assert (found["source"], found["reference"]) == files
    assert np.shape(found["transformation"]) == (4, 4)


def test_people_get_the_pose_and_what_was_written(assemble, tmp_path):
    pose = json.loads(assemble("--json")[1])["transformation"]
    status, out, err = assemble("-o", tmp_path / "pose.txt")
    assert (status, err) == (0, "")
    for value in np.ravel(pose)[:3]:
        assert f"{value:.8f}" in out
    assert "fitness" in out
    assert str(tmp_path / "pose.txt") in out


def test_names_are_shown_as_they_are(assemble, tmp_path):
    odd = tmp_path / "[red]two\nlines[bold].npy"
    np.save(odd, two_pieces(100)[0])
    status, out, _ = assemble(pair=(odd, odd))
    assert status == 0
    assert "[red]two\\nlines[bold].npy" in out


@pytest.mark.parametrize("suffix", WRITTEN)
def test_the_source_is_written_where_the_pose_puts_it(assemble, files, tmp_path, suffix):
    status, out, err = assemble("-o", tmp_path / f"out{suffix}", "--json")
    assert (status, err) == (0, "")
    expected = moved(read(files[0]).points, np.array(json.loads(out)["transformation"]))
    assert np.allclose(read(tmp_path / f"out{suffix}").points, expected, atol=1e-6)


@pytest.mark.parametrize("suffix", WRITTEN)
def test_the_scene_holds_both_pieces(assemble, files, tmp_path, suffix):
    status, out, _ = assemble("--scene", tmp_path / f"out{suffix}", "--json")
    assert status == 0
    source = moved(read(files[0]).points, np.array(json.loads(out)["transformation"]))
    both = np.concatenate([source, read(files[1]).points])
    assert np.allclose(read(tmp_path / f"out{suffix}").points, both, atol=1e-6)


@pytest.mark.parametrize("suffix", [".txt", ".json", ".JSON"])
def test_the_pose_alone_can_be_written(assemble, tmp_path, suffix):
    path = tmp_path / f"pose{suffix}"
    status, out, _ = assemble("-o", path, "--json")
    assert status == 0
    text = path.read_text()
    found = np.loadtxt(path) if suffix == ".txt" else json.loads(text)["transformation"]
    assert np.array_equal(found, json.loads(out)["transformation"])


def test_report_and_picture_are_written(assemble, tmp_path):
    html, png = tmp_path / "report.html", tmp_path / "picture.png"
    status, out, err = assemble("--html", html, "--picture", png)
    assert (status, err) == (0, "")
    assert "x.npy" in html.read_text(encoding="utf-8")
    assert png.read_bytes().startswith(b"\x89PNG")
    assert str(html) in out
    assert str(png) in out


def test_the_report_says_how_sure_and_how_lawful_the_answer_is(assemble, tmp_path):
    html = tmp_path / "report.html"
    assert assemble("--html", html, "--points", 50)[0] == 0
    parsed = Parsed(html.read_text(encoding="utf-8"))
    names = [e["text"] for e in parsed.all("th")]
    rows = dict(zip(names, [e["text"] for e in parsed.all("td")][-len(names) :], strict=True))
    assert rows["settings"] == "method auto, hypotheses 1, fast True, points 50, seed 0"
    laws = [float(value) for value in re.findall(r"Δ_\w+ (\S+?)[,;]", rows["law errors"])]
    assert len(laws) == 3
    assert max(laws) < 1e-6


def test_a_film_is_written(assemble, tmp_path):
    path = tmp_path / "film.gif"
    status, out, err = assemble("--animate", path)
    assert (status, err) == (0, "")
    assert path.read_bytes().startswith(b"GIF89a")
    assert f"wrote       {path}" in out
    refused(assemble("--animate", path), "exists already")
    refused(assemble("--animate", tmp_path / "film.png"), "--animate writes no .png, expected one of .gif")


@pytest.mark.parametrize("method", ["overlap", "seam", "touch", "model"])
def test_a_method_can_be_forced(engine, method):
    status, out, _ = engine("--json", "--method", method)
    assert status == 0
    assert json.loads(out)["method"] == method


@pytest.mark.slow
def test_several_poses_are_listed_with_their_weights_and_all_are_written(engine, assemble, tmp_path):
    status, out, _ = engine("--hypotheses", "3", "-o", tmp_path / "pose.json")
    assert status == 0
    found = json.loads((tmp_path / "pose.json").read_text())
    assert len(found["hypotheses"]) == 3
    rows = [line for line in out.splitlines() if line.startswith("pose ")]
    first = found["hypotheses"][0]
    begins = f"weight {first['weight']:.3f}, confidence {first['confidence']:.2f}, {first['method']} from "
    assert rows[0].startswith(f"pose 1      {begins}")
    assert rows[0].endswith("0.00° from the first")
    assert [row.split()[3] for row in rows] == [f"{h['weight']:.3f}," for h in found["hypotheses"]]
    assert found["transformation"] == found["hypotheses"][0]["transformation"]
    assert "pose 1" not in assemble()[1]


@pytest.mark.slow
def test_how_far_an_answer_can_be_trusted_is_told_to_people(engine, files, tmp_path):
    np.save(tmp_path / "cube.npy", solid("cube", 0))
    status, out, err = engine(pair=(tmp_path / "cube.npy", files[1]))
    assert (status, err) == (0, "")
    assert re.search(r"^status      (ambiguous|unsure): .*those of a cube", out, re.MULTILINE)
    np.save(tmp_path / "flat.npy", solid("cube", 0) * [1, 1, 0])
    out = engine(pair=(tmp_path / "flat.npy", files[1]))[1]
    assert "status      degenerate: the source has its points on a plane\n" in out
    assert "confidence  0% " in out


@pytest.mark.slow
def test_a_given_pose_is_read_from_a_file(engine, tmp_path):
    found = json.loads(engine("--json", "-o", tmp_path / "pose.json")[1])
    np.savetxt(tmp_path / "pose.txt", found["transformation"], fmt="%.17g")
    for name in ("pose.txt", "pose.json"):
        again = json.loads(engine("--json", "--init", tmp_path / name, "--hypotheses", 64)[1])
        origins = {each["origin"] for each in again["hypotheses"]}
        gap = [
            np.abs(np.subtract(h["transformation"], found["transformation"])).max()
            for h in again["hypotheses"]
        ]
        assert "given" in origins
        assert min(gap) < 0.2
    refused(engine("--init", tmp_path / "none.txt"), "none.txt")


@pytest.mark.slow
def test_the_log_says_where_proposals_come_from(engine):
    err = engine("-v", "--json")[2]
    assert re.search(r"from +(model|seam|match) +score", " ".join(err.split()))


def refused(result, says):
    status, out, err = result
    assert status == 2
    assert out == ""
    assert err.startswith("bitr: ")
    assert err.count("\n") == 1
    assert says in err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--method", "magic"], "method = 'magic': expected one of auto, overlap, seam, mate, touch, model"),
        (["--method", "seam"], "method = 'seam' with fast: a fast answer is the model's own"),
        (["--hypotheses", "65"], "hypotheses = 65: expected a whole number from 1 to 64"),
        (["--points", "2"], "points = 2"),
        (["--seed", "-1"], "seed = -1"),
        (["--model", "nonesuch"], "nonesuch: no such file or folder"),
        (["-o", "missing/out.ply"], "the folder missing does not exist"),
        (["-o", "out"], "file without a suffix"),
        (["-o", "out.stl"], "--output writes no .stl"),
        (["-o", "folder.ply"], "is a folder"),
        (["-o", "there.ply"], "exists already"),
        (["--scene", "there.ply"], "exists already"),
        (["--scene", "pose.txt"], "--scene writes no .txt"),
        (["--html", "report.pdf"], "--html writes no .pdf"),
        (["--html", "there.html"], "exists already"),
        (["--picture", "picture.jpg"], "--picture writes no .jpg"),
        (["-o", "x.npy", "--force"], "is named twice"),
        (["-o", "./y.npy", "--force"], "is named twice"),
        (["-o", "link.npy", "--force"], "is named twice"),
        (["-o", "new.ply", "--scene", "new.ply"], "is named twice"),
        (["-o", "n" * 300 + ".ply"], "cannot be written"),
        (["--fix", "w"], "fix = 'w': expected x, y or z"),
        (["--fix", "z", "--translation-only"], "expected one or the other"),
        (["--ray"], "--ray is for batches"),
        (["--workers", "2"], "--workers goes with --ray"),
        (["--manifest", "pairs.csv"], "got 2 files and a --manifest"),
        (["z.npy"], "a batch needs a table"),
        (["z.npy", "-o", "table.ply"], "expected a name in .jsonl or .csv"),
        (["z.npy", "-o", "there.csv"], "exists already and is not of a batch"),
        (["z.npy", "-o", "table.csv", "--html", "a.html"], "are for one pair"),
        (["there.csv", "-o", "there.csv", "--force"], "is also an input"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_line_before_any_work(
    assemble, files, tmp_path, monkeypatch, arguments, says
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.ply").mkdir()
    for name in ("there.ply", "there.html", "there.csv"):
        (tmp_path / name).write_text("mine")
    (tmp_path / "link.npy").symlink_to("x.npy")
    monkeypatch.setattr("bitr.assembly.assemble.sample", None)  # would end in status 1
    before = {path: path.stat() for path in tmp_path.iterdir()}
    refused(assemble(*arguments, pair=("x.npy", "y.npy")), says)
    assert {path: path.stat() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("pair", [(), ("x.npy",)])
def test_two_files_are_needed(assemble, pair):
    refused(assemble(pair=pair), f"got {len(pair)} file{'' if len(pair) == 1 else 's'}")


def test_force_overwrites(assemble, tmp_path):
    path = tmp_path / "there.ply"
    path.write_text("mine")
    assert assemble("-o", path, "--force")[0] == 0
    assert len(read(path).points) == 80


def test_a_failure_leaves_nothing_behind(assemble, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("numpy.savez", fail)
    before = set(tmp_path.iterdir())
    status, out, err = assemble("-o", tmp_path / "out.npz")
    assert status != 0
    assert out == ""
    assert "No space left on device" in err
    assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    "name", [b"with space.npy", b"two\nlines.npy", b"not utf-8 \xff\xfe.npy", "é雪.npy".encode()]
)
def test_files_may_have_any_name(assemble, tmp_path, name):
    path = tmp_path / os.fsdecode(name)
    np.save(path, two_pieces(100)[0])
    out_path = path.with_suffix(".obj")
    status, out, err = assemble(
        "--json", "-o", out_path, "--html", path.with_suffix(".html"), pair=(path, path)
    )
    assert (status, err) == (0, "")
    assert json.loads(out)["source"] == str(path)
    assert len(read(out_path).points) == 40
    status, out, err = assemble("--json", pair=(path, path.with_name("missing " + path.name)))
    refused((status, out, err), "missing ")


@pytest.mark.slow
def test_in_a_process_of_its_own(files, weights, tmp_path):
    """As in a shell, also for a name that is no UTF-8."""
    odd = os.fsencode(tmp_path) + b"/\xff.npy"
    os.rename(files[0], odd)
    call = [sys.executable, "-m", "bitr", "assemble", odd, files[1], "--model", str(weights), "--json"]
    done = subprocess.run(call, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    assert os.fsencode(json.loads(done.stdout)["source"]) == odd
    done = subprocess.run([*call[:4], odd + b"x", *call[5:]], capture_output=True)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"bitr: ")
    assert done.stderr.count(b"\n") == 1


def test_an_answer_that_may_turn_about_one_axis_or_not_at_all(assemble, files):
    for options, kept in ((["--fix", "y"], 1), (["--translation-only"], slice(0, 3))):
        status, out, _ = assemble("--fast", "--json", *options)
        assert status == 0
        rotation = np.array(json.loads(out)["transformation"])[:3, :3]
        np.testing.assert_allclose(rotation[kept], np.eye(3)[kept], atol=1e-15)


def test_several_sources_are_a_batch(assemble, files, tmp_path):
    table = tmp_path / "table.csv"
    status, out, err = assemble("-o", table, "--json", pair=(files[0], tmp_path / "missing.npy", files[1]))
    assert status == 2
    assert json.loads(out) == {"results": str(table), "pairs": 2, "ok": 1, "errors": 1, "resumed": 0}
    assert err.startswith("bitr: 1 of 2 pairs assembled, 1 could not be")
    assert err.count("\n") == 1
    table.unlink()
    status, out, err = assemble("-o", table, pair=(files[0], files[1], files[1]))
    assert (status, out) == (0, "")
    assert err == f"bitr: 2 of 2 pairs assembled; wrote {table}\n"
    assert assemble("-o", table, pair=(files[0], files[1], files[1]))[0] == 0
    refused(
        assemble("-o", table, pair=(files[0], files[1], files[0])), "holds results of another batch (the pair"
    )


def test_a_bad_manifest_is_bad_input(assemble, tmp_path):
    manifest = tmp_path / "pairs.csv"
    manifest.write_text("sorce,reference\na.ply,b.ply\n")
    refused(assemble("--manifest", manifest, "-o", tmp_path / "table.csv", pair=()), "pairs.csv, line 1")
    assert not (tmp_path / "table.csv").exists()
    refused(assemble("--manifest", manifest, "-o", manifest, "--force", pair=()), "is also the manifest")
    assert manifest.read_text() == "sorce,reference\na.ply,b.ply\n"
