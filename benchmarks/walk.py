"""The walk of a job through the code: ``python -m benchmarks.walk [assemble] [train] [reproduce]``.

Traces one ``bitr assemble a.ply b.ply``, one training step and one ``bitr reproduce toy``, and prints how
many files and functions of ours each passes, and how many calls lead into another folder: each once, as a
reader goes, and each time that it happens. Everything is imported first: a module's top level does not count.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import pkgutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import bitr
from bitr.cli import main as command
from bitr.cli.demo import REFERENCE, SOURCE

ROOT = Path(bitr.__file__).parent
SMALL = (
    "model.num_layers=1",
    "model.num_keypoints=4",
    "model.channels=2",
    "model.num_heads=1",
    "model.num_neighbors=4",
    "data.points=48",
    "data.val_pairs=2",
    "data.workers=0",
    "run.batch=2",
    "run.steps=4",
)
"""A training that takes seconds; it walks the same path."""


@dataclass
class Walk:
    """The functions of ours that ran, and the calls between them that lead to another folder."""

    functions: dict[CodeType, str] = field(default_factory=dict)
    """Code of each named function, and its file relative to the package."""
    folder_changes: int = 0
    """Calls from one folder into another, each time that they happen."""
    doors: set[tuple[CodeType, CodeType]] = field(default_factory=set)
    """Caller and callee of such calls: a reader goes through each once."""
    _stack: list[CodeType] = field(default_factory=list)

    @property
    def files(self) -> list[str]:
        return sorted(set(self.functions.values()))

    @contextlib.contextmanager
    def traced(self) -> Iterator[None]:
        """Count what runs inside, in threads too."""
        threading.setprofile(self.note)
        sys.setprofile(self.step)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]

    def step(self, frame: FrameType, event: str, arg: Any) -> None:
        """A call or a return; comprehensions and lambdas belong to the function around them."""
        code = frame.f_code
        if event == "call" and self.note(frame, event, arg):
            if self._stack and _folder(self.functions[self._stack[-1]]) != _folder(self.functions[code]):
                self.folder_changes += 1
                self.doors.add((self._stack[-1], code))
            self._stack.append(code)
        elif event == "return" and self._stack and self._stack[-1] is code:
            self._stack.pop()

    def note(self, frame: FrameType, event: str, arg: Any) -> bool:
        """Note a call of one of our functions; other threads do no more, since they run at the same time."""
        file = _own_file(frame.f_code)
        if event != "call" or file is None or frame.f_code.co_name.startswith("<"):
            return False
        self.functions[frame.f_code] = file
        return True


def _folder(file: str) -> str:
    return os.path.dirname(file)


def _own_file(code: CodeType) -> str | None:
    path = code.co_filename
    return os.path.relpath(path, ROOT) if path.startswith(f"{ROOT}{os.sep}") else None


def walk_assemble(folder: Path) -> Walk:
    """One pair of files with the weights that come with bitr."""
    return _traced(lambda: _run("assemble", str(SOURCE), str(REFERENCE)))


def walk_reproduce(folder: Path) -> Walk:
    """The toy experiment with the smallest of models."""
    changes = [part for change in SMALL for part in ("--set", change)]
    few = ("--budget", "full", "--limit", "1", "--samplings", "1", "--output", str(folder))
    return _traced(lambda: _run("reproduce", "toy", *few, *changes))


def walk_step(folder: Path) -> Walk:
    """One training step: the loop from one call of the listener to the next."""
    from bitr.settings import from_file
    from bitr.training import TrainConfig, train
    from bitr.training.config import config_file
    from bitr.training.folder import Record, Silent

    walk = Walk()

    class Listener(Silent):
        """Traces from the record of step 2 to that of step 3; validation comes later."""

        def recorded(self, record: Record) -> None:
            if record.step == 2:
                sys.setprofile(walk.step)
            elif record.step == 3:
                sys.setprofile(None)

    config = from_file(TrainConfig, config_file("bunny"), ["data.name=bunny-stand-in", *SMALL])
    run = replace(config.run, steps=4, log_every=1, validate_every=4, checkpoint_every=4)
    try:
        train(replace(config, run=run), folder / "run", listener=Listener())
    finally:
        sys.setprofile(None)
    return walk


def _traced(job: Callable[[], None]) -> Walk:
    walk = Walk()
    with walk.traced():
        job()
    return walk


def _run(*arguments: str) -> None:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as told:
        status = command(list(arguments))
    if status:
        raise RuntimeError(f"bitr {' '.join(arguments)}: {told.getvalue()}")


def _import_all() -> None:
    for module in pkgutil.walk_packages([str(ROOT)], "bitr."):
        if not module.name.endswith("__main__"):
            with contextlib.suppress(ImportError):  # an extra is missing
                import_module(module.name)


WALKS = {"assemble": walk_assemble, "train": walk_step, "reproduce": walk_reproduce}
NAMES = {
    "assemble": "bitr assemble a.ply b.ply",
    "train": "a training step",
    "reproduce": "bitr reproduce toy",
}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("walks", nargs="*", metavar="walk", help=f"of {', '.join(WALKS)}; all by default")
    parser.add_argument("--files", action="store_true", help="list the files of each walk")
    given = parser.parse_args(arguments)
    _import_all()
    total = len(list(ROOT.rglob("*.py")))
    print(f"| job | files of {total} | functions | changes of folder | the same, each time |")
    print("| --- | --- | --- | --- | --- |")
    listed = []
    for name in given.walks or WALKS:
        with tempfile.TemporaryDirectory() as folder:
            walk = WALKS[name](Path(folder))
        figures = len(walk.files), len(walk.functions), len(walk.doors), walk.folder_changes
        print(f"| {NAMES[name]} | {' | '.join(map(str, figures))} |", flush=True)
        listed += [f"\n{NAMES[name]}:", *(f"  {file}" for file in walk.files)]
    if given.files:
        print(*listed, sep="\n")


if __name__ == "__main__":
    main()
