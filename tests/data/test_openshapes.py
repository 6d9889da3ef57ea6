"""Open shapes from a small file that the test writes, and from the real one where it is here."""

import hashlib
import pickle
from itertools import combinations

import numpy as np
import pytest
from scipy.spatial import ConvexHull

from bitr.data import dataset, info
from bitr.data.openshapes import family, label, read_openshapes
from bitr.data.storage import SPLITS, frozen_splits, split_of
from bitr.errors import InputError
from tests.data.cases import gaps

WORDS = (
    *("anchor", "barge", "cello", "drum", "easel", "flute", "globe", "harp"),
    *("igloo", "jacket", "kettle", "ladle", "mortar", "needle", "oboe", "pulley"),
)
PER_WORD = 3


def hull(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A closed convex mesh of radius 1, its faces turning counter-clockwise."""
    directions = rng.normal(size=(60, 3))
    points = directions / np.linalg.norm(directions, axis=1, keepdims=True) * [1.0, 0.7, 0.5]
    found = ConvexHull(points)
    faces = found.simplices.copy()
    a, b, c = (points[faces[:, i]] for i in range(3))
    inward = np.einsum("fi,fi->f", np.cross(b - a, c - a), found.equations[:, :3]) < 0
    faces[inward] = faces[inward][:, ::-1]
    return points / np.linalg.norm(points, axis=1).max(), faces


def write_openshapes(root, names, **changes):
    rng = np.random.default_rng(0)
    meshes = [hull(rng) for _ in names]
    arrays = {
        "vertices": np.concatenate([v for v, _ in meshes]).astype(np.float32),
        "faces": np.concatenate([f for _, f in meshes]).astype(np.uint16),
        "vert_offsets": np.cumsum([0, *(len(v) for v, _ in meshes)]),
        "face_offsets": np.cumsum([0, *(len(f) for _, f in meshes)]),
        "names": np.array(names),
        "watertight": np.arange(len(names)) % 4 != 3,
        "main_piece": np.ones(len(names), np.float32),
    }
    (root / "openshapes").mkdir(exist_ok=True)
    np.savez(root / "openshapes/openshapes.npz", **(arrays | changes))
    return arrays


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("root")
    (folder / "generated").mkdir()
    write_openshapes(
        folder, [f"someone/pack:models/{word}_{k}.obj" for word in WORDS for k in range(PER_WORD)]
    )
    return folder


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a/r:FBX/Chair_1.fbx", "a/r:FBX/Chair_2.fbx"),
        ("a/r:FBX/Chair.fbx", "a/other:gltf/chairs_large_LOD2.glb"),
        ("a/r:mug_red.obj", "a/r:Mug_Blue_Small.obj"),
        ("a/r:FBX/SmallTree.fbx", "a/r:FBX/BigTree4.fbx"),
        ("a/r:fish/fish.obj", "a/r:fish/fish_low_resolution.obj"),
        ("kevinzakka/m:models/Chelsea_lo_nQ0LPNF1oMw/model.obj", "kevinzakka/m:models/Chelsea_hi/model.obj"),
        (
            "elpis-lab/y:ycb/072-a_toy_plane/google/textured.obj",
            "elpis-lab/y:ycb/072-b_toy_car/google/textured.obj",
        ),
        ("nasa/n:3D Models/Space Shuttle (A)/x.glb", "nasa/n:3D Models/Space Shuttle (B)/y.glb"),
    ],
)
def test_variants_are_one_family(one, other):
    assert family(one) == family(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a/r:chair.obj", "b/r:chair.obj"),
        ("a/r:chair.obj", "a/r:table.obj"),
        ("kevinzakka/m:models/Hilary/model.obj", "kevinzakka/m:models/Elephant/model.obj"),
    ],
)
def test_other_objects_are_other_families(one, other):
    assert family(one) != family(other)


def test_labels_are_without_their_ending():
    assert label("a/r:some/folder/Chair.v2.glb") == "Chair.v2"
    assert label("kevinzakka/m:models/Hilary/model.obj") == "Hilary"


@pytest.mark.slow
def test_each_object_has_a_pair_and_neighbours_are_of_different_objects(root):
    for split in SPLITS:
        pairs = dataset("openshapes:cut", split, root)
        objects = pairs.make.objects
        assert len(pairs) == {"train": 100_000, "val": 400, "test": 400}[split]
        ids = [pairs[i].id.split("/") for i in range(len(objects) + 1)]
        assert [int(id[0]) for id in ids] == list(range(len(ids)))
        names = [id[1] for id in ids]
        assert len(set(names)) == len(objects)
        assert names[0] == names[-1]
        assert {family(f"someone/pack:{name}") for name in names} == {
            f"someone/{word}" for word in WORDS if split_of("openshapes", f"someone/{word}") == split
        }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "kinds"),
    [
        ("", {"cut", "crop", "fracture"}),
        (":cut", {"cut"}),
        (":crop", {"crop"}),
        (":noisy", {"crop"}),
        (":fracture", {"fracture"}),
        (":eroded", {"fracture"}),
    ],
)
def test_an_option_leaves_the_kinds_that_it_names(root, option, kinds):
    pairs = dataset(f"openshapes{option}", "train", root)
    found = [pairs[i] for i in range(16)]
    assert {pair.id.rpartition("/")[2] for pair in found} == kinds
    assert info(f"openshapes{option}").name == f"openshapes{option}"
    for pair in found[:4]:
        assert np.median(gaps(pair)) < 0.8
        whole = np.concatenate([pair.source.moved(pair.ref_from_src).points, pair.reference.points])
        assert np.linalg.norm(whole - whole.mean(0), axis=1).max() < 1.6


def test_an_unknown_option_is_refused_with_those_there_are():
    with pytest.raises(
        InputError, match="openshapes:sliced: expected one of cut, crop, fracture, noisy, scan, eroded"
    ):
        info("openshapes:sliced")


def test_only_watertight_objects_are_broken(root):
    pairs = dataset("openshapes:fracture", "train", root)
    shapes = read_openshapes(pairs.make.path)
    assert all(shapes.watertight[list(pairs.make.objects)])
    assert len(pairs.make.objects) < len(dataset("openshapes:cut", "train", root).make.objects)
    stored = list((root / "generated").glob("*-openshapes/*.shape"))
    before = {path: path.stat().st_mtime_ns for path in stored}
    _ = pairs[0]
    assert before == {path: path.stat().st_mtime_ns for path in before}


def test_what_cannot_be_broken_gives_way_to_another_object(tmp_path):
    """A mesh with a hole is no solid, whatever its flag says."""
    (tmp_path / "generated").mkdir()
    names = [
        f"someone/pack:{word}.obj" for word in WORDS if split_of("openshapes", f"someone/{word}") == "train"
    ]
    arrays = write_openshapes(tmp_path, names)
    start = arrays["face_offsets"]
    order = sorted(range(len(names)), key=lambda i: hashlib.sha256(names[i].encode()).digest())
    open_one = order[1]
    faces = arrays["faces"].copy()
    faces[start[open_one]] = faces[start[open_one] + 1]  # in place of the first face the second, twice
    write_openshapes(tmp_path, names, faces=faces, watertight=np.ones(len(names), bool))
    pairs = dataset("openshapes:fracture", "train", tmp_path)
    ids = [pairs[i].id.split("/")[1] for i in range(4)]
    assert label(names[open_one]) not in ids
    assert len({ids[0], ids[1]}) == len({ids[1], ids[2]}) == 2
    mixed = dataset("openshapes", "train", tmp_path)
    assert mixed[1].id.split("/")[1] == label(names[open_one])
    assert mixed[1].id.rpartition("/")[2] in ("cut", "crop")


def test_flat_scattered_and_simple_objects_are_left_out(tmp_path):
    names = [
        f"someone/pack:{word}.obj" for word in WORDS if split_of("openshapes", f"someone/{word}") == "train"
    ]
    arrays = write_openshapes(tmp_path, names)
    vertices, main_piece = arrays["vertices"].copy(), arrays["main_piece"].copy()
    first, second = arrays["vert_offsets"][:2]
    vertices[first:second, 2] *= 0.05
    main_piece[1] = 0.8
    write_openshapes(tmp_path, names, vertices=vertices, main_piece=main_piece)
    assert set(dataset("openshapes:cut", "train", tmp_path).make.objects) == set(range(2, len(names)))


def test_items_depend_on_their_split_seed_and_number_alone(root):
    pairs = dataset("openshapes", "train", root, seed=3)
    again = pickle.loads(pickle.dumps(pairs))  # as workers get it: without the meshes
    assert len(pickle.dumps(pairs)) < 10_000
    np.testing.assert_array_equal(pairs[7].source.points, again[7].source.points)
    other = dataset("openshapes", "train", root, seed=4)[7]
    assert not np.allclose(pairs[7].ref_from_src, other.ref_from_src)


def test_held_out_pairs_know_their_symmetries(root):
    assert dataset("openshapes:cut", "train", root)[0].symmetry is None
    for split in ("val", "test"):
        pair = dataset("openshapes:cut", split, root)[0]
        assert pair.symmetry is not None
        np.testing.assert_allclose(pair.symmetry[0], np.eye(4), atol=1e-12)


def test_a_file_whose_arrays_do_not_fit_is_refused(tmp_path):
    write_openshapes(tmp_path, ["a/b:c.obj"], watertight=np.ones(2, bool))
    with pytest.raises(InputError, match=r"openshapes\.npz: 1 names, 2 and 2 offsets .* do not fit together"):
        dataset("openshapes", "train", tmp_path)


@pytest.mark.slow
def test_counts_of_the_real_file(real_data):
    objects = {split: dataset("openshapes", split, real_data).make.objects for split in SPLITS}
    assert {split: len(found) for split, found in objects.items()} == {"train": 774, "val": 102, "test": 85}
    solids = {s: len(dataset("openshapes:fracture", s, real_data).make.objects) for s in SPLITS}
    assert solids == {"train": 334, "val": 62, "test": 43}


def test_no_family_of_the_real_file_is_in_two_splits(real_data):
    shapes = read_openshapes(real_data / "openshapes/openshapes.npz")
    assert {family(name) for name in shapes.names} == frozen_splits("openshapes").keys()
    by_split = {
        split: {family(shapes.names[i]) for i in dataset("openshapes", split, real_data).make.objects}
        for split in SPLITS
    }
    assert all(not by_split[a] & by_split[b] for a, b in combinations(SPLITS, 2))


def test_real_halves_meet_in_their_place(real_data):
    """Cut clouds end where the others begin; crops have points of each other among them."""
    for option, share, reach in (("cut", 0.02, 0.1), ("crop", 0.08, 0.1)):
        pairs = dataset(f"openshapes:{option}", "train", real_data)
        near = [np.mean(gaps(pairs[i]) < reach) for i in range(12)]
        assert np.median(near) > share
