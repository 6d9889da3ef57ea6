import json

import pytest

from bitr.assembly.batch import Pair, pair_sources, read_manifest
from bitr.errors import InputError


def written(folder, name, text):
    path = folder / name
    path.write_bytes(text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text)
    return path


def test_csv_and_jsonl_say_the_same(tmp_path):
    rows = [
        {"id": "mug", "source": "a b.ply", "reference": "sub/c.ply"},
        {"source": "/d.ply", "reference": "e,f"},
    ]
    csv = written(
        tmp_path, "pairs.csv", 'reference,source,id\r\nsub/c.ply,a b.ply,mug\r\n\r\n"e,f",/d.ply,\r\n'
    )
    jsonl = written(tmp_path, "pairs.JSONL", "\n".join(json.dumps(row) for row in rows) + "\n\n")
    expected = (
        Pair("mug", f"{tmp_path}/a b.ply", f"{tmp_path}/sub/c.ply"),
        Pair("2", "/d.ply", f"{tmp_path}/e,f"),
    )
    assert read_manifest(csv) == expected
    assert read_manifest(jsonl) == expected


def test_a_manifest_that_also_tells_the_answers_is_read(tmp_path):
    row = {"source": "a.ply", "reference": "b.ply", "pose": "p.txt", "split": "test", "unit": "m"}
    found = read_manifest(written(tmp_path, "pairs.jsonl", json.dumps(row)))
    assert found == (Pair("1", f"{tmp_path}/a.ply", f"{tmp_path}/b.ply"),)


def test_names_may_hold_anything_that_a_file_system_allows(tmp_path):
    odd = "two\nlines \udcff é.ply"
    csv = written(tmp_path, "pairs.csv", f'\ufeffsource,reference\n"{odd}",b.ply\n')
    jsonl = written(tmp_path, "pairs.jsonl", json.dumps({"source": odd, "reference": "b.ply", "id": 7}))
    assert read_manifest(csv) == (Pair("1", f"{tmp_path}/{odd}", f"{tmp_path}/b.ply"),)
    assert read_manifest(jsonl) == (Pair("7", f"{tmp_path}/{odd}", f"{tmp_path}/b.ply"),)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("pairs.txt", "source,reference\na,b\n", "expected .csv or .jsonl"),
        ("pairs.csv", "", "holds no pairs"),
        ("pairs.csv", "source,reference\n", "holds no pairs"),
        ("pairs.csv", "sorce,reference\na,b\n", "line 1: found sorce, reference"),
        ("pairs.csv", "source,reference,source\na,b,c\n", "line 1: found source, reference, source"),
        ("pairs.csv", "a.ply,b.ply\n", "line 1: found a.ply, b.ply"),
        ("pairs.csv", 'source,reference\n"a,b\n', "not a row of a csv file"),
        ("pairs.csv", "source,reference\na,b\n".encode("utf-16"), "line 1"),
    ],
)
def test_a_bad_manifest_is_refused_in_one_line(tmp_path, name, text, says):
    path = written(tmp_path, name, text)
    with pytest.raises(InputError) as raised:
        read_manifest(path)
    assert says in str(raised.value)
    assert str(raised.value).startswith(str(path))


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("pairs.csv", "source,reference\na,b\na\n", "line 3: found 1 cell, expected 2"),
        ("pairs.csv", "source,reference\na,\n", "line 2: reference is empty"),
        ("pairs.csv", "source,reference,id\na,b,1\nc,d,1\n", "line 3: the id 1 is taken already"),
        ("pairs.csv", "source,reference,id\na,b,2\nc,d,\n", "line 3: the id 2 is taken already"),
        ("pairs.jsonl", '{"source": "a", "reference": "b"}\n{"source": \n', "line 2: not a JSON object"),
        ("pairs.jsonl", "[" * 100_000, "line 1: not a JSON object"),
        ("pairs.jsonl", '["a", "b"]\n', 'line 1: found ["a", "b"]'),
        ("pairs.jsonl", '{"source": "a"}\n', "line 1: found source; expected source, reference"),
        ("pairs.jsonl", '{"source": 1, "reference": "b"}\n', "line 1: found source = 1"),
        ("pairs.jsonl", '{"source": "a", "reference": "b", "id": null}\n', "line 1: id is empty"),
        ("pairs.jsonl", '{"source": "a\\u0000", "reference": "b"}\n', "line 1: found source"),
        ("pairs.jsonl", '{"source": "\\ud800", "reference": "b"}\n', "line 1: found source"),
    ],
)
def test_a_bad_row_is_a_pair_with_a_problem_that_names_its_line(tmp_path, name, text, says):
    path = written(tmp_path, name, text)
    *others, last = read_manifest(path)
    assert all(pair.problem is None for pair in others)
    assert last.problem.startswith(str(path))
    assert says in last.problem
    assert last.id not in [pair.id for pair in others]


def test_a_missing_manifest_or_a_folder(tmp_path):
    (tmp_path / "folder.csv").mkdir()
    for name in ("nothing.csv", "folder.csv"):
        with pytest.raises(InputError, match="cannot be read"):
            read_manifest(tmp_path / name)


def test_pair_sources_go_by_their_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    from pathlib import Path

    pairs = pair_sources([Path("a.ply"), Path("/b.ply")], Path("r.ply"))
    assert pairs == (
        Pair("a.ply", f"{tmp_path}/a.ply", f"{tmp_path}/r.ply"),
        Pair("/b.ply", "/b.ply", f"{tmp_path}/r.ply"),
    )
    with pytest.raises(InputError, match=r"the id a\.ply is taken"):
        pair_sources([Path("a.ply"), Path("a.ply")], Path("r.ply"))
