"""A corpus of damaged files: each is written with a part of the line that must tell what is wrong with it."""

from __future__ import annotations

import base64
import io
import json
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tests.io.samples import SAMPLES, cloud

HUGE = 10**12
ROWS = "1 2 3\n4 5 6\n7 8 0\n1 1 1\n"


def damaged_files(folder: Path) -> list[tuple[Path, str]]:
    """Write the corpus; the file's name says the damage, the string is a part of the message to expect."""
    folder.mkdir(parents=True, exist_ok=True)
    good = {name: _bytes(folder, name, save) for name, save in SAMPLES.items()}
    found = []
    for part in (_any, _ply, _pcd, _text, _las, _numpy, _kitti, _meshes, _gltf):
        for name, data, message in part(good):
            path = folder / name
            assert not path.exists(), f"two damaged files are called {name}"
            path.write_bytes(data)
            found.append((path, message))
    (folder / "folder.ply").mkdir()
    return [*found, (folder / "folder.ply", "is a folder"), (folder / "missing.ply", "no such file")]


Cases = Iterator[tuple[str, bytes, str]]
Good = dict[str, bytes]


def _bytes(folder: Path, name: str, save: object) -> bytes:
    path = folder / f"good-{name}"
    assert callable(save)
    save(path)
    data = path.read_bytes()
    for written in folder.glob("good-*"):
        written.unlink()
    return data


def _any(good: Good) -> Cases:
    """Damages of every format: nothing inside, half of it inside, something else inside."""
    for name, data in good.items():
        suffix = name.rpartition(".")[2]
        yield f"empty-{name}", b"", "is empty"
        if suffix not in ("xyz", "xyzn", "xyzrgb", "txt", "csv", "gltf", "obj", "bin"):
            yield f"half-{name}", data[: len(data) // 2 + 3], "truncated" if suffix != "npz" else "damaged"
    for suffix in ("ply", "pcd", "las", "laz", "npy", "npz", "glb"):
        yield f"wrong-magic.{suffix}", b"\x00\x01\x02\x03" * 100, f"is no .{suffix} file"
    yield "unknown.dat", b"\x00\x01\x02\x03" * 100, "unknown format"
    yield "picture.png", b"\x89PNG\r\n\x1a\n" + bytes(200), "unknown format"


def _ply(good: Good) -> Cases:
    ascii_, little = good["ascii.ply"], good["little.ply"]
    for kind, data in (("ascii", ascii_), ("little", little), ("big", good["big.ply"])):
        yield f"huge-count-{kind}.ply", data.replace(b"vertex 40", b"vertex %d" % HUGE), "truncated"
    yield "no-end-header.ply", little.replace(b"end_header", b"enb_header"), "end_header"
    yield "no-format.ply", little.replace(b"format binary_little_endian 1.0\n", b""), "format"
    yield "unknown-type.ply", little.replace(b"property float x", b"property quad x"), "line 7"
    yield (
        "no-vertices.ply",
        b"ply\nformat ascii 1.0\nelement vertex 0\nproperty float x\nend_header\n",
        "0 vertices",
    )
    yield "no-vertex-element.ply", b"ply\nformat ascii 1.0\nend_header\n", "no element 'vertex'"
    yield "two-dimensions.ply", little.replace(b" float z\n", b" float w\n"), "two dimensions only"
    yield "not-a-number-ascii.ply", ascii_[:-30] + b" what" + ascii_[-30:], "line"
    yield "bad-index.ply", _ply_mesh([(0, 1, 2), (0, 1, 9)]), "vertex 9"
    yield "negative-index.ply", _ply_mesh([(0, 1, -2)]), "vertex -2"
    yield (
        "endless-list.ply",
        _ply_mesh([(0, 1, 2)], kind=b"uint").replace(b"\x03\0\0\0", b"\xff" * 4),
        "truncated",
    )
    yield "nan-only.ply", _float_ply(np.full((10, 3), np.nan)), "only 0 points"
    yield (
        "too-few-left.ply",
        _float_ply(np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [np.inf, 0, 0]])),
        "only 3",
    )
    yield "zero-extent.ply", _float_ply(np.ones((10, 3))), "zero extent"
    yield "zero-area.ply", _ply_mesh([(0, 1, 1), (2, 2, 2)]), "no area"


