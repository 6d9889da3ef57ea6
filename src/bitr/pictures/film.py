"""Pictures one after another, in a file: a GIF, or a video where ffmpeg is there."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from bitr.errors import InputError

FILMS = (".gif", ".mp4")
MILLISECONDS = 70
"""That a frame lasts."""
NUM_COLORS = 64
"""Of each frame of a GIF: two hues, their shades, and the rims against white."""

Picture = UInt8[np.ndarray, "h w 3"]


def check_film(path: Path) -> None:
    """Raise when a film of that name cannot be made here, before any work is done for it."""
    suffix = path.suffix.lower()
    if suffix not in FILMS:
        found = path.suffix or "file without a suffix"
        raise InputError(f"{path}: a film cannot be a {found}, expected one of {' '.join(FILMS)}")
    if suffix == ".gif" and find_spec("PIL") is None:
        raise InputError(f'{path}: a GIF needs pillow, which is not installed: pip install "bitr[viz]"')
    if suffix == ".mp4" and _ffmpeg() is None:
        raise InputError(
            f"{path}: a video needs ffmpeg, which is not installed: install it (or pip install "
            "imageio-ffmpeg), or write a .gif"
        )


def write_film(path: Path, frames: Iterable[Picture]) -> None:
    """Write the frames, all of one size with even sides, to a .gif, which loops, or to an .mp4."""
    if path.suffix.lower() == ".gif":
        _write_gif(path, frames)
    else:
        _write_video(path, frames)


def _write_gif(path: Path, frames: Iterable[Picture]) -> None:
    from PIL import Image

    plain = Image.Dither.NONE  # the pattern of any other flickers
    first, *rest = (Image.fromarray(frame).quantize(NUM_COLORS, dither=plain) for frame in frames)
    first.save(path, "GIF", save_all=True, append_images=rest, duration=MILLISECONDS, loop=0)


def _write_video(path: Path, frames: Iterable[Picture]) -> None:
    found = [np.ascontiguousarray(frame) for frame in frames]
    height, width, _ = found[0].shape
    ffmpeg = _ffmpeg()
    assert ffmpeg is not None  # check_film
    given = [
        "-f",
        "rawvideo",
        "-pix_fmt",
        "rgb24",
        "-s",
        f"{width}x{height}",
        "-r",
        f"{1000 / MILLISECONDS:g}",
    ]
    # browsers and phones play 4:2:0 alone; with the index at the front they start before they have it all
    made = ["-an", "-pix_fmt", "yuv420p", "-movflags", "+faststart", str(path.absolute())]
    done = subprocess.run(
        [ffmpeg, "-y", "-loglevel", "error", *given, "-i", "-", *made],
        input=b"".join(frame.tobytes() for frame in found),
        capture_output=True,
    )
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
        raise InputError(f"{path}: ffmpeg could not write it ({said[-1]}); write a .gif instead")


def _ffmpeg() -> str | None:
    """The system's, or the one that the package imageio-ffmpeg brings."""
    found = shutil.which("ffmpeg")
    if found is None and find_spec("imageio_ffmpeg") is not None:
        from imageio_ffmpeg import get_ffmpeg_exe

        found = get_ffmpeg_exe()
    return found
