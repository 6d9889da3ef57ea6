"""The controls beside the picture, the texts in them, and the files that come from a browser or go to it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Coroutine
from dataclasses import asdict, replace
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import viser

from bitr.assembly.assemble import METHOD_NAMES
from bitr.errors import InputError, require
from bitr.groups import rotation_angle
from bitr.io import SUFFIXES, Geometry, read, write_scene
from bitr.show.picture import COLORS
from bitr.show.report import COLUMNS, describe_pose, list_evidence, render_part
from bitr.show.viewer.session import HYPOTHESES, LIMITS, SCALES, Answer, Changes, Session

if TYPE_CHECKING:
    from bitr.show.viewer.page import Page

UPLOADS = ("Source file", "Reference file")
MOST_BYTES = 200 * 2**20
"""Largest upload."""
LONGEST_NAME = 80
MOST_HYPOTHESES = 8
EVERY = 3
"""While a piece is held, the facts of every third answer are shown: nobody reads faster."""
LAW = "|Φ(g₁X, g₂Y) − g₂Φ(X, Y)g₁⁻¹|"

Change = Callable[[Session], Session]


class Panel:
    """The widgets of one page; their only state is what they show."""

    def __init__(self, gui: viser.GuiApi, page: Page) -> None:
        self.gui, self.page = gui, page
        self.count = 0
        self._message = gui.add_html("")
        gui.add_html(_render("legend", colors=COLORS))
        self._method: Any = gui.add_dropdown("Method", METHOD_NAMES, hint="Kind of joint; auto tries all")
        self._working = gui.add_html("")
        self._facts = gui.add_html("")
        with gui.add_folder("Hypotheses"):
            self._list = gui.add_html("")
            self._choice: Any = gui.add_button_group("Look at pose", ("1",))
            self._most: Any = gui.add_slider("At most", 1, MOST_HYPOTHESES, 1, HYPOTHESES)
        with gui.add_folder("Pose of the files"):
            self._pose = gui.add_html("")
            downloads = gui.add_button_group("Download", tuple(DOWNLOADS))
            downloads.on_click(lambda _: page.download(downloads.value))
        with gui.add_folder("Try the laws"):
            swap = gui.add_button("Swap source and reference")
            self._scale: Any = gui.add_slider("Scale", SCALES[0], SCALES[1], 0.05, 1.0)
            reset = gui.add_button("Start again", color="gray", hint="Put all back as it was at first")
        with gui.add_folder("Make it harder"):
            self._cuts = [self._add_slider(f"Cut {side}", "cut", 0.05) for side in ("source", "reference")]
            self._noise = self._add_slider("Noise", "noise", 0.005)
            self._outliers = self._add_slider("Outliers", "outliers", 0.05)
        with gui.add_folder("Your own files"):
            limits = f"{' '.join(SUFFIXES.read)}; at most {MOST_BYTES // 2**20} MB each"
            gui.add_html(_render("drop", labels=UPLOADS, limits=limits))
            for side, label in enumerate(UPLOADS):
                gui.add_upload_button(label).on_upload(self._upload(side))
        self._method.on_update(self._when(lambda s: s.ask(method=self._method.value)))
        self._choice.on_click(self._when(lambda s: s.choose(int(self._choice.value) - 1)))
        self._most.on_update(self._when(lambda s: s.ask(hypotheses=int(self._most.value))))
        self._scale.on_update(self._when(lambda s: s.resize(self._scale.value)))
        swap.on_click(self._when(self._swap))

        @reset.on_click
        async def _(_: Any) -> None:
            page.reset()

    def say(self, text: str) -> None:
        """Show a message at the top; an empty one takes it away."""
        self._message.content = _render("message", text=text)

    def work(self, is_working: bool) -> None:
        """Show or hide that the engine is at work."""
        self._working.content = _render("working", is_working=is_working)

    def show(self, answer: Answer, held: bool = False) -> None:
        """Show the facts of an answer; only what is new is sent."""
        if not answer.is_carried:
            self.count += 1
            if held and self.count % EVERY:
                return
        options = tuple(str(number + 1) for number in range(len(answer.assembly.hypotheses)))
        if options != self._choice.options:
            self._choice.options = options
        for part, text in (
            (self._facts, render_answer(answer, self.count)),
            (self._list, render_hypotheses(answer)),
            (self._pose, render_pose(answer)),
        ):
            if part.content != text:
                part.content = text

    def set(self, session: Session) -> None:
        """Set the controls to a session."""
        self._scale.value, self._method.value = session.scale, session.problem.method
        self._most.value = session.problem.hypotheses
        for slider, index in zip(self._cuts, session.order, strict=True):
            slider.value = session.problem.pieces[index].changes.cut
        changes = session.problem.pieces[0].changes
        self._noise.value, self._outliers.value = changes.noise, changes.outliers

    def _change(self, session: Session) -> Session:
        """Change the pieces as the sliders say; returns the same object where they say nothing new."""
        for slider, index in zip(self._cuts, session.order, strict=True):
            changes = Changes(slider.value, self._noise.value, self._outliers.value)
            if changes != session.problem.pieces[index].changes:
                session = session.change(index, changes)
        return session

    def _swap(self, session: Session) -> Session:
        after = session.swap()
        self.set(after)
        return after

    def _add_slider(self, label: str, name: str, step: float) -> Any:
        slider = self.gui.add_slider(label, *LIMITS[name], step, 0.0)
        slider.on_update(self._when(self._change))
        return slider

    def _upload(self, side: int) -> Callable[[viser.GuiEvent[viser.GuiUploadButtonHandle]], None]:
        def upload(event: viser.GuiEvent[viser.GuiUploadButtonHandle]) -> None:
            file = event.target.value
            event.target._impl.value = viser.UploadedFile("", b"")  # viser would keep it until the next
            self.page.upload(side, file.name, file.content)

        return upload

    def _when(self, change: Change) -> Callable[[Any], Coroutine[Any, Any, None]]:
        """Change the session in viser's event loop, which deals with one event after the other."""

        async def run(_: Any) -> None:
            self.page.change(change)

        return run