def _float_ply(points: np.ndarray) -> bytes:
    header = f"ply\nformat binary_little_endian 1.0\nelement vertex {len(points)}\n"
    header += "".join(f"property float {axis}\n" for axis in "xyz") + "end_header\n"
    return header.encode() + points.astype("<f4").tobytes()


def _ply_mesh(faces: list[tuple[int, int, int]], kind: bytes = b"uchar") -> bytes:
    data = _float_ply(cloud(n=5).points)
    head, body = data.split(b"end_header\n", 1)
    head += b"element face %d\nproperty list %s int vertex_indices\nend_header\n" % (len(faces), kind)
    length = struct.pack("<I" if kind == b"uint" else "<B", 3)
    return head + body + b"".join(length + struct.pack("<3i", *face) for face in faces)


def _pcd(good: Good) -> Cases:
    for kind in ("ascii", "binary", "compressed"):
        data = good[f"{kind}.pcd"]
        huge = data.replace(b"WIDTH 40", b"WIDTH %d" % HUGE).replace(b"POINTS 40", b"POINTS %d" % HUGE)
        yield f"huge-count-{kind}.pcd", huge, "claims"
    binary = good["binary.pcd"]
    yield "no-data-line.pcd", b"# .PCD v0.7\nVERSION 0.7\nFIELDS x y z\n", "no line DATA"
    yield "unknown-data.pcd", binary.replace(b"DATA binary", b"DATA morse"), "DATA morse"
    yield "two-dimensions.pcd", binary.replace(b"FIELDS x y z", b"FIELDS x y w"), "two dimensions only"
    yield "unequal-fields.pcd", binary.replace(b"SIZE 4 4", b"SIZE 4"), "as many of each"
    yield "no-such-type.pcd", binary.replace(b"TYPE F", b"TYPE Q"), "does not exist"
    yield (
        "no-points.pcd",
        binary.replace(b"WIDTH 40", b"WIDTH 0").replace(b"POINTS 40", b"POINTS 0"),
        "0 points",
    )
    yield "points-not-area.pcd", binary.replace(b"POINTS 40", b"POINTS 39"), "WIDTH times HEIGHT"
    at = good["compressed.pcd"].index(b"compressed\n") + len("compressed\n")
    packed = good["compressed.pcd"]
    yield "bomb.pcd", packed[: at + 4] + b"\xff\xff\xff\xff" + packed[at + 8 :], "truncated"
    yield "garbage-compressed.pcd", packed[: at + 8] + b"\xff" * (len(packed) - at - 8), "damaged"


def _text(_: Good) -> Cases:
    yield "words.txt", b"these are words\nand no numbers at all\n", "line 2"
    yield "not-a-number.xyz", ROWS.replace("7 8 0", "7 eight 0").encode(), "line 3: found 'eight'"
    yield (
        "unequal-rows.csv",
        ROWS.replace(" ", ",").replace("7,8,0", "7,8,0,9").encode(),
        "line 3: found 4 columns",
    )
    yield "short-row.xyz", b"# x y z\n\n" + ROWS.encode() + b"7 7\n", "line 7: found 2 columns"
    yield "two-columns.txt", b"1 2\n3 4\n5 6\n7 8\n", "two dimensions only"
    yield "one-column.csv", b"1.5\n3.5\n5.5\n7.5\n", "one column only"
    yield "only-comments.txt", b"# nothing\n# here\n", "no line of numbers"
    yield "binary-inside.txt", ROWS.encode() + bytes(100), "binary data"
    yield "three-points.xyz", b"0 0 0\n1 0 0\n0 1 0\n", "only 3 points"
    yield "equal-points.xyz", b"1 2 3\n" * 50, "zero extent"
    yield "mostly-nan.csv", b"x,y,z\n" + b"nan,0,0\n" * 30 + b"1,2,3\n" * 3, "only 3 points"
    yield "too-large.xyz", b"1e300 0 0\n0 1 0\n0 0 1\n1 1 1\n", "1e+300"
    yield "huge-count.pts", b"%d\n" % HUGE + ROWS.encode(), "claims"
    yield "count-and-nothing.pts", b"4\n", "no line of numbers"
    yield "decimal-commas.csv", b"1,5;2,5;3,5\n4,5;5,5;6,5\n", "expected a number"


