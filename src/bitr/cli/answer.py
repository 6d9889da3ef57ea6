"""The work of ``bitr assemble``: the answer to a pair as text and files, and to a batch as a table."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float64
from rich.console import Console
from rich.text import Text

from bitr.assembly.assemble import Assembly, Settings, assemble_geometries
from bitr.assembly.batch import Pair, Summary, check_table, run_batch, solve_on_ray
from bitr.assembly.network import Network
from bitr.cli.options import PAGES, Counter, check_files, is_among, log, one_line, say
from bitr.data.poses import read_pose
from bitr.errors import require
from bitr.evaluation.metrics import RIGHT
from bitr.files import write_text
from bitr.groups import rotation_angle
from bitr.io import SUFFIXES, as_points, read, write, write_scene
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

Fact = tuple[str, str]  # a name and a value
Outputs = Mapping[str, Path | None]  # files by their options


def assemble_pair(
    pieces: Sequence[Path],
    outputs: Outputs,
    model: str,
    settings: Settings,
    init: Path | None,
    *,
    force: bool,
) -> tuple[Assembly, list[Path]]:
    """Assemble two files; the answer and the files that were written, which are checked before any work."""
    kinds = {
        "--output": (*POSES, *SUFFIXES.write),
        "--scene": SUFFIXES.write,
        "--html": PAGES,
        "--picture": (".png",),
        "--animate": (FILM,),
    }
    wanted = {name: (outputs[name], kinds[name]) for name in kinds}
    files = check_files(pieces, wanted, force=force)
    output, scene_file, html, picture, animate = (outputs[name] for name in kinds)
    if animate is not None:
        check_film(animate)
    start = None if init is None else read_pose(init)
    log.info("loading the model %s", model)
    network = Network.of(model)
    geometries = []
    for piece in pieces:
        log.info("reading %s", piece)
        geometries.append(read(piece))
    source, reference = geometries
    asked = settings if html is None else report_settings(settings)
    shown = assemble_geometries(source, reference, network, asked, start)
    assembly = shown if html is None else best_of(shown, settings.hypotheses)
    log.info("writing")
    if output is not None and output.suffix.lower() in POSES:
        _write_pose(output, assembly, force=force)
    elif output is not None:
        write(output, replace(assembly.moved(source), name="source"), force=force)
    if scene_file is not None:
        write_scene(scene_file, {"source": assembly.moved(source), "reference": reference}, force=force)
    if html or picture or animate:
        rows = []
        if html:
            rows = report_rows(assembly, source, reference, network, settings, given=init is not None)
        scene = Scene(
            as_points(assembly.scaled(source), MOST_SHOWN, seed=0).points,
            as_points(reference, MOST_SHOWN, seed=0).points,
            assembly.transformation,
            assembly.scale * assembly.source_keypoints,
            assembly.reference_keypoints,
            title=f"{Path(source.name).name} onto {Path(reference.name).name}",
            facts=(*list_facts(assembly), *rows),
        )
        if html is not None:
            write_html(html, scene, shown, force=force)
        if picture is not None:
            write_png(picture, scene, force=force)
        if animate is not None:
            write_animation(animate, scene, force=force)
    return assembly, files


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
    inputs = [Path(name) for pair in pairs for name in (pair.source, pair.reference) if name]
    said = f"{table}: is also an input; choose another name for the results"
    require(not is_among(table, inputs), said)
    log.info("loading the model %s", model)
    solver = solve_on_ray(model, settings, workers) if ray else None
    return run_batch(pairs, Network.of(model), settings, table, solver=solver, force=force, on_row=on_row)


def _write_pose(target: Path, assembly: Assembly, *, force: bool) -> None:
    lines = (" ".join(f"{value:.17g}" for value in row) for row in assembly.transformation)
    text = assembly.to_json() if target.suffix.lower() == ".json" else "\n".join(lines)
    write_text(target, text + "\n", force=force)


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
    ]
    if assembly.scale != 1:
        rows.append(("scale", f"{assembly.scale:.6g}, a length of the reference over that of the source"))
    rows += [
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
        if len(assembly.hypotheses) > 1
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