def _render(macro: str, **values: Any) -> str:
    return render_part("panel.html", macro, **values)


def render_answer(answer: Answer, number: int) -> str:
    """Render the facts of an answer; ``number`` counts the answers of the page."""
    assembly, session = answer.assembly, answer.session
    rmse = "" if (gap := _rmse(answer)) is None else f", rmse {gap:.3g} in the unit of the files"
    rotation = torch.from_numpy(answer.pose_of_files[:3, :3])
    seconds = assembly.seconds
    law = "measured once the pieces rest" if answer.is_carried else f"{answer.law_error:.1e}"
    rows = [
        ("confidence", f"{assembly.confidence:.0%}", ""),
        ("method", assembly.method, ""),
        ("law error", law, LAW),
        ("turned by", f"{float(rotation_angle(rotation)) * 180 / torch.pi:.1f}°, from file to file", ""),
        ("fitness", f"{assembly.fitness:.3f}{rmse}", ""),
        ("time", (f"{1000 * seconds:.0f} ms" if seconds < 1 else f"{seconds:.1f} s") + " an answer", ""),
    ]
    for role, index in zip(("source", "reference"), session.order, strict=True):
        piece = session.problem.pieces[index]
        points, dense = len(piece.cloud.points), len(piece.dense.points)
        used = f", the engine uses {dense:,}" if dense < points else ""
        rows.append((role, clean_name(piece.file.name), f"{points:,} points{used}"))
    return _render("answer", number=number, answer=answer, rows=rows)


def _rmse(answer: Answer) -> float | None:
    """The inlier RMSE in the unit of the files."""
    found = answer.assembly.inlier_rmse
    return None if found is None else found / answer.solved.scale


