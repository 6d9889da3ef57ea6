"""What stands in the documents: Python to run, command lines, and names of commands inside sentences."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
SHELL = ("", "bash", "console")
"""Languages of blocks with command lines; one without a language may also be a table or a tree of files."""

PROGRAMS = ("bitr", "make", "pip", "python", "torchrun")


@dataclass(frozen=True)
class Block:
    language: str
    text: str


def blocks(path: Path) -> list[Block]:
    found = FENCE.findall(path.read_text(encoding="utf-8"))
    return [Block(language, dedent(text)) for _, language, text in found]


def python_of(path: Path) -> str:
    """All Python of a document as one program: a snippet may use what those above it made."""
    return "\n".join(block.text for block in blocks(path) if block.language == "python")


def command_lines(path: Path) -> Iterator[list[str]]:
    """The words of every line of shell; of blocks without a language only lines that start with a program."""
    for block in blocks(path):
        if block.language in SHELL:
            for line in block.text.replace("\\\n", " ").splitlines():
                first = line.removeprefix("$ ").partition(" ")[0]
                if (block.language and not line.startswith("#")) or first in PROGRAMS:
                    yield shlex.split(line.removeprefix("$ "), comments=True)


def arguments_of_bitr(words: list[str]) -> list[str] | None:
    """What is given to ``bitr``, also through ``python -m bitr`` under torchrun; None for other programs."""
    if words[0] == "bitr":
        return words[1:]
    return (
        words[words.index("-m") + 2 :] if "-m" in words and words[words.index("-m") + 1] == "bitr" else None
    )


def mentions(path: Path) -> list[str]:
    """Commands inside sentences, and usage lines: ``bitr assemble --method seam|touch`` with open names."""
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    inline = re.findall(r"`(bitr [^`]+)`", text)
    return [" ".join(each.split()) for each in inline] + re.findall(r"^    (bitr .+)$", text, re.MULTILINE)


def other_mentions(path: Path) -> list[list[str]]:
    """Lines inside sentences that start another program: ``python -m benchmarks.so2``, ``make docs``."""
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    return [shlex.split(each) for each in re.findall(r"`((?:python|make|pip install|torchrun) [^`]+)`", text)]
