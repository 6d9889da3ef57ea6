"""The row of training pairs: a pure function of seed and number, whoever asks and in whatever order."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch

from bitr.data import dataset
from bitr.data.poses import reseed
from bitr.errors import InputError
from bitr.training.config import DataConfig
from bitr.training.stream import Source, Stream, batches, numbers, sources
from tests.training.cases import MODEL, config, write_folder

DATA = DataConfig(points=32)
STAND_IN = Source("bunny-stand-in", "", "train", None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("pairs"), 7, n=60)


@pytest.fixture
def stream(folder):
    settings = config(folder, data_noise=0.1)
    return Stream.of(sources(settings.data)[0], settings)


def assert_same_pair(actual, expected):
    assert actual.id == expected.id
    np.testing.assert_array_equal(actual.source.points, expected.source.points)
    np.testing.assert_array_equal(actual.reference.points, expected.reference.points)
    np.testing.assert_array_equal(actual.ref_from_src, expected.ref_from_src)


def test_every_epoch_has_every_training_pair_once_and_in_an_order_of_its_own(stream, folder):
    n, held_out = stream.length, {pair_id(sources(config(folder).data)[1], i) for i in range(2)}
    assert n == 5
    epochs = [[stream[e * n + i].id for i in range(n)] for e in range(6)]
    expected = {f"pair-{i}" for i in range(7)} - held_out
    assert all(set(epoch) == expected and len(epoch) == n for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) > 3


def pair_id(source, i):
    return source.open(0)[source.row(i)].id


def test_a_pair_is_sampled_anew_every_time_it_comes(folder):
    alone = Stream(Source(str(folder), "", "test", (3,)), 1, 0, DATA, MODEL)
    first, again = alone[0], alone[1]
    assert first.id == again.id
    assert not np.array_equal(first.reference.points, again.reference.points)


def test_a_number_gives_the_same_sample_whatever_was_asked_before(stream, folder):
    settings = config(folder, data_noise=0.1)
    fresh = Stream.of(sources(settings.data)[0], settings)
    asked = {number: stream[number] for number in (0, 17, 3, 4, 11)}
    for number in (11, 3, 0, 17, 4, 11):
        assert_same_pair(fresh[number], asked[number])


@pytest.mark.parametrize("order", [(0, 1001, 2002), (2002, 0, 1001)])
def test_generated_pairs_are_made_anew_in_every_epoch_and_alike_for_the_same_number(order):
    made = [Stream(STAND_IN, 1000, 5, DATA, MODEL)[number] for number in order]
    stream = Stream(STAND_IN, 1000, 5, DATA, MODEL)
    for number, expected in zip(order, made, strict=True):
        assert_same_pair(stream[number], expected)
    stream_of_another_seed = Stream(STAND_IN, 1000, 6, DATA, MODEL)
    assert not np.array_equal(stream_of_another_seed[0].ref_from_src, stream[0].ref_from_src)


def test_seeds_and_epochs_share_no_sample():
    """The same generated pair, in different epochs and for different seeds, is cut differently."""
    poses = set()
    for seed in range(3):
        stream = Stream(Source("bunny-stand-in", "", "train", (0,)), 1, seed, DATA, MODEL)
        poses |= {stream[number].ref_from_src.tobytes() for number in range(3)}
    assert len(poses) == 9


@pytest.mark.slow
def test_a_worker_process_makes_the_same_batches(stream):
    here, there = (list(batches(stream, numbers(3, 6, 2, 0, 1), workers)) for workers in (0, 1))
    assert len(here) == len(there) == 3
    for a, b in zip(here, there, strict=True):
        assert a.ids == b.ids
        for x, y in ((a.source, b.source), (a.reference, b.reference)):
            assert torch.equal(x.points, y.points)
        assert torch.equal(a.truth.matrix(), b.truth.matrix())


def test_making_batches_leaves_the_random_state_of_the_run_alone(stream):
    before = torch.get_rng_state()
    next(batches(stream, numbers(0, 2, 2, 0, 1), 0))
    assert torch.equal(torch.get_rng_state(), before)


def test_a_pair_that_cannot_be_used_is_one_line_that_names_its_file(folder):
    settings = config(folder, model=replace(MODEL, colors=True))
    stream = Stream.of(sources(settings.data)[0], settings)
    with pytest.raises(InputError, match=r"pair-\d/source\.npy: has no colours") as raised:
        next(batches(stream, numbers(0, 1, 1, 0, 1), 0))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(("batch", "world"), [(4, 1), (4, 2), (5, 2), (5, 3), (3, 3)])
def test_the_processes_share_every_global_batch_among_them(batch, world):
    shares = [list(numbers(2, 5, batch, rank, world)) for rank in range(world)]
    assert all(len(share) == 3 for share in shares)
    for step in range(3):
        together = sorted(number for share in shares for number in share[step])
        assert together == list(range((2 + step) * batch, (3 + step) * batch))
        assert min(len(share[step]) for share in shares) >= 1


def test_steps_follow_each_other_without_gap_also_after_a_stop():
    whole = [number for step in numbers(0, 6, 3, 0, 1) for number in step]
    assert whole == list(range(18))
    parts = [*numbers(0, 4, 3, 0, 1), *numbers(4, 6, 3, 0, 1)]
    assert [number for step in parts for number in step] == whole


def test_a_stream_travels_to_another_process(stream):
    stream[0]
    assert_same_pair(pickle.loads(pickle.dumps(stream))[8], stream[8])


def assert_reseeding_is_opening_anew(name, root=None):
    pairs, opened = (dataset(name, "train", root, seed) for seed in (3, 7))
    other, i = reseed(reseed(pairs, 9), 7), len(opened) - 1
    assert len(other) == len(opened)
    assert_same_pair(other[i], opened[i])
    assert not np.array_equal(pairs[i].ref_from_src, other[i].ref_from_src)


def test_reseeding_the_stand_in_is_opening_it_anew():
    assert_reseeding_is_opening_anew("bunny-stand-in")


@pytest.mark.slow
def test_reseeding_generated_shapes_is_opening_them_anew():
    pytest.importorskip("manifold3d")
    assert_reseeding_is_opening_anew("shapes")


@pytest.mark.parametrize("name", ["bunny", "airplane"])
def test_reseeding_real_data_is_opening_it_anew(real_data, name):
    assert_reseeding_is_opening_anew(name, real_data)


def test_stretched_and_mirrored_pairs_are_of_other_shapes_with_the_same_answer(folder):
    plain, other = (
        Stream(Source(str(folder), "", "test", (3,)), 1, 0, data, MODEL)[0]
        for data in (DataConfig(points=60), DataConfig(points=60, stretch=0.3, mirror=True))
    )
    np.testing.assert_array_equal(plain.ref_from_src, other.ref_from_src)
    assert np.ptp(other.reference.points, axis=0) != pytest.approx(np.ptp(plain.reference.points, axis=0))