def render_hypotheses(answer: Answer) -> str:
    """Render all hypotheses, best first, with their evidence; a click on one shows it."""
    rows = [(i + 1, *list_evidence(each)) for i, each in enumerate(answer.assembly.hypotheses)]
    return _render("hypotheses", columns=("", *COLUMNS), rows=rows, choice=answer.choice)


def render_pose(answer: Answer) -> str:
    """Render the pose that takes the source's file onto the reference's, to copy with all digits."""
    rows, text = describe_pose(answer.pose_of_files)["rows"], pose_text(answer).decode().rstrip()
    return _render("pose", rows=rows, text=text, number=answer.choice + 1)


def read_upload(name: str, content: bytes) -> Geometry:
    """Read an uploaded file like any other file; an InputError says what is wrong with it.

    The name that the browser sends is shown and never used as a path: only its suffix counts, and only one
    that bitr reads. The content goes through a file of our own in a folder that nobody else can open.
    """
    shown = clean_name(name)
    suffix = Path(shown).suffix.lower()
    found = suffix or "a file without a suffix"
    is_known = suffix in SUFFIXES.read
    require(is_known, f"{shown}: found {found}, expected one of {' '.join(SUFFIXES.read)}")
    require(len(content) <= MOST_BYTES, refuse_size(name, len(content)))
    with tempfile.TemporaryDirectory(prefix="bitr-upload-") as folder:
        path = Path(folder) / f"upload{suffix}"
        path.write_bytes(content)
        try:
            return replace(read(path), name=shown)
        except InputError as error:
            raise InputError(str(error).replace(str(path), shown)) from error


def refuse_size(name: str, size: int) -> str:
    """The message that refuses an upload of so many bytes."""
    sizes = f"{size / 2**20:.0f} MB, expected at most {MOST_BYTES / 2**20:.0f} MB"
    return f"{clean_name(name)}: {sizes}; name it on the command line instead"


def clean_name(name: str) -> str:
    """Reduce a name from outside to its last part, printable and short; its end is kept, for the suffix."""
    last = name.replace("\\", "/").rpartition("/")[2]
    return "".join(c for c in last if c.isprintable())[-LONGEST_NAME:] or "upload"


def pose_text(answer: Answer) -> bytes:
    """The 4×4 pose of the files, with all its digits."""
    text = StringIO()
    np.savetxt(text, answer.pose_of_files, fmt="%.17g")
    return text.getvalue().encode("ascii")


def pose_json(answer: Answer) -> bytes:
    """The JSON of ``bitr assemble --json`` for the files; ``viewer`` holds the settings of the page."""
    session, assembly = answer.solved, answer.assembly
    hypotheses = tuple(
        replace(h, transformation=session.carry_back(h.transformation)) for h in assembly.hypotheses
    )
    x, y = (asdict(session.problem.pieces[index].changes) for index in session.order)
    done = {
        "hypothesis": answer.choice + 1,
        "swapped": session.swapped,
        "scale": session.scale,
        "law_error": None if answer.is_carried else answer.law_error,
        "changes": {"source": x, "reference": y},
    }
    pose, rmse = answer.pose_of_files, _rmse(answer)
    found = replace(assembly, transformation=pose, hypotheses=hypotheses, inlier_rmse=rmse)
    return (json.dumps(found.to_dict() | {"viewer": done}, allow_nan=False) + "\n").encode("ascii")


def assembled_ply(answer: Answer) -> bytes:
    """The source at full resolution in its place on the reference, as one .ply file."""
    source, reference = (answer.session.problem.pieces[index].file for index in answer.session.order)
    moved = source.moved(answer.pose_of_files)
    with tempfile.TemporaryDirectory(prefix="bitr-download-") as folder:
        path = Path(folder) / "assembled.ply"
        write_scene(path, {"source": moved, "reference": reference})
        return path.read_bytes()


DOWNLOADS: dict[str, Callable[[Answer], bytes]] = {
    "pose .txt": pose_text,
    "pose .json": pose_json,
    "assembled .ply": assembled_ply,
}
