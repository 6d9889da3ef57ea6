import csv
import errno
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from bitr.assembly.assemble import Settings
from bitr.assembly.batch import FIELDS, STATUSES, Pair, read_manifest, run_batch, solve_pair
from bitr.assembly.network import Network
from bitr.assembly.verify import shipped_verifier
from bitr.cli import main
from bitr.errors import InputError
from tests.pieces import model_file, two_pieces, untrained

SETTINGS = Settings(fast=True, points=60)


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    return Network.of(model_file(tmp_path_factory.mktemp("weights")))


def pairs_in(folder, count):
    """Pairs of small files, the third of which is missing."""
    pairs = []
    for number in range(count):
        names = [str(folder / f"{side}{number}.npy") for side in "xy"]
        if number != 2:
            for name, points in zip(names, two_pieces(100, seed=number), strict=True):
                np.save(name, points)
        pairs.append(Pair(f"pair {number}", *names))
    return pairs


def rows_of(table):
    return [json.loads(line) for line in table.read_text().splitlines()]


def without_time(rows):
    return {row["id"]: {key: value for key, value in row.items() if key != "seconds"} for row in rows}


def test_each_pair_gets_its_row_and_a_bad_one_does_not_stop_the_others(tmp_path, network):
    pairs, seen = pairs_in(tmp_path, 5), []
    table = tmp_path / "table.jsonl"
    summary = run_batch(
        pairs, network, SETTINGS, table, on_row=lambda done, total: seen.append((done, total))
    )
    assert (summary.pairs, summary.ok, summary.errors, summary.resumed) == (5, 4, 1, 0)
    assert seen == [(n, 5) for n in range(6)]
    rows = rows_of(table)
    assert [row["id"] for row in rows] == [pair.id for pair in pairs]
    assert [row["status"] == "error" for row in rows] == [False, False, True, False, False]
    assert {row["status"] for row in rows} <= set(STATUSES)
    assert all(tuple(row) == FIELDS for row in rows)
    assert "x2.npy" in rows[2]["error"]
    assert rows[2]["transformation"] is None
    assert all(row["error"] is None for row in rows if row["status"] != "error")
    alone = solve_pair(pairs[4], network, SETTINGS)
    assert rows[4]["transformation"] == alone["transformation"]


def test_an_unexpected_error_is_a_row_too(tmp_path, network, monkeypatch):
    def fail(*_):
        raise RuntimeError("out of luck\nand more")

    monkeypatch.setattr("bitr.assembly.batch.assemble_geometries", fail)
    row = solve_pair(pairs_in(tmp_path, 1)[0], network, SETTINGS)
    assert row["status"] == "error"
    assert row["error"] == "unexpected RuntimeError: out of luck\nand more"


def test_a_batch_is_continued_and_nothing_is_done_twice(tmp_path, network):
    pairs, table = pairs_in(tmp_path, 5), tmp_path / "table.csv"
    asked = []

    def some(todo):
        for pair in todo[:2]:
            asked.append(pair.id)
            yield solve_pair(pair, network, SETTINGS)

    for resumed, done in ((0, 2), (2, 4), (3, 5), (4, 5)):
        summary = run_batch(pairs, network, SETTINGS, table, solver=some)
        assert (summary.resumed, summary.ok + summary.errors) == (resumed, done)
    assert asked == [
        f"pair {number}" for number in (0, 1, 2, 3, 2, 4, 2)
    ]  # the one that fails is tried again


def test_what_failed_is_tried_again_and_what_is_done_is_not(tmp_path, network):
    pairs, table = pairs_in(tmp_path, 4), tmp_path / "table.jsonl"
    run_batch(pairs, network, SETTINGS, table)
    before = rows_of(table)
    for name, points in zip((pairs[2].source, pairs[2].reference), two_pieces(100, seed=2), strict=True):
        np.save(name, points)
    summary = run_batch(pairs, network, SETTINGS, table)
    assert (summary.ok, summary.errors, summary.resumed) == (4, 0, 3)
    rows = rows_of(table)
    assert rows[:3] == [row for row in before if row["status"] != "error"]
    assert rows[3]["id"] == "pair 2"
    assert rows[3]["error"] is None


def test_a_bad_row_of_a_manifest_is_a_row_that_says_why_and_can_be_mended(tmp_path, network):
    pairs, table = pairs_in(tmp_path, 2), tmp_path / "table.csv"
    manifest = tmp_path / "pairs.csv"
    good = f"{pairs[0].source},{pairs[0].reference},mug"
    manifest.write_text(f"source,reference,id\n{good}\n{pairs[1].source},,jug\nx.ply\n{good}\n")
    summary = run_batch(read_manifest(manifest), network, SETTINGS, table)
    assert (summary.pairs, summary.ok, summary.errors) == (4, 1, 3)
    with open(table, newline="") as file:
        rows = {row["id"]: row for row in csv.DictReader(file)}
    assert rows["mug"]["transformation"]
    assert "line 3: reference is empty, expected the name" in rows["jug"]["error"]
    assert "line 4: found 1 cell, expected 3" in rows["3"]["error"]
    assert "line 5: the id mug is taken already" in rows["mug (line 5)"]["error"]
    manifest.write_text(f"source,reference,id\n{good}\n{pairs[1].source},{pairs[1].reference},jug\n")
    summary = run_batch(read_manifest(manifest), network, SETTINGS, table)
    assert (summary.pairs, summary.ok, summary.errors, summary.resumed) == (2, 2, 0, 1)


