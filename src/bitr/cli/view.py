"""``bitr view``: the pieces in a browser, where the answer follows them."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bitr.errors import InputError

if TYPE_CHECKING:
    from bitr.show.viewer import Viewer

HELP = (
    "Open two pieces in the browser, drag them, and see the answer follow.\n\n"
    "Without files it opens on the pair of bitr demo. The page is served on this machine alone, until Ctrl-C."
)
EXAMPLE = "example: bitr view handle.ply mug.ply --open"

Pieces = Annotated[
    list[Path] | None, typer.Argument(metavar="SRC REF", help="Clouds or meshes: source and reference.")
]
Results = Annotated[
    Path | None,
    typer.Option(help="A folder that bitr evaluate -o wrote: its pairs as a gallery, sorted by error."),
]
Root = Annotated[
    Path | None,
    typer.Option(
        "--data-root", help="The folder of data sets; by default what the variable BITR_DATA names."
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        help="Name of weights that come with bitr, or path of a checkpoint; by default those that come with "
        "bitr, and with --results those that were evaluated."
    ),
]
Method = Annotated[
    str | None,
    typer.Option(
        metavar="auto|overlap|seam|touch|model",
        help="Kind of joint to begin with, auto by default, and with --results what was evaluated; the page "
        "has a choice.",
    ),
]
Points = Annotated[
    int | None,
    typer.Option(
        help="Points of each cloud that the model sees; by default as many as the weights are "
        "for, or 1000, and with --results as many as were evaluated."
    ),
]
Host = Annotated[
    str,
    typer.Option(help="Address to serve on; any but 127.0.0.1 lets others see the pieces."),
]
Port = Annotated[int, typer.Option(help="If it is taken, the next free one.", min=0, max=65535)]
Open = Annotated[bool, typer.Option("--open", help="Open the page in the default browser.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Log each step, and where an error came from.")
]


def run(
    pieces: Pieces = None,
    results: Results = None,
    data_root: Root = None,
    model: Model = None,
    method: Method = None,
    points: Points = None,
    host: Host = "127.0.0.1",
    port: Port = 8080,
    open: Open = False,
    verbose: Verbose = False,
) -> None:
    """Serve the page until Ctrl-C; see HELP."""
    from bitr.cli.console import session

    files = pieces or []
    _check_usage(len(files), results, data_root)
    if find_spec("viser") is None:
        raise InputError('bitr view needs viser, which is not installed: pip install "bitr[viz]"')
    with session(verbose):  # torch takes a second to import: inside, something is shown
        from bitr.assembly.assemble import Settings
        from bitr.assembly.network import Network
        from bitr.cli.demo import REFERENCE, SOURCE
        from bitr.io import Geometry, read
        from bitr.show.viewer import Gallery, Viewer

        settings = Settings(method or "auto", points=points)
        if results is not None:
            shown: Gallery | tuple[Geometry, Geometry] = (gallery := Gallery(results, data_root))
            gallery.check()
            model = model or gallery.checkpoint
            settings = Settings(method or gallery.method, points=points or gallery.points)
        else:
            source, reference = files or (SOURCE, REFERENCE)
            shown = read(source), read(reference)
        network = Network.of(model or "default")
        viewer = Viewer(network, shown, host=host, port=port, points=settings.points, method=settings.method)
    with _one_thread_less(), viewer, session(True) if verbose else nullcontext():
        _serve(viewer, open)


@contextmanager
def _one_thread_less() -> Iterator[None]:
    """On few cores the browser needs one for itself: answers come faster so, not slower."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(max(1, before - 1))
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _serve(viewer: Viewer, show: bool) -> None:
    """Say where, and wait for Ctrl-C."""
    import webbrowser

    from bitr.show.viewer import is_local

    # a tab may be closed while its answer is on the way
    warnings.filterwarnings("ignore", "Queued .* on a closed connection", UserWarning)
    if not is_local(viewer.host):
        print(
            f"bitr: warning: whoever can reach {viewer.host} can see these pieces and keep this machine busy",
            file=sys.stderr,
        )
    try:
        print(f"open {viewer.url} in a browser; Ctrl-C ends it", flush=True)
        if show and not webbrowser.open(viewer.url):
            print("bitr: no browser could be started: open the address yourself", file=sys.stderr)
        viewer.wait()
    except KeyboardInterrupt:
        print("stopped")


def _check_usage(files: int, results: Path | None, data_root: Path | None) -> None:
    """Raise when arguments and options do not go together."""
    if files not in (0, 2):
        raise InputError(f"got {files} files, expected SRC and REF, or none for the demo's pair")
    if files and results is not None:
        raise InputError("got two files and --results, expected one or the other")
    if data_root is not None and results is None:
        raise InputError("--data-root goes with --results")
