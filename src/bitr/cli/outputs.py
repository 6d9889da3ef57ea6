"""The files that ``bitr assemble`` writes for a pair: checked before any work is done, written at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from bitr.assembly.assemble import Assembly
from bitr.cli.show import facts
from bitr.errors import InputError
from bitr.files import check_target, whole_file
from bitr.io import SUFFIXES, Geometry, as_points, write, write_scene
from bitr.show import MOST_SHOWN, Scene, write_animation, write_png
from bitr.show.film import FILM, check_film
from bitr.show.report import write_html

POSES = (".txt", ".json")


@dataclass(frozen=True)
class Outputs:
    """What is to be written for a pair, and the inputs, which must not be overwritten."""

    source: Path
    reference: Path
    output: Path | None = None
    scene: Path | None = None
    html: Path | None = None
    picture: Path | None = None
    force: bool = False
    animate: Path | None = None

    def check(self) -> None:
        """Raise when one of the files cannot be written, or would overwrite an input or another output."""
        taken = [self.source, self.reference]
        for name, target, suffixes in (
            ("--output", self.output, (*POSES, *SUFFIXES.write)),
            ("--scene", self.scene, SUFFIXES.write),
            ("--html", self.html, (".html", ".htm")),
            ("--picture", self.picture, (".png",)),
            ("--animate", self.animate, (FILM,)),
        ):
            if target is not None:
                _check(name, target, suffixes, taken, self.force)
                taken.append(target)

    def files(self) -> list[Path]:
        named = (self.output, self.scene, self.html, self.picture, self.animate)
        return [path for path in named if path is not None]

    def write(
        self,
        assembly: Assembly,
        source: Geometry,
        reference: Geometry,
        rows: Sequence[tuple[str, str]] = (),
        shown: Assembly | None = None,
    ) -> None:
        """Write all; the report has ``rows`` beside the facts, and the hypotheses of ``shown``."""
        if self.output is not None and self.output.suffix.lower() in POSES:
            _write_pose(self.output, assembly, force=self.force)
        elif self.output is not None:
            write(self.output, replace(assembly.moved(source), name="source"), force=self.force)
        if self.scene is not None:
            parts = {"source": assembly.moved(source), "reference": reference}
            write_scene(self.scene, parts, force=self.force)
        if self.html is not None:
            drawn = _drawn(assembly, source, reference)
            write_html(
                self.html, replace(drawn, facts=(*drawn.facts, *rows)), shown or assembly, force=self.force
            )
        if self.picture is not None:
            write_png(self.picture, _drawn(assembly, source, reference), force=self.force)
        if self.animate is not None:
            write_animation(self.animate, _drawn(assembly, source, reference), force=self.force)


def _check(name: str, target: Path, suffixes: tuple[str, ...], taken: list[Path], force: bool) -> None:
    if target.suffix.lower() not in suffixes:
        found = target.suffix or "file without a suffix"
        raise InputError(f"{target}: {name} writes no {found}, expected one of {' '.join(suffixes)}")
    if target.suffix.lower() == FILM:
        check_film(target)
    if target.suffix.lower() == ".png" and find_spec("matplotlib") is None:
        raise InputError(
            f'{target}: pictures need matplotlib, which is not installed: pip install "bitr[viz]"'
        )
    try:
        if any(same_file(target, other) for other in taken):
            raise InputError(f"{target}: is named twice, as {name} and as another file; choose another name")
        check_target(target, force=force)
    except OSError as error:
        raise InputError(f"{target}: cannot be written ({error.strerror})") from error


def _write_pose(target: Path, assembly: Assembly, *, force: bool) -> None:
    with whole_file(target, force=force) as temporary:
        if target.suffix.lower() == ".json":
            temporary.write_text(assembly.to_json() + "\n", encoding="ascii")
        else:
            np.savetxt(temporary, assembly.transformation, fmt="%.17g")


def _drawn(assembly: Assembly, source: Geometry, reference: Geometry) -> Scene:
    return Scene(
        as_points(source, MOST_SHOWN, seed=0).points,
        as_points(reference, MOST_SHOWN, seed=0).points,
        assembly.transformation,
        assembly.source_keypoints,
        assembly.reference_keypoints,
        title=f"{Path(source.name).name} onto {Path(reference.name).name}",
        facts=facts(assembly),
    )


def same_file(a: Path, b: Path) -> bool:
    """Whether both names lead to one file, there already or not."""
    return a.absolute() == b.absolute() or (a.exists() and b.exists() and a.samefile(b))
