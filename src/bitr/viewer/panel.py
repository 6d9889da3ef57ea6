"""The controls beside the picture."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import viser

from bitr.assembly.assemble import METHOD_NAMES
from bitr.pictures.picture import COLORS
from bitr.viewer.changes import LIMITS, Changes
from bitr.viewer.session import HYPOTHESES, SCALES, Session
from bitr.viewer.solver import Answer
from bitr.viewer.text import (
    LOOK_AT,
    answer_html,
    drop_html,
    hypotheses_html,
    legend_html,
    message_html,
    option,
    pose_html,
    working_html,
)

UPLOADS = ("Source file", "Reference file")
MOST_HYPOTHESES = 8
EVERY = 3
"""While a piece is held, the facts of each so many-th answer are shown: nobody reads faster."""
DOWNLOADS = ("pose .txt", "pose .json", "assembled .ply")
Change = Callable[[Session], Session]


@dataclass(frozen=True)
class Actions:
    """What the controls ask for."""

    change: Callable[[Change], None]
    reset: Callable[[], None]
    upload: Callable[[int, str, bytes], None]
    """Which side, what the browser calls the file, and what is in it."""
    download: Callable[[str], None]
    """One of ``DOWNLOADS``."""


class Panel:
    """The widgets of one page; they hold no state of their own but what they show."""

    def __init__(self, gui: viser.GuiApi, actions: Actions) -> None:
        self.gui, self.actions = gui, actions
        self.count = 0
        self._message = gui.add_html("")
        gui.add_html(legend_html(COLORS))
        self._method: Any = gui.add_dropdown("Method", METHOD_NAMES, hint="Kind of joint; auto tries all")
        self._on(self._method, lambda s: s.by(self._method.value))
        self._working = gui.add_html("")
        self._facts = gui.add_html("")
        with gui.add_folder("Hypotheses"):
            self._list = gui.add_html("")
            self._choice: Any = gui.add_button_group(LOOK_AT, (option(0),))
            self._on(self._choice, lambda s: s.choosing(int(self._choice.value) - 1))
            self._most: Any = gui.add_slider("At most", 1, MOST_HYPOTHESES, 1, HYPOTHESES)
            self._on(self._most, lambda s: s.supposing(int(self._most.value)))
        with gui.add_folder("Pose of the files"):
            self._pose = gui.add_html("")
            downloads = gui.add_button_group("Download", DOWNLOADS)
            downloads.on_click(lambda _: actions.download(downloads.value))
        with gui.add_folder("Try the laws"):
            self._swap()
            self._scale: Any = gui.add_slider("Scale", SCALES[0], SCALES[1], 0.05, 1.0)
            self._on(self._scale, lambda s: s.scaled(self._scale.value))
            reset = gui.add_button("Start again", color="gray", hint="Put all back as it was at first")
            reset.on_click(_alone(actions.reset))
        with gui.add_folder("Make it harder"):
            self._cuts = [self._slider(f"Cut {side}", "cut", 0.05) for side in ("source", "reference")]
            self._noise = self._slider("Noise", "noise", 0.005)
            self._outliers = self._slider("Outliers", "outliers", 0.05)
        with gui.add_folder("Your own files"):
            self._uploads()

    def say(self, text: str) -> None:
        """One line at the top; an empty one takes it away."""
        self._message.content = message_html(text)

    def work(self, working: bool) -> None:
        """Whether the engine is at work."""
        self._working.content = working_html(working)

    def show(self, answer: Answer, held: bool = False) -> None:
        """The facts of an answer; only what is new is sent."""
        if not answer.carried:
            self.count += 1
            if held and self.count % EVERY:
                return
        options = tuple(option(number) for number in range(len(answer.assembly.hypotheses)))
        if options != self._choice.options:
            self._choice.options = options
        for part, text in (
            (self._facts, answer_html(answer, self.count)),
            (self._list, hypotheses_html(answer)),
            (self._pose, pose_html(answer)),
        ):
            if part.content != text:
                part.content = text

    def set(self, session: Session) -> None:
        """The controls as a session has them."""
        self._scale.value, self._method.value = session.scale, session.problem.method
        self._most.value = session.problem.hypotheses
        for slider, index in zip(self._cuts, session.order, strict=True):
            slider.value = session.problem.pieces[index].changes.cut
        changes = session.problem.pieces[0].changes
        self._noise.value, self._outliers.value = changes.noise, changes.outliers

    def changed(self, session: Session) -> Session:
        """The session as the sliders have it; the same object where they say nothing new."""
        for slider, index in zip(self._cuts, session.order, strict=True):
            changes = Changes(slider.value, self._noise.value, self._outliers.value)
            if changes != session.problem.pieces[index].changes:
                session = session.changed(index, changes)
        return session

    def _swap(self) -> None:
        swap = self.gui.add_button("Swap source and reference")

        def swapped(session: Session) -> Session:
            after = session.with_swap()
            self.set(after)
            return after

        swap.on_click(_alone(lambda: self.actions.change(swapped)))

    def _slider(self, label: str, name: str, step: float) -> Any:
        low, high = LIMITS[name]
        slider = self.gui.add_slider(label, low, high, step, 0.0)
        self._on(slider, self.changed)
        return slider

    def _on(self, control: Any, change: Change) -> None:
        (control.on_click if isinstance(control, viser.GuiButtonGroupHandle) else control.on_update)(
            _alone(lambda: self.actions.change(change))
        )

    def _uploads(self) -> None:
        self.gui.add_html(drop_html(UPLOADS))
        for side, label in enumerate(UPLOADS):
            button = self.gui.add_upload_button(label)

            @button.on_upload
            def _(event: viser.GuiEvent[viser.GuiUploadButtonHandle], side: int = side) -> None:
                file = event.target.value
                event.target._impl.value = viser.UploadedFile("", b"")  # viser would keep it until the next
                self.actions.upload(side, file.name, file.content)


def _alone(action: Callable[[], None]) -> Callable[[viser.GuiEvent[Any]], Coroutine[Any, Any, None]]:
    """For viser: run in its event loop, where one event is dealt with after the other."""

    async def run(_: viser.GuiEvent[Any]) -> None:
        action()

    return run
