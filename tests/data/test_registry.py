import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

from bitr.data import dataset, info
from bitr.data.poses import Pairs, reseed, seeded_generator
from bitr.data.registry import TABLE
from bitr.errors import InputError
from tests.data.cases import pair_of

GENERATED = ("shapes", "jugs", "bunny-stand-in", "mug-hanging", "bowl-placing")
FILES = [name for name in TABLE if name not in GENERATED]


@pytest.mark.parametrize("name", FILES)
def test_a_missing_data_set_says_in_one_line_what_brings_it(name, tmp_path, monkeypatch):
    monkeypatch.delenv("BITR_DATA", raising=False)
    for root, where in ((None, "BITR_DATA"), (tmp_path, str(tmp_path)), (tmp_path / "no", "is no folder")):
        with pytest.raises(InputError) as raised:
            dataset(name, root=root)
        message = str(raised.value)
        assert message.startswith(f"{name}: not found")
        assert where in message
        assert "bitr data fetch" in message or "https://" in message
        assert "\n" not in message


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("airplain", "did you mean airplane?"),
        ("nothing/like.csv", "no such data set"),
        ("airplane:x", "expected the share of each cloud to keep, as in airplane:0.5"),
        ("airplane:1.5", "expected the share"),
        ("car-motorbike:0", "expected the share"),
        ("indoor:0.5", "expected indoor:low"),
        ("outdoor:0.5", "outdoor takes no option"),
        ("winebottle:beer", "expected winebottle:all"),
    ],
)
def test_a_name_that_is_none_is_refused(name, says):
    with pytest.raises(InputError) as raised:
        dataset(name)
    assert says in str(raised.value)


def test_a_split_that_is_none_is_refused():
    with pytest.raises(InputError, match="no split 'testing', expected one of train, val, test"):
        dataset("bunny", "testing")


def test_options_are_part_of_the_name():
    assert info("airplane:0.5").name == "airplane:0.5"
    assert info("airplane:0.7").name == "airplane"
    assert info("car-motorbike:0.7").name == "car-motorbike:0.7"


def make(i, rng):
    pair = pair_of(4 + i, rng)
    return type(pair)(pair.source, pair.reference, pair.ref_from_src, str(i))


def test_pairs_are_a_lazy_sequence():
    pairs = Pairs("x", "train", 0, make, range(10))
    assert len(pairs) == 10
    assert [pair.id for pair in pairs] == [str(i) for i in range(10)]
    part = pairs[2:9:3]
    assert [pair.id for pair in part] == ["2", "5", "8"]
    np.testing.assert_array_equal(part[1].source.points, pairs[5].source.points)
    assert pairs[-1].id == "9"
    assert pickle.loads(pickle.dumps(pairs))[3].id == "3"  # for workers in other processes
    with pytest.raises(IndexError):
        pairs[10]
    with pytest.raises(InputError, match="seed = -1"):
        Pairs("x", "train", -1, make, range(10))


@pytest.mark.slow
def test_streams_differ_in_every_argument_and_are_the_same_in_every_process():
    arguments = [
        ("a", "train", 0, 0),
        ("b", "train", 0, 0),
        ("a", "val", 0, 0),
        ("a", "train", 1, 0),
        ("a", "train", 0, 1),
    ]
    firsts = [seeded_generator(*a).random() for a in arguments]
    assert len(set(firsts)) == len(firsts)
    code = (
        "from bitr.data.poses import seeded_generator as g\n"
        "print(repr(float(g('a', 'train', 0, 0).random())))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "7"},
    )
    assert float(done.stdout) == firsts[0]


def test_a_mixture_takes_turns_and_counts_a_name_as_often_as_it_stands_there():
    found = dataset("jugs+bunny-stand-in+jugs", "val")
    assert [found[i].id.partition("/")[0] for i in range(6)] == ["jugs", "bunny-stand-in", "jugs"] * 2
    jugs = [found[i].id for i in (0, 2, 3, 5)]
    assert len(set(jugs)) == 4  # the second turn has other shapes than the first
    longest = max(len(dataset(name, "val")) for name in ("jugs", "bunny-stand-in"))
    assert len(found) == 3 * longest


def test_a_mixture_depends_on_its_arguments_alone_and_another_seed_samples_anew():
    name = "jugs+bunny-stand-in"
    found, again = dataset(name, "train", seed=1), dataset(name, "train", seed=2)
    assert_same(found[3], dataset(name, "train", seed=1)[3])
    assert_same(reseed(found, 2)[3], again[3])
    assert not np.array_equal(found[3].ref_from_src, again[3].ref_from_src)


def test_parts_that_are_shorter_come_again_in_other_pieces():
    name = "jugs+bunny-stand-in"
    found = dataset(name, "val")
    short = 1 if len(dataset("bunny-stand-in", "val")) < len(dataset("jugs", "val")) else 0
    count = len(dataset(name.split("+")[short], "val"))
    first, later = found[short], found[2 * count + short]
    assert first.id == later.id
    assert not np.array_equal(first.ref_from_src, later.ref_from_src)


@pytest.mark.parametrize(
    ("name", "says"), [("jugs+nothing", "no such data set"), ("jugs+", "no such data set")]
)
def test_a_mixture_of_what_is_not_there_is_refused(name, says):
    with pytest.raises(InputError, match=says):
        dataset(name)


def assert_same(one, other):
    assert one.id == other.id
    assert np.array_equal(one.source.points, other.source.points)
    assert np.array_equal(one.ref_from_src, other.ref_from_src)
