"""Mutation fuzz of all readers: ``python -m benchmarks.fuzz --minutes 5 --seed 0``.

Damages good files of every format at random (glTF with its buffers too) and reads them. A reader passes if it
returns sound geometry or raises an InputError of one line that names the file. All else is a finding: other
errors, unsound geometry, more than 2 GB of memory, more than 10 seconds of processor time. Findings are
printed and kept in the folder ``--keep``, which after a crash also has the file that led to it.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import struct
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from tests.io.samples import SAMPLES

from bitr.errors import InputError
from bitr.io import Geometry, read

Files = dict[str, bytes]
"""A file and, for glTF, its buffers, by their names; the file itself comes first."""
NUMBERS = (0, 1, -1, 2, 3, 127, 128, 255, 256, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 10**11, 10**30)
WORDS = (b"nan", b"inf", b"-1e999", b"1e308", b"1.5", b"", b"-", b"x", b"1_0", b"\0", b"\xff")
NAN, INFINITY = float("nan"), float("inf")
VALUES: tuple[Any, ...] = (None, True, "", "x", [], {}, [[]], 0.5, 1e308, NAN, INFINITY, *NUMBERS)
LONGEST, MOST_MEMORY = 10.0, 2 << 30


def good_files(folder: Path) -> dict[str, Files]:
    """One sound file of every kind."""
    found = {}
    for name, save in SAMPLES.items():
        inner = folder / name.replace(".", "-")
        inner.mkdir()
        save(inner / name)
        others = sorted(p.name for p in inner.iterdir() if p.name != name)
        found[name] = {n: (inner / n).read_bytes() for n in (name, *others)}
    return found


def mutate(files: Files, others: Mapping[str, Files], rng: random.Random) -> Files:
    """The files with one to three random damages; in one of them, mostly the first."""
    changed, names = dict(files), list(files)
    for _ in range(rng.choice((1, 1, 2, 3))):
        name = names[0] if rng.random() < 0.7 else rng.choice(names)
        data = changed[name]
        if name.endswith((".gltf", ".glb")) and rng.random() < 0.7:
            changed[name] = _mutate_tree(data, rng)
        elif data and rng.random() < 0.1:
            changed[name] = _splice(data, rng.choice(list(others.values())), rng)
        elif data:
            changed[name] = rng.choice(CHANGES)(data, rng)
    return changed


def _position(data: bytes, rng: random.Random) -> int:
    """Half of the time in the first bytes, where the header is."""
    return rng.randrange(min(len(data), 400) if rng.random() < 0.5 else len(data))


def _flip(data: bytes, rng: random.Random) -> bytes:
    damaged = bytearray(data)
    for _ in range(rng.choice((1, 2, 20))):
        damaged[_position(data, rng)] = rng.randrange(256)
    return bytes(damaged)


def _cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data))]


def _delete(data: bytes, rng: random.Random) -> bytes:
    start = _position(data, rng)
    return data[:start] + data[start + rng.choice((1, 2, 4, 8, 100)) :]


def _repeat(data: bytes, rng: random.Random) -> bytes:
    start = _position(data, rng)
    piece = data[start : start + rng.choice((1, 4, 100, 1000))]
    return data[:start] + piece * rng.choice((2, 10, 100)) + data[start:]


def _overwrite(data: bytes, rng: random.Random) -> bytes:
    """A binary number that is small, large or negative."""
    at, size = _position(data, rng), rng.choice((1, 2, 4, 8))
    value = (rng.choice(NUMBERS) % (1 << 8 * size)).to_bytes(size, rng.choice(("little", "big")))
    return data[:at] + value + data[at + size :]


def _renumber(data: bytes, rng: random.Random) -> bytes:
    """A number in text that is small, large, negative or none."""
    found = list(re.finditer(rb"-?\d[\d.e+-]*", data[: 1 << 16]))
    if not found:
        return _flip(data, rng)
    chosen = rng.choice(found[:12] if rng.random() < 0.5 else found)
    word = rng.choice(WORDS) if rng.random() < 0.4 else str(rng.choice(NUMBERS)).encode()
    return data[: chosen.start()] + word + data[chosen.end() :]


def _splice(data: bytes, other: Files, rng: random.Random) -> bytes:
    """The beginning of this file and the end of another."""
    tail = next(iter(other.values()))
    return data[: rng.randrange(len(data))] + tail[rng.randrange(len(tail)) :]


CHANGES: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _flip, _cut, _delete, _repeat, _overwrite, _renumber,
)  # fmt: skip


def _mutate_tree(data: bytes, rng: random.Random) -> bytes:
    """One value of the JSON of a glTF file replaced, removed or repeated; a glb is put together again."""
    is_glb = data[:4] == b"glTF"
    try:
        size = struct.unpack_from("<I", data, 12)[0] if is_glb else 0
        tree = json.loads(data[20 : 20 + size] if is_glb else data)
        places = list(_places(tree))
        parent, key = rng.choice(places)
    except (ValueError, struct.error, RecursionError, IndexError):  # damaged before
        return _flip(data, rng) if data else data
    kind = rng.random()
    if kind < 0.6:
        parent[key] = rng.choice(VALUES)
    elif kind < 0.8:
        other, other_key = rng.choice(places)
        parent[key] = json.loads(json.dumps(other[other_key]))
    elif isinstance(parent[key], list):
        parent[key] = parent[key] * rng.choice((2, 1000))
    else:
        del parent[key]
    text = json.dumps(tree).encode()
    if not is_glb:
        return text
    text += b" " * (-len(text) % 4)
    rest = data[20 + size :]
    return struct.pack("<4sIII4s", b"glTF", 2, 20 + len(text) + len(rest), len(text), b"JSON") + text + rest


def _places(tree: Any) -> list[tuple[Any, Any]]:
    """Every value of a tree, by the list or dictionary that holds it."""
    keys = list(tree) if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    return [place for key in keys for place in ((tree, key), *_places(tree[key]))]


def find_problem(path: Path) -> str | None:
    """Read a file; None if the answer is sound geometry or one line that names the file."""
    try:
        return _find_unsound(read(path))
    except InputError as error:
        text = str(error)
        if "fit into memory" in text:
            return text
        return None if re.fullmatch(rf"{re.escape(str(path))}: .+", text) else f"message {text!r}"
    except Exception as error:  # the very thing that is looked for
        return f"{type(error).__name__}: {error}"


def _find_unsound(geometry: Geometry) -> str | None:
    n = len(geometry.points)
    for name in ("points", "normals", "colors"):
        rows = getattr(geometry, name)
        if rows is not None and (rows.shape != (n, 3) or not np.isfinite(rows).all()):
            return f"{name} of shape {rows.shape} for {n} points, or not finite"
    if geometry.colors is not None and not ((geometry.colors >= 0) & (geometry.colors <= 1)).all():
        return "colours outside 0 to 1"
    faces = geometry.faces
    if faces is not None and not (
        faces.shape[1:] == (3,) and len(faces) and 0 <= faces.min() <= faces.max() < n
    ):
        return f"faces of shape {faces.shape} for {n} points"
    return None


def write_files(folder: Path, files: Files) -> Path:
    """Write the files, and return the path of the first."""
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder / next(iter(files))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, default=Path("fuzz-findings"), help="folder for findings")
    options = parser.parse_args()
    _limit_memory()
    options.keep.mkdir(exist_ok=True)
    rng, end = random.Random(options.seed), time.monotonic() + 60 * options.minutes
    counts: Counter[str] = Counter()
    problems, slowest = 0, 0.0
    with tempfile.TemporaryDirectory() as folder:
        good = good_files(Path(folder))
        names = list(good)
        while time.monotonic() < end:
            name = names[counts.total() % len(names)]
            files = mutate(good[name], good, rng)
            path = write_files(options.keep, files)
            start = time.process_time()
            problem, spent = find_problem(path), time.process_time() - start
            slowest = max(slowest, spent)
            problem = problem or (f"took {spent:.0f} s" if spent > LONGEST else None)
            counts[Path(name).suffix] += 1
            if problem is not None:
                problems += 1
                write_files(_folder(options.keep / f"{problems:04d}"), files)
                print(f"{name}, round {counts.total()}: {problem[:200]}", flush=True)
            for written in files:
                (options.keep / written).unlink()
    per_format = ", ".join(f"{suffix} {count}" for suffix, count in sorted(counts.items()))
    print(f"{counts.total()} files, {problems} problems, slowest {slowest:.2f} s ({per_format})")
    raise SystemExit(1 if problems else 0)


def _folder(path: Path) -> Path:
    path.mkdir(exist_ok=True)
    return path


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:  # Windows
        return
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if Path("/proc/self/statm").exists() else 0
    if pages:
        most = pages * resource.getpagesize() + MOST_MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


if __name__ == "__main__":
    main()
