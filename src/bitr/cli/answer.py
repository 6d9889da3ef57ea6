"""The work of ``bitr assemble``: the answer to a pair as text and files, and to a batch as a table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float64
from rich.console import Console
from rich.text import Text

from bitr.assembly.assemble import Assembly, Settings, assemble_geometries
from bitr.assembly.batch import Pair, Summary, check_table, run_batch, solve_on_ray
from bitr.assembly.network import Network
from bitr.cli.options import PAGES, Counter, check_file, log, one_line, say
from bitr.data.poses import read_pose
from bitr.errors import InputError
from bitr.evaluation.metrics import RIGHT
from bitr.files import whole_file
from bitr.groups import rotation_angle
from bitr.io import SUFFIXES, Geometry, as_points, read, write, write_scene
from bitr.show import MOST_SHOWN, Scene, write_animation, write_png
from bitr.show.picture import FILM, check_film
from bitr.show.report import best_of, report_rows, report_settings, write_html

POSES = (".txt", ".json")
METHODS = {
    "overlap": "overlap: the pieces share a surface",
    "seam": "seam: open borders meet",
    "mate": "mate: breaks of closed pieces fit",
    "touch": "touch: the pieces lie against each other",
    "model": "model: its pose, as nothing of the pieces' surfaces decides",
    "given": "given: the pose that you gave",
}

Fact = tuple[str, str]
"""A name and a value."""


@dataclass(frozen=True)
class Outputs:
    """The files to write for a pair, and the inputs, which must not be overwritten."""

    source: Path
    reference: Path
    output: Path | None = None
    scene: Path | None = None
    html: Path | None = None
    picture: Path | None = None
    animate: Path | None = None
    force: bool = False

    def check(self) -> None:
        """Raise when one of the files cannot be written, or would overwrite an input or another output."""
        taken = [self.source, self.reference]
        for name, target, suffixes in (
            ("--output", self.output, (*POSES, *SUFFIXES.write)),
            ("--scene", self.scene, SUFFIXES.write),
            ("--html", self.html, PAGES),
            ("--picture", self.picture, (".png",)),
            ("--animate", self.animate, (FILM,)),
        ):
            if target is None:
                continue
            if _is_among(target, taken):
                raise InputError(
                    f"{target}: is named twice, as {name} and as another file; choose another name"
                )
            check_file(name, target, suffixes, force=self.force)
            taken.append(target)
        if self.animate is not None:
            check_film(self.animate)
        if self.picture is not None and find_spec("matplotlib") is None:
            raise InputError('--picture needs matplotlib: pip install -e ".[viz]" in the clone')

    def files(self) -> list[Path]:
        named = (self.output, self.scene, self.html, self.picture, self.animate)
        return [path for path in named if path is not None]

    def write(
        self, assembly: Assembly, source: Geometry, reference: Geometry, rows: Sequence[Fact], shown: Assembly
    ) -> None:
        """Write all files; the report has ``rows`` beside the facts, and the hypotheses of ``shown``."""
        force = self.force
        if self.output is not None and self.output.suffix.lower() in POSES:
            _write_pose(self.output, assembly, force=force)
        elif self.output is not None:
            write(self.output, replace(assembly.moved(source), name="source"), force=force)
        if self.scene is not None:
            write_scene(self.scene, {"source": assembly.moved(source), "reference": reference}, force=force)
        if not (self.html or self.picture or self.animate):
            return
        scene = Scene(
            as_points(assembly.scaled(source), MOST_SHOWN, seed=0).points,
            as_points(reference, MOST_SHOWN, seed=0).points,
            assembly.transformation,
            assembly.scale * assembly.source_keypoints,
            assembly.reference_keypoints,
            title=f"{Path(source.name).name} onto {Path(reference.name).name}",
            facts=(*list_facts(assembly), *rows),
        )
        if self.html is not None:
            write_html(self.html, scene, shown, force=force)
        if self.picture is not None:
            write_png(self.picture, scene, force=force)
        if self.animate is not None:
            write_animation(self.animate, scene, force=force)


def assemble_pair(
    outputs: Outputs, model: str, settings: Settings, init: Path | None = None
) -> tuple[Assembly, list[Fact]]:
    """Assemble the inputs and write the outputs, checked first; a report adds rows: law errors, settings."""
    outputs.check()
    start = None if init is None else read_pose(init)
    log.info("loading the model %s", model)
    network = Network.of(model)
    log.info("reading %s", outputs.source)
    source = read(outputs.source)
    log.info("reading %s", outputs.reference)
    reference = read(outputs.reference)
    asked = settings if outputs.html is None else report_settings(settings)
    shown = assemble_geometries(source, reference, network, asked, start)
    assembly, rows = shown, []
    if outputs.html is not None:
        assembly = best_of(shown, settings.hypotheses)
        rows = report_rows(assembly, source, reference, network, settings, given=start is not None)
    log.info("writing")
    outputs.write(assembly, source, reference, rows, shown)
    return assembly, rows


def assemble_batch(
    pairs: Sequence[Pair],
    table: Path,
    model: str,
    settings: Settings,
    on_row: Counter,
    *,
    ray: bool,
    workers: int | None,
    force: bool,
) -> Summary:
    """Give every pair its row; the table is checked before any work is done."""
    check_table(table, force=force)
    if _is_among(table, [Path(name) for pair in pairs for name in (pair.source, pair.reference) if name]):
        raise InputError(f"{table}: is also an input; choose another name for the results")
    log.info("loading the model %s", model)
    solver = solve_on_ray(model, settings, workers) if ray else None
    return run_batch(pairs, Network.of(model), settings, table, solver=solver, force=force, on_row=on_row)


def _is_among(path: Path, others: Sequence[Path]) -> bool:
    """True when the path leads to one of the other files, whether it exists yet or not."""
    try:
        return any(
            path.absolute() == other.absolute() or (path.exists() and other.exists() and path.samefile(other))
            for other in others
        )
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from error


def _write_pose(target: Path, assembly: Assembly, *, force: bool) -> None:
    with whole_file(target, force=force) as temporary:
        if target.suffix.lower() == ".json":
            temporary.write_text(assembly.to_json() + "\n", encoding="ascii")
        else:
            np.savetxt(temporary, assembly.transformation, fmt="%.17g")


def list_facts(assembly: Assembly) -> list[Fact]:
    """List what there is to say beside the pose, as rows of name and value."""
    gap, depth = assembly.inlier_rmse, assembly.penetration_before
    rows = [
        ("source", assembly.source),
        ("reference", assembly.reference),
        ("status", assembly.status + (f": {assembly.reason}" if assembly.reason else "")),
        ("confidence", f"{assembly.confidence:.0%} that the pose is right: {RIGHT}"),
        ("method", METHODS[assembly.method]),
        ("turned by", f"{measure_turn(assembly.transformation):.2f}°"),
        *(
            [("scale", f"{assembly.scale:.6g}, a length of the reference over that of the source")]
            if assembly.scale != 1
            else []
        ),
        ("fitness", f"{assembly.fitness:.3f} of the points have a partner on the other piece"),
        ("inlier rmse", "no partners" if gap is None else f"{gap:.4g}, in the unit of the files"),
    ]
    if depth is not None:
        depths = f"{depth:.4g} before, {assembly.penetration_after:.4g} after"
        rows.append(("penetration", f"{depths}, in the unit of the files"))
    rows += [
        ("time", f"{assembly.seconds:.2f} s, without reading and writing"),
        ("model", assembly.model),
        *(("warning", warning) for warning in assembly.warnings),
    ]
    return [(name, one_line(value)) for name, value in rows]


def _list_hypotheses(assembly: Assembly) -> list[Fact]:
    """List each pose with its evidence, where there are several."""
    if len(assembly.hypotheses) < 2:
        return []
    back = np.linalg.inv(assembly.transformation)
    return [
        (
            f"pose {number}",
            f"weight {each.weight:.3f}, confidence {each.confidence:.2f}, {each.method} from {each.origin}, "
            f"overlap {each.evidence['overlap_larger']:.2f}, seam {each.evidence['seam']:.2f}, "
            f"contact {each.evidence['mate_larger']:.2f}, "
            f"{measure_turn(each.transformation @ back):.2f}° from the first",
        )
        for number, each in enumerate(assembly.hypotheses, 1)
    ]


def measure_turn(pose: Float64[np.ndarray, "4 4"]) -> float:
    """The angle of a pose's rotation, in degrees."""
    return float(rotation_angle(torch.from_numpy(pose[:3, :3]))) * 180 / torch.pi


