"""``bitr certify``: measure whether the three laws hold for a model, or for any method."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bitr.cli import options
from bitr.cli.options import PAGES, check_file, one_line, session
from bitr.errors import InputError, require
from bitr.files import write_text

if TYPE_CHECKING:
    from bitr.evaluation.certificate import Certificate

EXAMPLE = "bitr certify default --html certificate.html"
UNTRAINED = ("untrained:default", "untrained:paper")

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="Name of weights that come with bitr, path of a checkpoint, untrained:default, untrained:paper, "
        "or module:name of a function or a BITR.",
        autocompletion=options.offer(lambda: [*options.list_models(), *UNTRAINED]),
    ),
]
Trials = Annotated[int, typer.Option(help="Random pairs for each row, fewer where slow.")]


def run(
    model: Model,
    json: options.Json = False,
    html: options.Html = None,
    trials: Trials = 10,
    seed: options.Seed = 0,
    force: options.Force = False,
    verbose: options.Verbose = False,
) -> int:
    """Measure whether moving, swapping and scaling a pair moves, inverts and scales the pose.

    A model is tried in float64, float32, bfloat16 and through assemble; a function module:name of two (n, 3)
    arrays that returns a 4×4 pose, as it is. The exit status is 1 when a law is broken.
    """
    check_file("--html", html, PAGES, force=force)
    with session(verbose):  # torch takes a second to import: something is shown
        from copy import deepcopy

        from bitr.assembly.network import Network
        from bitr.evaluation.certificate import audit, certify
        from bitr.model import BITR
        from bitr.show.report import render_certificate

        subject = find_subject(model, seed)
        if isinstance(subject, BITR):
            own = Network.of(model) if _is_checkpoint(model) else Network(deepcopy(subject).double(), model)
            certificate = certify(subject, name=model, trials=trials, seed=seed, network=own)
        else:
            certificate = audit(subject, name=model, trials=trials, seed=seed)
    if html is not None:
        write_text(html, render_certificate(certificate), force=force)
    if json:
        print(certificate.to_json())
    else:
        _show(certificate)
    return 0 if certificate.ok else 1


def find_subject(name: str, seed: int) -> Any:
    """Find a model by name or path, an untrained one, or whatever ``module:name`` leads to."""
    import torch

    from bitr.model.checkpoint import load
    from bitr.testing import untrained_model

    if _is_checkpoint(name):
        return load(name)
    module, attribute = name.split(":")
    if module != "untrained":
        return _import(name, module, attribute)
    require(name in UNTRAINED, f"{name}: no such construction, expected {' or '.join(UNTRAINED)}")
    return untrained_model(attribute, seed, torch.float32)


def _is_checkpoint(name: str) -> bool:
    """True for a file or folder, and for any name without a colon."""
    return Path(name).exists() or not re.fullmatch(r"[\w.]+:[\w.]+", name)


def _import(name: str, module: str, attribute: str) -> Any:
    from pkgutil import resolve_name

    if os.getcwd() not in sys.path:  # ``python -m`` has it there, the installed command does not
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = resolve_name(f"{module}:{attribute}")
    except Exception as error:  # somebody's module may fail in any way
        raise InputError(f"{name}: cannot be imported ({type(error).__name__}: {error})") from error
    said = f"{name}: is {type(found).__name__}, expected a function of source and reference"
    require(callable(found), said)
    return found


def _show(certificate: Certificate) -> None:
    """Print a line for each path: the worst (or median) error of each law and its bound."""
    from rich.console import Console
    from rich.text import Text

    head, paths = "worst error / bound", certificate.paths
    labels = [one_line(path) + ", median" * (rows[0].judged == "median") for path, rows in paths.items()]
    width = max(map(len, [*labels, head]))
    lines = [Text(f"{head:{width}}   Δ_bi             Δ_swap           Δ_scale", "bold")]
    for label, rows in zip(labels, paths.values(), strict=True):
        cells = (
            (f"   {row.error:.0e} / {row.bound:.0e}{' ' if row.ok else '!'}", "" if row.ok else "bold red")
            for row in rows
        )
        lines.append(Text.assemble(f"{label:{width}}", *cells))
    sentence = f"{one_line(certificate.model)}: {certificate.verdict}"
    console = Console(highlight=False)
    for line in [*lines, Text(sentence, "green" if certificate.ok else "bold red")]:
        console.print(line, soft_wrap=True)