def _las(good: Good) -> Cases:
    for suffix in ("las", "laz"):
        data = bytearray(good[f"scan.{suffix}"])
        yield f"tiny.{suffix}", bytes(data[:100]), "truncated"
        data[107:111] = b"\xff" * 4
        yield f"huge-count.{suffix}", bytes(data), "claims 4294967295 points"
        data[107:111] = b"\0" * 4
        yield f"no-points.{suffix}", bytes(data), "0 points"
        data[107:111], data[96:100] = struct.pack("<I", 40), b"\xff\xff\xff\x7f"
        yield f"far-points.{suffix}", bytes(data), "damaged las header"
    version4 = bytearray(good["scan.las"])
    version4[25], version4[247:255] = 4, struct.pack("<Q", HUGE)
    yield "huge-count-64bit.las", bytes(version4), "truncated"
    packed = bytearray(good["scan.laz"])
    start = struct.unpack_from("<I", packed, 96)[0]
    at = struct.unpack_from("<q", packed, start)[0]
    packed[at + 4 : at + 8] = b"\xff" * 4
    yield "huge-chunk-table.laz", bytes(packed), "chunks claimed"
    packed[start : start + 8] = struct.pack("<q", HUGE)
    yield "far-chunk-table.laz", bytes(packed), "table of laz chunks"
    odd = bytearray(good["scan.las"])
    odd[104] = 63
    yield "unknown-point-format.las", bytes(odd), "damaged"


