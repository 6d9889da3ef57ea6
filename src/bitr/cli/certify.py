"""``bitr certify``: whether the three laws hold for a model, or for any method."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bitr.errors import InputError
from bitr.files import check_target, whole_file

if TYPE_CHECKING:
    from bitr.evaluation.certificate import Certificate

HELP = (
    "Whether moving, swapping and scaling a pair moves, inverts and scales the pose, as the laws say.\n\n"
    "A model is tried in float64, float32, bfloat16, compiled, exported and through assemble; a function "
    "module:name of two (n, 3) arrays that returns a 4×4 pose, as it is. Exit status 1 when a law is broken."
)
EXAMPLE = "example: bitr certify default --html certificate.html"
TRIALS, FEWER_TRIALS = 10, 2

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="Name of weights that come with bitr, path of a checkpoint, untrained:default, untrained:paper, "
        "or module:name of a function or a BITR.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output, nothing else there.")]
Html = Annotated[Path | None, typer.Option(help="Write a page that opens in any browser.")]
Trials = Annotated[
    int | None,
    typer.Option(
        help=f"Random pairs for each row, fewer where slow; {TRIALS}, or {FEWER_TRIALS} with --quick."
    ),
]
Seed = Annotated[int, typer.Option(help="Of pairs, motions, factors and untrained weights.")]
Quick = Annotated[bool, typer.Option("--quick", help="Few trials, and nothing compiled or exported.")]
Onnx = Annotated[bool, typer.Option("--onnx", help="Also as an ONNX file: half a minute to a minute more.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite the page.")]


def run(
    model: Model,
    json: Json = False,
    html: Html = None,
    trials: Trials = None,
    seed: Seed = 0,
    quick: Quick = False,
    onnx: Onnx = False,
    force: Force = False,
) -> int:
    """Print the certificate; returns the exit status."""
    from bitr.cli.console import session

    count = trials if trials is not None else FEWER_TRIALS if quick else TRIALS
    if html is not None:
        _check_page(html, force)
    with session(verbose=False):  # torch takes a second to import: inside, something is shown
        from bitr.cli.certify_subject import find_subject, guarded
        from bitr.cli.certify_table import assemble_routes, show
        from bitr.evaluation.certificate import audit, certify
        from bitr.model import BITR

        subject = find_subject(model, seed)
        if isinstance(subject, BITR):
            traced = (*(() if quick else ("compiled", "torch.export")), *(("ONNX",) if onnx else ()))
            routes = assemble_routes(subject, model)
            certificate = certify(subject, name=model, trials=count, seed=seed, traced=traced, routes=routes)
        else:
            certificate = audit(guarded(subject, model), name=model, trials=count, seed=seed)
    if html is not None:
        _write_page(html, certificate, force)
    if json:
        print(certificate.to_json())
    else:
        show(certificate)
    return 0 if certificate.ok else 1


def _check_page(html: Path, force: bool) -> None:
    if html.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"{html}: --html writes no {html.suffix or 'file without a suffix'}, expected .html")
    check_target(html, force=force)


def _write_page(html: Path, certificate: Certificate, force: bool) -> None:
    from bitr.evaluation.certificate import html_page

    with whole_file(html, force=force) as temporary:
        temporary.write_text(html_page(certificate), encoding="utf-8", newline="\n")
