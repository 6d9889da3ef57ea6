"""The command line reference, taken from the ``bitr`` command itself at every build."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer

from bitr.cli import app

MARK = "<!-- commands -->"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The mark in a page becomes the reference."""
    return markdown.replace(MARK, reference()) if MARK in markdown else markdown


def reference() -> str:
    """Every command with its usage, its options and its example, as Markdown."""
    top = typer.main.get_command(app)
    return "\n\n".join(part for name, command in walk("bitr", top) for part in described(name, command))


def walk(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    """The command, then those below it, by their full names."""
    yield name, command
    for short, below in getattr(command, "commands", {}).items():
        yield from walk(f"{name} {short}", below)


def described(name: str, command: Any) -> Iterator[str]:
    context = typer.Context(command, info_name=name)
    yield f"## `{name}`"
    yield escaped(command.help or command.callback.__doc__ or "")
    yield f"```text\n{name} {' '.join(command.collect_usage_pieces(context))}\n```"
    rows = [record for each in command.get_params(context) if (record := each.get_help_record(context))]
    lines = [f"| `{option}` | {cell(escaped(text))} |" for option, text in rows if option != "--help"]
    if lines:
        yield "\n".join(["| option | |", "| --- | --- |", *lines])
    if command.epilog:
        yield f"```bash\n{command.epilog.removeprefix('example: ')}\n```"


def escaped(text: str) -> str:
    """Plain text for Markdown: brackets, stars and the like mean themselves."""
    return re.sub(r"([\\`*_\[\]<>])", r"\\\1", text)


def cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