def _numpy(good: Good) -> Cases:
    yield "huge-count.npy", _npy_header("(1000000000000, 3)"), "truncated"
    yield "negative-count.npy", _npy_header("(-4, 3)"), "truncated"
    yield "no-dict.npy", b"\x93NUMPY\x01\x00\x10\x00" + b"import os; quit(", "damaged"
    yield "pickle.npy", _saved(np.array([{"x": 1}] * 5, dtype=object)), "pickle"
    yield "strings.npy", _saved(np.array([["a", "b", "c"]] * 5)), "expected numbers"
    yield "complex.npy", _saved(np.ones((5, 3), dtype=complex)), "expected numbers"
    yield "one-axis.npy", _saved(np.arange(12.0)), "shape (12,)"
    yield "batch.npy", _saved(np.zeros((2, 10, 3))), "shape (2, 10, 3)"
    yield "transposed.npy", _saved(np.zeros((3, 100))), "transpose"
    yield "two-columns.npy", _saved(np.zeros((10, 2))), "two dimensions only"
    yield "no-rows.npy", _saved(np.zeros((0, 3))), "only 0 points"
    yield "other-names.npz", _zipped(a=_saved(cloud().points), b=_saved(cloud().points)), "holds a, b"
    yield "bomb.npz", _zipped(points=_npy_header("(50000000, 3)") + bytes(1_200_000_000 // 40)), "unpacks to"
    yield "huge-count.npz", _zipped(points=_npy_header("(1000000000000, 3)")), "truncated"
    yield "not-npy.npz", _zipped(points=b"hello"), "damaged"
    yield "pickle.npz", _zipped(points=_saved(np.array([None] * 5, dtype=object))), "pickle"
    yield "unequal.npz", _zipped(points=_saved(cloud().points), normals=_saved(np.zeros((7, 3)))), "'normals'"
    yield (
        "bad-index.npz",
        _zipped(points=_saved(cloud().points), faces=_saved(np.array([[0, 1, 99]]))),
        "vertex 99",
    )
    yield (
        "float-faces.npz",
        _zipped(points=_saved(cloud().points), faces=_saved(np.zeros((1, 3)))),
        "whole numbers",
    )
    yield "no-members.npz", _zipped(), "holds nothing"
    flipped = bytearray(good["points.npz"])
    flipped[200] ^= 0xFF
    yield "flipped.npz", bytes(flipped), "damaged"


def _npy_header(shape: str) -> bytes:
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def _saved(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def _zipped(**members: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return file.getvalue()


def _kitti(good: Good) -> Cases:
    yield "cut.bin", good["scan.bin"][:-3], "multiple of 16"
    yield "garbage.bin", np.random.default_rng(0).bytes(1600), "not a KITTI scan"
    yield "nan.bin", np.full((10, 4), np.nan, "<f4").tobytes(), "only 0 points"


def _meshes(good: Good) -> Cases:
    vertices = b"v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\n"
    yield "bad-index.obj", vertices + b"f 1 2 9\n", "vertex 8"
    yield "zero-index.obj", vertices + b"f 0 1 2\n", "line 5"
    yield "far-back-index.obj", vertices + b"f -1 -2 -9\n", "vertex -5"
    yield "not-a-face.obj", vertices + b"f one two three\n", "line 5"
    yield "two-corners.obj", vertices + b"f 1 2\n", "line 5"
    yield "not-a-number.obj", vertices.replace(b"v 0 1 0", b"v 0 x 0"), "line 3: found 'x'"
    yield "two-dimensions.obj", b"v 0 0\nv 1 0\nv 0 1\nv 1 1\nf 1 2 3\n", "two dimensions only"
    yield "no-vertices.obj", b"# nothing\no thing\nf 1 2 3\n", "no vertices"
    yield "zero-area.obj", vertices + b"f 1 1 1\n", "no area"
    yield "unequal.obj", b"v 0 0 0\nv 1 0 0 0.5 0.5 0.5\n" + vertices, "line 2: found 6 columns"
    yield "huge-count.stl", bytes(80) + struct.pack("<I", 2**32 - 1) + bytes(500), "4294967295 faces"
    yield "no-faces.stl", bytes(84), "no faces"
    yield "no-faces-ascii.stl", b"solid nothing\nendsolid nothing\n", "no faces"
    yield "not-a-number.stl", good["ascii.stl"].replace(b"vertex ", b"vertex x", 1), "line"
    yield "lost-corner.stl", good["ascii.stl"].replace(b"vertex ", b"corner ", 1), "truncated"
    yield (
        "nan-faces.stl",
        bytes(80) + struct.pack("<I", 9) + b"\xff" * 450,
        "no face has three finite corners",
    )
    yield "random.stl", np.random.default_rng(0).bytes(3000), "truncated"
    yield "huge-count.off", good["mesh.off"].replace(b"42 80", b"%d 80" % HUGE), "truncated"
    yield "no-counts.off", b"OFF\n", "no line with the numbers"
    yield "not-off.off", b"FOO\n3 1 0\n", "does not start with OFF"
    yield "bad-index.off", b"OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 7\n", "vertex 7"
    yield "short-face.off", b"OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n5 0 1 2\n", "line 6"
    yield "half-index.off", b"OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 1.5\n", "whole number"
    yield "two-dimensions.off", b"OFF\n3 1 0\n0 0\n1 0\n0 1\n3 0 1 2\n", "vertices of 2 numbers"


def _gltf(good: Good) -> Cases:
    glb = good["mesh.glb"]
    yield "old.glb", glb[:4] + struct.pack("<I", 1) + glb[8:], "version 1"
    yield "huge-chunk.glb", glb[:12] + b"\xff\xff\xff\x7f" + glb[16:], "truncated"
    yield "huge-length.glb", glb[:8] + b"\xff\xff\xff\x7f" + glb[12:], "truncated"
    yield "no-json.glb", glb[:16] + b"NOPE" + glb[20:], "no JSON chunk"
    yield "bad-json.glb", glb[:20] + b"]" + glb[21:], "damaged"
    yield "header-only.glb", glb[:12], "truncated"
    yield "nested.gltf", b'{"asset":' + b"[" * 100_000, "damaged"
    tree = json.loads(good["mesh.gltf"])
    tree["buffers"] = [{"uri": "data:;base64,AAAA", "byteLength": 3} for _ in tree["buffers"]]
    yield "short-buffer.gltf", _json(tree), "more than there are"
    yield "missing-buffer.gltf", _json(tree, buffers=[{"uri": "no-such.dat", "byteLength": 3}]), "is missing"
    yield "outside.gltf", _json(tree, buffers=[{"uri": "../../etc/passwd", "byteLength": 3}]), "outside"
    yield "absolute.gltf", _json(tree, buffers=[{"uri": "/etc/passwd", "byteLength": 3}]), "outside"
    yield "network.gltf", _json(tree, buffers=[{"uri": "http://[::1]/a", "byteLength": 3}]), "outside"
    yield "no-geometry.gltf", _json({"asset": {"version": "2.0"}}), "without meshes or points"
    yield "no-asset.gltf", b"{}", "no 'asset'"
    yield "list.gltf", b"[1, 2, 3]", "no 'asset'"
    huge = [{**a, "count": HUGE} for a in tree["accessors"]]
    yield "huge-count.gltf", _json(tree, accessors=huge), "claims"
    empty = [{k: v for k, v in a.items() if k != "bufferView"} for a in huge]
    yield "huge-empty-accessor.gltf", _json(tree, accessors=empty), "no data"
    loop = [{"children": [1]}, {"children": [0], "mesh": 0}]
    yield "loop.gltf", _json(tree, nodes=loop, scenes=[{"nodes": [0]}], scene=0), "has a parent"
    shared = [{"children": [1, 1]}, {"mesh": 0}]
    yield "two-parents.gltf", _json(tree, nodes=shared, scenes=[{"nodes": [0]}], scene=0), "two parents"
    yield "packed.gltf", _json(tree, extensionsRequired=["KHR_draco_mesh_compression"]), "not supported"
    yield "strings.gltf", _json(tree, accessors="everything"), "damaged"
    yield from _gltf_bombs()


def _gltf_bombs() -> Cases:
    """Small files that ask for many rows: of faces, of points, and of an array that is mostly zero."""
    corners, order = np.eye(3, dtype="<f4").tobytes(), bytes([0, 1, 2]) * 20_000
    data = base64.b64encode(corners + order).decode()
    triangles: dict[str, object] = {"attributes": {"POSITION": 0}, "indices": 1}
    points: dict[str, object] = {"attributes": {"POSITION": 2}, "mode": 0}
    tree: dict[str, object] = {
        "asset": {"version": "2.0"},
        "nodes": [{"mesh": 0}],
        "meshes": [{"primitives": [triangles]}],
        "accessors": [
            {"bufferView": 0, "componentType": 5126, "count": 3, "type": "VEC3"},
            {"bufferView": 1, "componentType": 5121, "count": 60_000, "type": "SCALAR"},
            {"bufferView": 1, "componentType": 5121, "count": 20_000, "type": "VEC3"},
        ],
        "bufferViews": [
            {"buffer": 0, "byteLength": 36},
            {"buffer": 0, "byteOffset": 36, "byteLength": 60_000},
        ],
        "buffers": [{"uri": f"data:;base64,{data}", "byteLength": 60_036}],
    }
    yield "many-nodes.gltf", _json(tree, nodes=[{"mesh": 0}] * 5000), "repeats"
    yield "many-faces.gltf", _json(tree, meshes=[{"primitives": [triangles] * 5000}]), "repeats"
    yield "many-points.gltf", _json(tree, meshes=[{"primitives": [points] * 5000}]), "repeats"
    one = {"bufferView": 0, "componentType": 5121}
    for name, count in (("huge", HUGE), ("far", 2)):
        sparse = {"count": 1, "indices": {**one, "byteOffset": 2}, "values": {"bufferView": 0}}
        accessor = {"componentType": 5126, "count": count, "type": "VEC3", "sparse": sparse}
        message = "claims" if name == "huge" else "damaged"
        yield f"sparse-{name}.gltf", _json(tree, accessors=[accessor, accessor]), message


def _json(tree: dict[str, object], **changes: object) -> bytes:
    return json.dumps({**tree, **changes}).encode()
