"""``bitr demo``: a pair, two scans and a puzzle that come with the package, beside their known answers."""

from __future__ import annotations

import os
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from bitr.cli import options
from bitr.cli.options import log, session
from bitr.files import make_folder

if TYPE_CHECKING:
    from bitr.assembly.network import Network
    from bitr.show.puzzle import Exhibit

EXAMPLE = "bitr demo -o /tmp/demo"
ASSETS = Path(str(resources.files("bitr") / "assets"))
SOURCE, REFERENCE = (ASSETS / f"demo-{name}.ply" for name in ("source", "reference"))
PUZZLE = tuple(ASSETS / f"puzzle-{number}.ply" for number in range(1, 6))
PAIRS = {"demo": "Two pieces of a jug", "scan": "Two scans of an airplane that overlap"}
"""Titles by the first part of the files' names."""
PAGE = "demo.html"

Output = Annotated[Path, options.write_to("Folder for the page.")]


def run(
    output: Output = Path("bitr-demo"),
    model: options.Model = "default",
    seed: options.Seed = 0,
    verbose: options.Verbose = False,
) -> None:
    """Assemble two pieces, two scans and a puzzle of five that come with bitr, and compare with the truth.

    One page shows them all. The laws are tried on the first pair.
    """
    make_folder(output)
    shown, page = [], output / PAGE
    with session(verbose):  # torch takes a second to import: something is shown
        from bitr.assembly.network import Network
        from bitr.show.puzzle import write_exhibits

        network = Network.of(model)
    for name in (*PAIRS, "a puzzle"):
        with session(verbose):
            log.info("putting together: %s", PAIRS.get(name, name))
            exhibit = _solve_pair(name, network, seed) if name in PAIRS else _solve_puzzle(model, seed)
        print(exhibit.title)
        for fact, value in exhibit.facts:
            print(f"  {fact:<11} {value}")
        shown.append(exhibit)
    write_exhibits(page, "Three things that come with bitr, put together", shown, force=True)
    print(f"wrote {page}")


def _solve_pair(name: str, network: Network, seed: int) -> Exhibit:
    """Assemble a pair; the first one once more as the laws change it."""
    import numpy as np

    from bitr.assembly.assemble import Settings, assemble_geometries
    from bitr.cli.answer import METHODS
    from bitr.data import AssemblyPair
    from bitr.evaluation import metrics
    from bitr.evaluation.method import all_laws_error, engine
    from bitr.io import read
    from bitr.show.puzzle import Exhibit, as_puzzle

    source, reference = (read(ASSETS / f"{name}-{side}.ply") for side in ("source", "reference"))
    pair = AssemblyPair(source, reference, np.loadtxt(ASSETS / f"{name}-pose.txt"), name)
    settings = Settings(seed=seed)
    found = assemble_geometries(source, reference, network, settings)
    pose, truth, points = found.transformation, pair.ref_from_src, (source.points, reference.points)
    facts = [
        *_judge(
            metrics.rotation_error_deg(pose, truth),
            metrics.displacement(pose, truth, *points) / metrics.assembled_radius(truth, *points),
            is_right=metrics.is_right(pair, pose),
        ),
        ("confidence", f"{found.confidence:.0%}, {found.status}"),
        ("method", METHODS[found.method]),
        ("time", f"{found.seconds:.1f} s"),
    ]
    if name == next(iter(PAIRS)):
        gap = all_laws_error(engine(network, settings), pair, pose, np.random.default_rng(seed))
        facts.append(("laws", f"moved, swapped and scaled, the answer is {gap:.0e} from where they put it"))
    return Exhibit(PAIRS[name], (source, reference), as_puzzle(found), facts)


def _solve_puzzle(model: str, seed: int) -> Exhibit:
    import json
    import tempfile

    import numpy as np

    from bitr.assembly.puzzle import Workshop, solve_puzzle
    from bitr.data.poses import PuzzleCase
    from bitr.evaluation.metrics import assembled_radius
    from bitr.evaluation.puzzles import score_puzzle
    from bitr.io import read
    from bitr.show.puzzle import Exhibit

    pieces = tuple(map(read, PUZZLE))
    truth = np.array(json.loads((ASSETS / "puzzle-poses.json").read_text(encoding="ascii")))
    with tempfile.TemporaryDirectory(prefix="bitr-demo-") as folder:
        found = solve_puzzle(pieces, Workshop(Path(folder), model, seed=seed, workers=os.cpu_count() or 1))
    score = score_puzzle(PuzzleCase(pieces, truth, (0,) * len(pieces), "demo"), found)
    first, *rest = (piece.moved(place).points for piece, place in zip(pieces, truth, strict=True))
    radius = assembled_radius(np.eye(4), first, np.concatenate(rest))
    facts = [
        *_judge(score.worst_degrees, score.worst_shift / radius, is_right=score.is_solved),
        ("pieces", f"{score.right} of {score.pieces} right beside each other; the error is of the worst two"),
        ("confidence", f"{min(found.confidence):.0%} of the least sure piece"),
        ("time", f"{found.seconds:.1f} s"),
    ]
    return Exhibit(f"A jug in {len(pieces)} pieces", pieces, found, facts)


def _judge(degrees: float, share: float, *, is_right: bool) -> list[tuple[str, str]]:
    """The verdict, and the errors against the truth."""
    from bitr.evaluation.metrics import RIGHT

    error = f"{degrees:.2g}° off, and {share:.2g} of the size from its place"
    return [("right", f"{'yes' if is_right else 'no'}; right is {RIGHT}"), ("error", error)]
