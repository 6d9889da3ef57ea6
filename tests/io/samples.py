"""Good files of every format, none written by bitr: libraries, numpy, and bytes put together by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import laspy
import numpy as np
import trimesh
from numpy.typing import NDArray
from pypcd4 import Encoding, PointCloud

from bitr.io import Geometry

COUNT = 40


def cloud(seed: int = 0, n: int = COUNT) -> Geometry:
    """Points, unit normals and 8-bit colours that float32 holds exactly."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(n, 3)).astype(np.float32).astype(np.float64)
    normals = rng.normal(size=(n, 3))
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    colors = rng.integers(0, 256, (n, 3)) / 255
    return Geometry(points, normals.astype(np.float32).astype(np.float64), colors)


def mesh(seed: int = 0) -> trimesh.Trimesh:
    """A lumpy ball: 42 vertices and 80 faces, which float32 holds exactly."""
    ball = trimesh.creation.icosphere(subdivisions=1)
    lumps = 1 + 0.3 * np.random.default_rng(seed).random((len(ball.vertices), 1))
    vertices = (ball.vertices * lumps).astype(np.float32).astype(np.float64)
    return trimesh.Trimesh(vertices, ball.faces, process=False)


def bytes_of(colors: NDArray[np.float64]) -> NDArray[np.uint8]:
    return np.rint(colors * 255).astype(np.uint8)


def ply(geometry: Geometry, order: str) -> bytes:
    """A cloud with normals, colours and a property and an element that nobody needs, in float32."""
    kinds = {"ascii": "<", "binary_little_endian": "<", "binary_big_endian": ">"}
    names = ["x", "y", "z", "nx", "ny", "nz"]
    fields = [*((name, kinds[order] + "f4") for name in names), ("quality", kinds[order] + "i2")]
    fields += [(name, "u1") for name in ("red", "green", "blue")]
    rows = np.zeros(len(geometry.points), dtype=fields)
    assert geometry.normals is not None
    assert geometry.colors is not None
    for i, name in enumerate(names):
        rows[name] = np.concatenate([geometry.points, geometry.normals], axis=1)[:, i]
    for i, name in enumerate(("red", "green", "blue")):
        rows[name] = bytes_of(geometry.colors)[:, i]
    header = ["ply", f"format {order} 1.0", "comment by hand", "element camera 1", "property float focus"]
    header += [f"element vertex {len(rows)}", *(f"property float {name}" for name in names)]
    header += ["property short quality", *(f"property uchar {n}" for n in ("red", "green", "blue"))]
    body = np.array([1.5], kinds[order] + "f4").tobytes() + rows.tobytes()
    if order == "ascii":
        body = "".join(["1.5\n", *(" ".join(str(v) for v in row) + "\n" for row in rows.tolist())]).encode()
    return "\n".join([*header, "end_header", ""]).encode() + body


def table(*columns: NDArray[np.float64] | None) -> NDArray[np.float64]:
    return np.concatenate([c for c in columns if c is not None], axis=1)


def _pcd(encoding: Encoding) -> Callable[[Path], None]:
    def save(path: Path) -> None:
        geometry = cloud()
        fields = ("x", "y", "z", "normal_x", "normal_y", "normal_z", "intensity", "ring")
        same = np.zeros((COUNT, 2))  # without something to compress, pypcd4 would write plain binary
        values = table(geometry.points, geometry.normals, same).astype(np.float32)
        PointCloud.from_points(values, fields, (np.float32,) * len(fields)).save(path, encoding)

    return save


def _las(path: Path) -> None:
    header = laspy.LasHeader(point_format=2, version="1.2")
    header.offsets, header.scales = np.array([500000.0, 6000000.0, 100.0]), np.full(3, 1e-4)
    file = laspy.LasData(header)
    geometry = cloud()
    assert geometry.colors is not None
    file.x, file.y, file.z = (geometry.points + header.offsets).T
    file.red, file.green, file.blue = bytes_of(geometry.colors).astype(np.uint16).T * 257
    file.write(str(path))


def _export(suffix: str) -> Callable[[Path], None]:
    return lambda path: _write(path, mesh().export(file_type=suffix))


def _write(path: Path, data: bytes | str) -> None:
    path.write_bytes(data.encode() if isinstance(data, str) else data)


def _gltf(path: Path) -> None:
    files = mesh().export(file_type="gltf")
    tree = json.loads(files.pop("model.gltf"))
    assert len(files) == len(tree["buffers"])
    for i, data in enumerate(files.values()):
        tree["buffers"][i]["uri"] = f"{path.stem}-{i}.dat"
        _write(path.with_name(f"{path.stem}-{i}.dat"), data)
    _write(path, json.dumps(tree))


def _text(delimiter: str, colored: bool, header: str = "") -> Callable[[Path], None]:
    def save(path: Path) -> None:
        geometry = cloud()
        extra = geometry.colors * 255 if colored and geometry.colors is not None else geometry.normals
        np.savetxt(path, table(geometry.points, extra), delimiter=delimiter, header=header, comments="")

    return save


def _pts(path: Path) -> None:
    geometry = cloud()
    assert geometry.colors is not None
    rows = table(geometry.points, np.ones((COUNT, 1)), geometry.colors * 255)
    np.savetxt(path, rows, header=str(COUNT), comments="", fmt="%.9g")


def _kitti(path: Path) -> None:
    table(cloud().points, np.ones((COUNT, 1))).astype("<f4").tofile(path)


SAMPLES: dict[str, Callable[[Path], None]] = {
    "ascii.ply": lambda path: _write(path, ply(cloud(), "ascii")),
    "little.ply": lambda path: _write(path, ply(cloud(), "binary_little_endian")),
    "big.ply": lambda path: _write(path, ply(cloud(), "binary_big_endian")),
    "mesh.ply": _export("ply"),
    "mesh-ascii.ply": lambda path: _write(path, trimesh.exchange.ply.export_ply(mesh(), encoding="ascii")),
    "ascii.pcd": _pcd(Encoding.ASCII),
    "binary.pcd": _pcd(Encoding.BINARY),
    "compressed.pcd": _pcd(Encoding.BINARY_COMPRESSED),
    "plain.xyz": lambda path: np.savetxt(path, cloud().points),
    "normals.xyzn": _text(" ", colored=False),
    "colors.xyzrgb": _text(" ", colored=True),
    "table.txt": _text("\t", colored=False),
    "table.csv": _text(",", colored=False, header="x,y,z,nx,ny,nz"),
    "scan.pts": _pts,
    "scan.las": _las,
    "scan.laz": _las,
    "points.npy": lambda path: np.save(path, cloud().points),
    "points.npz": lambda path: np.savez_compressed(path, points=cloud().points, normals=cloud().normals),
    "scan.bin": _kitti,
    "mesh.obj": _export("obj"),
    "binary.stl": _export("stl"),
    "ascii.stl": _export("stl_ascii"),
    "mesh.off": _export("off"),
    "mesh.glb": _export("glb"),
    "mesh.gltf": _gltf,
}
"""Functions that write each file; the name has its format as suffix."""
