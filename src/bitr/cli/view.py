"""``bitr view``: the pieces in a browser, where the answer follows them."""

from __future__ import annotations

import os
import tempfile
import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bitr.cli import options
from bitr.cli.options import Counter, need, say, session
from bitr.errors import require

if TYPE_CHECKING:
    from bitr.io import Geometry
    from bitr.show.viewer import PuzzleViewer, Viewer

EXAMPLE = "bitr view handle.ply mug.ply --open"

Pieces = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="SRC REF",
        help="Clouds or meshes: source and reference, or three and more pieces of a puzzle.",
    ),
]
Results = Annotated[
    Path | None, typer.Option(help="Show the pairs of a folder that bitr evaluate -o wrote, sorted by error.")
]
Model = Annotated[
    str | None,
    options.take_model(
        "Name of weights that come with bitr, or path of a checkpoint; by default those that come with bitr, "
        "and with --results those that were evaluated."
    ),
]
Method = Annotated[
    str | None,
    options.choose(
        options.METHODS,
        "Kind of joint to begin with: auto by default, and with --results the one that was evaluated. The "
        "page has a choice.",
    ),
]
Host = Annotated[str, typer.Option(help="Address to serve on; any but 127.0.0.1 lets others see the pieces.")]
Port = Annotated[
    int, typer.Option(help="Port to serve on; the next free one if it is taken.", min=0, max=65535)
]
Open = Annotated[bool, typer.Option("--open", help="Open the page in the default browser.")]


def run(
    pieces: Pieces = None,
    results: Results = None,
    data_root: options.Root = None,
    model: Model = None,
    method: Method = None,
    points: options.Points = None,
    host: Host = "127.0.0.1",
    port: Port = 8080,
    open: Open = False,
    verbose: options.Verbose = False,
) -> None:
    """Open two pieces in the browser, drag them, and see the answer follow.

    Three or more files are put together as by bitr puzzle, and shown with their joints. Without files it
    opens on the pair of bitr demo. The page is served on this machine alone, until Ctrl-C.
    """
    files = pieces or []
    few = "got 1 file, expected SRC and REF, more pieces of a puzzle, or none for the demo's pair"
    require(len(files) != 1, few)
    require(not (files and results), "got files and --results, expected one or the other")
    is_puzzle = len(files) > 2
    require(not (is_puzzle and method), f"--method is for two pieces, and this is a puzzle of {len(files)}")
    require(data_root is None or results is not None, "--data-root goes with --results")
    need("viser", "bitr view")
    with session(verbose, counted=is_puzzle) as on_row:  # torch takes a second to import: something is shown
        import torch

        from bitr.assembly.assemble import Settings
        from bitr.assembly.network import Network
        from bitr.cli.demo import REFERENCE, SOURCE
        from bitr.io import read
        from bitr.show.viewer import Gallery, PuzzleViewer, Viewer
        from bitr.show.viewer.server import free_port

        free_port(host, port)  # raises before the work is done
        viewer: Viewer | PuzzleViewer
        settings = Settings(method or "auto", points=points)
        if is_puzzle:
            page = _solve_puzzle([read(path) for path in files], model or "default", points, on_row)
            viewer = PuzzleViewer(page, host=host, port=port)
        else:
            if results is not None:
                shown: Gallery | tuple[Geometry, Geometry] = (gallery := Gallery(results, data_root))
                gallery.pair(gallery.entries[0])  # raises before a page has to say that it cannot be read
                model = model or gallery.checkpoint
                settings = Settings(method or gallery.method, points=points or gallery.points)
            else:
                source, reference = files or (SOURCE, REFERENCE)
                shown = read(source), read(reference)
            torch.set_num_threads(max(1, torch.get_num_threads() - 1))  # the browser needs a core, too
            network = Network.of(model or "default")
            viewer = Viewer(
                network, shown, host=host, port=port, points=settings.points, method=settings.method
            )
    with viewer, session(True) if verbose else nullcontext():
        _serve(viewer, open)


def _solve_puzzle(pieces: list[Geometry], model: str, points: int | None, on_row: Counter) -> str:
    """Put the pieces together, and render their page."""
    from bitr.assembly.puzzle import Workshop, solve_puzzle
    from bitr.show.puzzle import render_puzzle

    with tempfile.TemporaryDirectory(prefix="bitr-view-") as folder:
        workshop = Workshop(Path(folder), model, points, workers=os.cpu_count() or 1, on_row=on_row)
        return render_puzzle(pieces, solve_puzzle(pieces, workshop))


def _serve(viewer: Viewer | PuzzleViewer, show: bool) -> None:
    """Print the address, and wait for Ctrl-C."""
    import webbrowser

    from bitr.show.viewer import is_local

    # a tab may be closed while its answer is on the way
    warnings.filterwarnings("ignore", "Queued .* on a closed connection", UserWarning)
    if not is_local(viewer.host):
        say(f"warning: whoever can reach {viewer.host} can see these pieces and keep this machine busy")
    try:
        print(f"open {viewer.url} in a browser; Ctrl-C ends it", flush=True)
        if show and not webbrowser.open(viewer.url):
            say("no browser could be started: open the address yourself")
        viewer.wait()
    except KeyboardInterrupt:
        print("stopped")