def show(assembly: Assembly, written: Sequence[Path]) -> None:
    """Print the pose, the facts and the files that were written; lines are not wrapped."""
    lines = [Text("the motion that takes the source onto the reference", style="bold")]
    for row in assembly.transformation.tolist():  # a translation may be of any size
        turn = " ".join(f"{value:11.8f}" for value in row[:3])
        lines.append(Text(f"  {turn}  {row[3]:16.9g}"))
    lines.append(Text(""))
    files = [("wrote", one_line(str(path))) for path in written]
    for name, value in (*list_facts(assembly), *_list_hypotheses(assembly), *files):
        style = {"warning": "yellow", "wrote": "green"}.get(name, "cyan")
        if name == "status" and assembly.status != "ok":
            style = "bold yellow"
        lines.append(Text.assemble((f"{name:<12}", style), value))
    console = Console(highlight=False)
    for line in lines:
        console.print(line, soft_wrap=True)


def show_summary(summary: Summary, as_json: bool) -> None:
    """Say on standard error how a batch went; in JSON also on standard output."""
    bad = f", {summary.errors} could not be (their rows say why)" if summary.errors else ""
    earlier = f", {summary.resumed} of them earlier" if summary.resumed else ""
    say(f"{summary.ok} of {summary.pairs} pairs assembled{bad}{earlier}; wrote {summary.results}")
    if as_json:
        print(json.dumps(asdict(summary)))