def test_a_full_disk_is_one_line_and_the_batch_goes_on_when_there_is_room(
    tmp_path, network, monkeypatch, capsys
):
    pairs = pairs_in(tmp_path, 2)
    table, weights = tmp_path / "table.jsonl", model_file(tmp_path)
    command = ["assemble", *(pair.source for pair in pairs), pairs[0].reference, "-o", str(table), "--fast"]
    command += ["--model", str(weights)]

    def full(handle):
        if b"transformation" in table.read_bytes():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("bitr.assembly.batch.os.fsync", full)
    assert main(command) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        f"bitr: {table}: no space left on the disk; the rows there are whole: make room and go on with the "
        "same command\n"
    )
    monkeypatch.undo()
    assert main(command) == 0
    assert len(rows_of(table)) == 2


def test_other_weights_pairs_or_settings_are_refused(tmp_path, network):
    pairs, table = pairs_in(tmp_path, 2), tmp_path / "table.jsonl"
    run_batch(pairs, network, SETTINGS, table)
    before = table.read_bytes()
    for what, arguments in {
        "weights": (pairs, Network.of(untrained(seed=5)), SETTINGS),
        "the pair pair 0": ([replace(pairs[0], source="other"), pairs[1]], network, SETTINGS),
        "the pair pair 1": (pairs[:1], network, SETTINGS),
        "points": (pairs, network, replace(SETTINGS, points=61)),
        "method": (pairs, network, replace(SETTINGS, method="model")),
        "seed": (pairs, network, replace(SETTINGS, seed=1)),
    }.items():
        with pytest.raises(InputError, match=rf"holds results of another batch \({what}: "):
            run_batch(*arguments, table)
    other = shipped_verifier()
    calibrated = replace(network, own_verifier=replace(other, last_bias=other.last_bias + 1))
    with pytest.raises(InputError, match=r"holds results of another batch \(weights: "):
        run_batch(pairs, calibrated, SETTINGS, table)
    assert table.read_bytes() == before


KILLED = """
import signal, sys, time
import bitr.assembly.batch as batch
from bitr.cli import main

signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background is born deaf to it
solve, count = batch.solve_pair, 0

def slow(*arguments):
    global count
    count += 1
    if count == int(sys.argv[1]):
        print("in the middle", flush=True)
        time.sleep(600)
    return solve(*arguments)

batch.solve_pair = slow
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.slow
def test_killed_in_the_middle_and_run_again_every_pair_has_one_row(tmp_path, capsys):
    pairs = pairs_in(tmp_path, 6)
    manifest, table, whole = (tmp_path / name for name in ("pairs.jsonl", "table.jsonl", "whole.jsonl"))
    rows = [{"id": pair.id, "source": pair.source, "reference": pair.reference} for pair in pairs]
    manifest.write_text("".join(json.dumps(row) + "\n" for row in rows))
    same = ["--manifest", str(manifest), "--model", str(model_file(tmp_path)), "--fast", "--points", "60"]
    command = ["assemble", *same, "-o", str(table), "--json"]
    with subprocess.Popen([sys.executable, "-c", KILLED, "5", *command], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"in the middle\n"
        process.kill()
    assert process.returncode == -signal.SIGKILL
    with open(table, "ab") as file:
        file.write(b'{"id": "pair 4", "sta')  # as if it had been killed while writing
    assert main(command) == 2  # one pair cannot be read
    found = json.loads(capsys.readouterr().out)
    assert found == {"results": str(table), "pairs": 6, "ok": 5, "errors": 1, "resumed": 3}
    assert sorted(row["id"] for row in rows_of(table)) == [pair.id for pair in pairs]
    assert main(["assemble", *same, "-o", str(whole)]) == 2
    assert without_time(rows_of(table)) == without_time(rows_of(whole))


@pytest.mark.slow
def test_ctrl_c_ends_a_batch_quietly_and_keeps_its_rows(tmp_path):
    pairs = pairs_in(tmp_path, 3)
    table, weights = tmp_path / "table.csv", model_file(tmp_path)
    sources = [pair.source for pair in pairs]
    command = ["assemble", *sources, pairs[0].reference, "-o", str(table), "--model", str(weights), "--fast"]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", KILLED, "2", *command], **streams) as process:
        assert process.stdout.readline() == b"in the middle\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert (process.returncode, out, err) == (130, b"", b"")
    assert len(table.read_text().splitlines()) == 2  # the header and a row
