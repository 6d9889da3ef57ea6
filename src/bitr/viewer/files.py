"""Files that come from a browser, and files that go to it."""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict, replace
from io import StringIO
from pathlib import Path

import numpy as np

from bitr.errors import InputError
from bitr.io import SUFFIXES, Geometry, read, write_scene
from bitr.viewer.solver import Answer

MOST_BYTES = 200 * 2**20
"""Of a file that is uploaded."""
LONGEST_NAME = 80


def read_upload(name: str, content: bytes) -> Geometry:
    """The geometry of an uploaded file, by the readers of all files; what is wrong raises an InputError.

    The name that the browser sends is shown and never used as a path: of it only the suffix counts, and only
    one that bitr reads. The content goes through a file of our own in a folder that nobody else can open.
    """
    shown = shown_name(name)
    suffix = Path(shown).suffix.lower()
    if suffix not in SUFFIXES.read:
        found = suffix or "a file without a suffix"
        raise InputError(f"{shown}: found {found}, expected one of {' '.join(SUFFIXES.read)}")
    if len(content) > MOST_BYTES:
        raise too_large(name, len(content))
    with tempfile.TemporaryDirectory(prefix="bitr-upload-") as folder:
        path = Path(folder) / f"upload{suffix}"
        path.write_bytes(content)
        try:
            return replace(read(path), name=shown)
        except InputError as error:
            raise InputError(str(error).replace(str(path), shown)) from error


def too_large(name: str, size: int) -> InputError:
    """The error for an upload of so many bytes."""
    return InputError(
        f"{shown_name(name)}: {size / 2**20:.0f} MB, expected at most {MOST_BYTES / 2**20:.0f} MB; "
        "name it on the command line instead"
    )


def shown_name(name: str) -> str:
    """The last part of a name from outside, printable and short; its end is kept, for the suffix."""
    last = name.replace("\\", "/").rpartition("/")[2]
    return "".join(c for c in last if c.isprintable())[-LONGEST_NAME:] or "upload"


def pose_text(answer: Answer) -> bytes:
    """The 4×4 pose of the files, with all its digits."""
    text = StringIO()
    np.savetxt(text, answer.pose_of_files, fmt="%.17g")
    return text.getvalue().encode("ascii")


def pose_json(answer: Answer) -> bytes:
    """As ``bitr assemble --json``, of the files as they are; ``viewer`` says what was done on the page."""
    session, assembly = answer.solved, answer.assembly
    hypotheses = tuple(
        replace(h, transformation=session.on_files(h.transformation)) for h in assembly.hypotheses
    )
    rmse = None if assembly.inlier_rmse is None else assembly.inlier_rmse / session.scale
    on_files = replace(assembly, transformation=answer.pose_of_files, hypotheses=hypotheses, inlier_rmse=rmse)
    done = {
        "hypothesis": answer.choice + 1,
        "swapped": session.swapped,
        "scale": session.scale,
        "law_error": None if answer.carried else answer.law_error,
        "changes": {
            side: asdict(session.problem.pieces[index].changes)
            for side, index in zip(("source", "reference"), session.order, strict=True)
        },
    }
    return (json.dumps(on_files.to_dict() | {"viewer": done}, allow_nan=False) + "\n").encode("ascii")


def assembled_ply(answer: Answer) -> bytes:
    """The source at full resolution in its place on the reference, as the files are, in one .ply file."""
    source, reference = (answer.session.problem.pieces[index].file for index in answer.session.order)
    moved = source.moved(answer.pose_of_files)
    with tempfile.TemporaryDirectory(prefix="bitr-download-") as folder:
        path = Path(folder) / "assembled.ply"
        write_scene(path, {"source": moved, "reference": reference})
        return path.read_bytes()
