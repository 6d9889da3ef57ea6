import numpy as np
import pytest
from scipy.spatial import cKDTree

from bitr.data.edf import INFO, demonstration
from bitr.errors import InputError


def write_demonstration(path, **changes):
    rng = np.random.default_rng(0)
    arrays = {
        "place_grasp_points": rng.normal(size=(20, 3)).astype(np.float32),
        "place_grasp_rgb": rng.integers(0, 256, (20, 3), dtype=np.uint8),
        "place_scene_points": rng.normal(size=(30, 3)).astype(np.float32),
        "place_scene_rgb": rng.integers(0, 256, (30, 3), dtype=np.uint8),
        "place_target_T": np.eye(4),
    } | changes
    np.savez(path, **{name: rows for name, rows in arrays.items() if rows is not None})
    return path


def test_a_demonstration_is_a_pair_with_colours(tmp_path):
    target = np.array([[0.0, -1, 0, 0.1], [1, 0, 0, 0.2], [0, 0, 1, 0.3], [0, 0, 0, 1]])
    pair = demonstration(write_demonstration(tmp_path / "demo_0.npz", place_target_T=target))
    assert (len(pair.source.points), len(pair.reference.points), pair.id, pair.unit) == (
        20,
        30,
        "demo_0",
        "m",
    )
    assert np.allclose(pair.ref_from_src, target, atol=1e-12)
    assert 0 <= pair.source.colors.min() <= pair.source.colors.max() <= 1


@pytest.mark.parametrize(
    "changes",
    [
        {"place_grasp_points": None},
        {"place_grasp_points": np.zeros((20, 2), np.float32)},
        {"place_scene_rgb": np.zeros((29, 3), np.uint8)},
        {"place_target_T": np.diag([2.0, 1, 1, 1])},
        {"place_target_T": np.eye(3)},
    ],
)
def test_a_damaged_demonstration_is_named(tmp_path, changes):
    path = write_demonstration(tmp_path / "demo_0.npz", **changes)
    with pytest.raises(InputError, match=r"demo_0\.npz: "):
        demonstration(path)


def test_a_file_that_is_no_archive_is_named(tmp_path):
    path = tmp_path / "demo_0.npz"
    path.write_bytes(b"PK\x03\x04 and then nothing")
    with pytest.raises(InputError, match=r"demo_0\.npz: "):
        demonstration(path)


def test_without_files_it_is_not_present(tmp_path):
    assert not INFO.present(tmp_path)
    assert not INFO.present(None)


def test_in_every_recorded_demonstration_the_peg_ends_in_the_handle(real_data):
    if not INFO.present(real_data):
        pytest.skip("BITR_DATA has no recorded demonstrations")
    pairs = [*INFO.open("train", real_data, 0), *INFO.open("test", real_data, 0)]
    assert [len(INFO.open(split, real_data, 0)) for split in INFO.splits] == [10, 2]
    assert len({pair.id for pair in pairs}) == 12
    for pair in pairs:
        placed = pair.source.moved(pair.ref_from_src).points
        stand = pair.reference.points[pair.reference.points[:, 2] > 0.05]
        near = cKDTree(stand).query(placed)[0]
        assert 0.003 < near.min() < 0.02  # the peg is in the handle and does not touch it yet
        assert placed[:, 2].min() > 0.15
