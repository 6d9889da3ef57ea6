"""The laws of the whole default path in float64: moved, swapped and scaled pieces, in any order of points."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from bitr.assembly.align import Freedom
from bitr.assembly.assemble import Settings, assemble_geometries
from bitr.data.poses import inverse, pose
from bitr.errors import InputError
from bitr.io import Geometry
from tests.assembly.cases import FACTOR, LAWS, changed_pose, cut_pair, network, overlapping
from tests.assembly.shapes import solid
from tests.pieces import bumpy_mesh, motion, two_pieces

NETWORK = network()


def normals_of(points):
    """Directions that turn with the cloud; nearly those of a blob."""
    out = points - points.mean(0)
    return out / np.linalg.norm(out, axis=1, keepdims=True)


def with_normals(geometry):
    return Geometry(geometry.points, normals=normals_of(geometry.points), name=geometry.name)


def mesh_pair():
    source, reference = (bumpy_mesh(seed) for seed in (0, 1))
    return [
        Geometry(np.array(m.vertices), faces=np.array(m.faces, dtype=np.int64), name="mesh")
        for m in (source, reference)
    ]


def crops():
    pair = overlapping(0, n=600)
    return pair.source, pair.reference


def symmetric():
    return Geometry(solid("pyramid 3", 0, n=300), name="pyramid"), Geometry(two_pieces(500)[1], name="cut")


CASES = {
    "cut": (lambda: cut_pair(500)[:2], {}),
    "crop": (crops, {}),
    "normals": (lambda: [with_normals(each) for each in cut_pair(500)[:2]], {}),
    "meshes": (mesh_pair, {"fast": True}),
    "mesh and cloud": (lambda: (mesh_pair()[0], cut_pair(500)[1]), {"points": 100}),
    "several": (symmetric, {"hypotheses": 6}),
    "fast": (lambda: cut_pair(500)[:2], {"fast": True}),
    "large": (lambda: cut_pair(30_000)[:2], {"fast": True}),
    "overlap": (crops, {"method": "overlap"}),
    "touch": (lambda: cut_pair(500)[:2], {"method": "touch"}),
}


CHEAP = ("meshes", "fast", "large")
"""Cases that each law is tried on alone; the others take seconds, and are changed by all laws at once."""
SLOW = ("normals", "overlap", "mesh and cloud")
EVERY = [
    pytest.param(name, law, marks=[pytest.mark.slow] * (name in SLOW))
    for name in CASES
    for law in (LAWS if name in CHEAP else ["all"])
]


def changed_pair(law, source, reference):
    if law == "all":
        return changed_pair("swapped", *changed_pair("scaled", *changed_pair("moved", source, reference)))
    if law == "swapped":
        return reference, source
    if law == "scaled":
        grown = [
            Geometry(FACTOR * s.points, s.normals, s.colors, s.faces, s.name) for s in (source, reference)
        ]
        return grown[0], grown[1]
    return source.moved(motion(1)), reference.moved(motion(2))


def pose_after(law, g):
    if law == "all":
        return changed_pose("swapped", changed_pose("scaled", changed_pose("moved", g)))
    return changed_pose(law, g)


def assert_lawful(pair, law, settings, init=None, tolerance=1e-9):
    plain = assemble_geometries(*pair, NETWORK, settings, init)
    start = None if init is None else pose_after(law, init)
    other = assemble_geometries(*changed_pair(law, *pair), NETWORK, settings, start)
    size = np.array([[1, 1, 1, FACTOR]] * 3 + [[1, 1, 1, 1]])  # of the larger pair's translations
    expected = pose_after(law, plain.transformation)
    np.testing.assert_allclose(other.transformation / size, expected / size, atol=tolerance)
    assert (other.method, other.status, len(other.hypotheses)) == (
        plain.method,
        plain.status,
        len(plain.hypotheses),
    )
    assert other.confidence == pytest.approx(plain.confidence, abs=1e-6)
    for one, two in zip(plain.hypotheses, other.hypotheses, strict=True):
        assert two.weight == pytest.approx(one.weight, abs=1e-6)
    return plain, other


@pytest.mark.parametrize(("name", "law"), EVERY)
def test_the_whole_path_keeps_the_laws(name, law):
    make, options = CASES[name]
    plain, other = assert_lawful(tuple(make()), law, Settings(**options))
    expected = np.stack([pose_after(law, each.transformation) for each in plain.hypotheses])
    found = np.stack([each.transformation for each in other.hypotheses])
    apart = np.abs(expected[:, None] - found).max((2, 3)) / FACTOR
    assert apart.min(1).max() < 1e-6  # as a set; images under a symmetry have equal weights
    assert apart.min(0).max() < 1e-6


@pytest.mark.slow
def test_of_meshes_by_all_methods_the_laws_hold():
    assert_lawful(tuple(mesh_pair()), "all", Settings(points=100))


@pytest.mark.slow
@pytest.mark.parametrize("is_right", [True, False])
def test_with_a_given_pose_the_laws_hold(is_right):
    pair = cut_pair(400)
    assert_lawful(pair[:2], "all", Settings(), init=pair[2] if is_right else motion(9))


@pytest.mark.slow
def test_far_from_the_origin_and_in_tiny_units_the_laws_hold():
    source, reference, _ = cut_pair(500)
    plain = assemble_geometries(source, reference, NETWORK, Settings()).transformation
    g1, g2 = motion(1, 1e4), motion(2, 1e4)
    there = assemble_geometries(source.moved(g1), reference.moved(g2), NETWORK, Settings()).transformation
    np.testing.assert_allclose(inverse(g2) @ there @ g1, plain, atol=1e-6)
    tiny = [Geometry(1e-6 * side.points, name="tiny") for side in (source, reference)]
    found = assemble_geometries(*tiny, NETWORK, Settings()).transformation
    np.testing.assert_allclose(found[:3, :3], plain[:3, :3], atol=1e-8)
    np.testing.assert_allclose(1e6 * found[:3, 3], plain[:3, 3], atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cut", "crop", "fast"])
def test_the_order_of_the_points_does_not_matter(name):
    make, options = CASES[name]
    source, reference = make()
    rng = np.random.default_rng(0)
    mixed = [Geometry(rng.permutation(side.points), name=side.name) for side in (source, reference)]
    plain, other = (
        assemble_geometries(*pair, NETWORK, Settings(**options)) for pair in ((source, reference), mixed)
    )
    np.testing.assert_allclose(other.transformation, plain.transformation, atol=1e-8)
    assert other.confidence == pytest.approx(plain.confidence, abs=1e-6)
    assert (other.method, other.status) == (plain.method, plain.status)


# Known degrees of freedom: the laws hold for the motions that are left


def allowed_motion(turns, seed, size=2.0):
    """A shift, and a turn where one is allowed."""
    rng = np.random.default_rng(seed)
    axis = np.array([turns == name for name in "xyz"], dtype=float)
    return pose(Rotation.from_rotvec(rng.uniform(-3, 3) * axis).as_matrix(), size * rng.normal(size=3))


def assert_allowed(turns, motion):
    assert Freedom(turns).tilt(motion) < 1e-12


@pytest.mark.parametrize("turns", ["x", "y", "z", "none"])
def test_the_nearest_allowed_motion_moves_with_allowed_motions_and_is_inverted_by_a_swap(turns):
    freedom, g = Freedom(turns), motion(3)
    h1, h2 = allowed_motion(turns, 1, 0.0), allowed_motion(turns, 2, 0.0)  # in a frame nothing is shifted
    found = freedom.project(g)
    assert_allowed(turns, found)
    np.testing.assert_allclose(freedom.project(found), found, atol=1e-14)
    np.testing.assert_allclose(freedom.project(h2 @ g @ inverse(h1)), h2 @ found @ inverse(h1), atol=1e-13)
    np.testing.assert_allclose(freedom.project(inverse(g)), inverse(found), atol=1e-13)
    others = [allowed_motion(turns, seed)[:3, :3] for seed in range(100)]
    assert np.trace(found[:3, :3].T @ g[:3, :3]) >= max(np.trace(r.T @ g[:3, :3]) for r in others) - 1e-12


FREEDOMS = {"z": {"fix": "z"}, "none": {"translation_only": True}}
LEVEL = {
    "fast": (lambda: cut_pair(500)[:2], {"fast": True}),
    "overlap": (crops, {"method": "overlap"}),
    "cut": (lambda: cut_pair(500)[:2], {"method": "seam"}),
}


@pytest.mark.parametrize("turns", FREEDOMS)
@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n != "fast")) for n in LEVEL])
def test_with_known_degrees_of_freedom_the_laws_hold_for_those_that_are_left(name, turns):
    make, options = LEVEL[name]
    settings = Settings(**options, **FREEDOMS[turns])
    source, reference = make()
    plain = assemble_geometries(source, reference, NETWORK, settings).transformation
    assert_allowed(turns, plain)
    h1, h2 = allowed_motion(turns, 1), allowed_motion(turns, 2)
    changed = assemble_geometries(reference.moved(h2), source.moved(h1), NETWORK, settings).transformation
    np.testing.assert_allclose(changed, h1 @ inverse(plain) @ inverse(h2), atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("turns", FREEDOMS)
def test_level_scans_are_laid_on_each_other_by_level_motions(turns):
    """The pieces are scanned level, and noise would tilt a free answer."""
    pair = overlapping(0, n=1200)
    truth, rng = allowed_motion(turns, 5), np.random.default_rng(0)
    x = pair.source.moved(inverse(truth) @ pair.ref_from_src)
    source, reference = (
        Geometry(side.points + 0.01 * rng.normal(size=side.points.shape)) for side in (x, pair.reference)
    )
    found = assemble_geometries(source, reference, NETWORK, Settings(**FREEDOMS[turns]))
    assert_allowed(turns, found.transformation)
    off = found.transformation @ inverse(truth)
    assert np.degrees(Rotation.from_matrix(off[:3, :3]).magnitude()) < 3
    assert np.linalg.norm(off[:3, :3] @ truth[:3, 3] + off[:3, 3] - truth[:3, 3]) < 0.1


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"fix": "w"}, "fix = 'w': expected x, y or z"),
        ({"fix": "z", "translation_only": True}, "expected one or the other"),
        ({"fix": "z", "separate": True}, "pieces are brought apart by any motion"),
    ],
)
def test_freedoms_that_contradict_are_refused(options, says):
    with pytest.raises(InputError, match=says):
        Settings(**options)


def test_a_given_pose_must_keep_to_the_freedom():
    source, reference, truth = cut_pair(500)
    with pytest.raises(InputError, match="init: turns otherwise than z"):
        assemble_geometries(source, reference, NETWORK, Settings(fast=True, fix="z"), truth)
