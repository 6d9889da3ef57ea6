import csv
import json
import shutil

import pytest

from bitr.assembly.batch import FIELDS, open_table, settings_file
from bitr.errors import InputError

SETTINGS = {"budget": 1000, "pairs": "abc"}
ODD = 'two\nlines, "quoted" \udcff é \r'


def row(name, status="ok", **values):
    return dict.fromkeys(FIELDS) | {"id": name, "status": status, "transformation": [[1.5, 0.0]], **values}


def filled(path, names, settings=SETTINGS, force=False):
    with open_table(path, settings, force=force) as table:
        for name in names:
            if name not in table.statuses:
                table.append(row(name, error=ODD))
        return dict(table.statuses)


def ids(path):
    with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
        if path.suffix == ".csv":
            return [record["id"] for record in csv.DictReader(file)]
        return [json.loads(line)["id"] for line in file]


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".jsonl", ".csv"])
def test_what_was_cut_short_at_any_byte_is_made_good(tmp_path, suffix):
    whole = tmp_path / f"whole{suffix}"
    filled(whole, ["a", ODD, "c"])
    expected = whole.read_bytes()
    torn = tmp_path / f"torn{suffix}"
    shutil.copy(settings_file(whole), settings_file(torn))
    for length in range(len(expected) + 1):
        torn.write_bytes(expected[:length])
        filled(torn, ["a", ODD, "c"])
        assert torn.read_bytes() == expected


@pytest.mark.parametrize("suffix", [".jsonl", ".csv"])
def test_rows_are_there_before_the_next_is_made(tmp_path, suffix):
    path = tmp_path / f"table{suffix}"
    with open_table(path, SETTINGS, force=False) as table:
        for number in range(4):
            assert ids(path) == [str(n) for n in range(number)]
            table.append(row(str(number)))


@pytest.mark.parametrize("suffix", [".jsonl", ".csv"])
def test_rows_are_never_lost_or_doubled(tmp_path, suffix):
    path = tmp_path / f"table{suffix}"
    filled(path, ["a", "b"])
    statuses = filled(path, ["a", "b", ODD])
    assert statuses == {"a": "ok", "b": "ok", ODD: "ok"}
    assert ids(path) == ["a", "b", ODD]
    with (
        open_table(path, SETTINGS, force=False) as table,
        pytest.raises(ValueError, match="has a row already"),
    ):
        table.append(row("a"))


def test_force_starts_again(tmp_path):
    path = tmp_path / "table.jsonl"
    filled(path, ["a", "b"])
    filled(path, ["c"], settings={"budget": 5}, force=True)
    assert ids(path) == ["c"]
    assert json.loads(settings_file(path).read_text()) == {"budget": 5}


def test_cells_of_a_csv_table_are_text_or_json(tmp_path):
    path = tmp_path / "table.csv"
    with open_table(path, SETTINGS, force=False) as table:
        table.append(row("a", fitness=0.25, warnings=["x"], error=None))
    with open(path, newline="") as file:
        (found,) = csv.DictReader(file)
    assert json.loads(found["transformation"]) == [[1.5, 0.0]]
    assert (found["fitness"], found["warnings"], found["error"]) == ("0.25", '["x"]', "")


def refused(path, says, settings=SETTINGS):
    before = path.read_bytes()
    with pytest.raises(InputError, match=says):
        filled(path, ["x"], settings)
    assert path.read_bytes() == before


def test_other_settings_are_refused(tmp_path):
    path = tmp_path / "table.jsonl"
    filled(path, ["a"])
    refused(path, "budget: 1000 there, 500 here", SETTINGS | {"budget": 500})
    refused(path, "seed: None there, 1 here", SETTINGS | {"seed": 1})


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "null"])
def test_damaged_settings_are_refused(tmp_path, text):
    path = tmp_path / "table.jsonl"
    filled(path, ["a"])
    settings_file(path).write_text(text)
    refused(path, "does not say what the results were made with|holds results of another batch")


@pytest.mark.parametrize(
    ("suffix", "line"),
    [
        (".jsonl", b"\n"),
        (".jsonl", b'{"id": "b"}\n'),
        (".jsonl", b'{"id": "b", "status": "perhaps"}\n'),
        (".jsonl", b'["b", "ok"]\n'),
        (".jsonl", b'{"id": ["b"], "status": "ok"}\n'),
        (".jsonl", b'{"id": "a", "status": "ok"}\n'),
        (".jsonl", b"\x00" * 20 + b"\n"),
        (".csv", b"b,ok\n"),
        (".csv", b"\n"),
    ],
)
def test_a_row_that_is_none_is_refused(tmp_path, suffix, line):
    path = tmp_path / f"table{suffix}"
    filled(path, ["a"])
    with open(path, "ab") as file:
        file.write(line)
    refused(path, "not a row of a batch")


def test_a_file_that_is_no_table_is_not_touched(tmp_path):
    path = tmp_path / "thesis.csv"
    path.write_text("my,data\n")
    refused(path, "exists already and is not of a batch")


def test_an_empty_file_is_a_new_table(tmp_path):
    path = tmp_path / "table.csv"
    path.touch()
    filled(path, ["a"])
    assert ids(path) == ["a"]


def test_names_that_cannot_be_a_table(tmp_path):
    (tmp_path / "folder.csv").mkdir()
    for name, says in (
        ("table.ply", "expected a name in .jsonl or .csv"),
        ("no/table.csv", "does not exist"),
        ("folder.csv", "is a folder"),
    ):
        with pytest.raises(InputError, match=says):
            filled(tmp_path / name, ["a"])


def test_two_processes_cannot_write_to_one_table(tmp_path):
    path = tmp_path / "table.jsonl"
    with open_table(path, SETTINGS, force=False), pytest.raises(InputError, match="another process"):
        filled(path, ["a"])
