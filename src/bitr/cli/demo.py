"""``bitr demo``: the main job on a pair that comes with the package, beside its known answer."""

from __future__ import annotations

from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from bitr.cli import options
from bitr.cli.options import session
from bitr.errors import InputError

EXAMPLE = "bitr demo -o /tmp/demo"
ASSETS = Path(str(resources.files("bitr") / "assets"))
SOURCE, REFERENCE, TRUTH = (ASSETS / f"demo-{name}" for name in ("source.ply", "reference.ply", "pose.txt"))

Output = Annotated[Path, options.write_to("Folder for the report, the picture and the assembled cloud.")]


def run(
    output: Output = Path("bitr-demo"),
    model: options.Model = "default",
    seed: options.Seed = 0,
    verbose: options.Verbose = False,
) -> None:
    """Assemble two pieces of a jug that come with bitr, compare with the known answer, and try the laws."""
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{output}: cannot be made ({error.strerror}); choose another --output") from error
    picture = output / "demo.png" if find_spec("matplotlib") else None
    if picture is None:
        print('No picture will be drawn: it needs matplotlib, pip install -e ".[viz]" in the clone.')
    with session(verbose):  # torch takes a second to import: something is shown
        import numpy as np

        from bitr.assembly.assemble import Settings
        from bitr.cli.answer import Outputs, assemble_pair, show
        from bitr.data import AssemblyPair
        from bitr.evaluation import metrics
        from bitr.io import read

        moved, scene, page = (output / name for name in ("moved-source.ply", "assembled.ply", "demo.html"))
        outputs = Outputs(SOURCE, REFERENCE, moved, scene, page, picture, force=True)
        assembly, rows = assemble_pair(outputs, model, Settings(seed=seed))
    print("Two pieces of a generated jug, each moved away.\n")
    show(assembly, outputs.files())
    pair = AssemblyPair(read(SOURCE), read(REFERENCE), np.loadtxt(TRUTH), "demo")
    points = pair.source.points, pair.reference.points
    found, truth = assembly.transformation, pair.ref_from_src
    angle = metrics.rotation_error_deg(found, truth)
    offset = metrics.displacement(found, truth, *points) / metrics.assembled_radius(truth, *points)
    verdict = "right" if metrics.is_right(pair, found) else "not right"
    print(f"\nAgainst the known answer: {angle:.1f}° off, and {offset:.3f} of the size from its place.")
    print(f"That is {verdict}, which is {metrics.RIGHT}.")
    print("The answer moves with the pieces; its distance from where the laws put it when they are moved,")
    print(f"swapped and scaled: {dict(rows)['law errors']}.")
