"""The gallery as it is drawn: a grid of small pictures that open their pair when they are clicked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import viser
from jaxtyping import Float64, UInt8

from bitr.viewer.camera import View
from bitr.viewer.gallery import Entry, Gallery
from bitr.viewer.text import caption_html
from bitr.viewer.thumbnail import HEIGHT, WIDTH

COLUMNS, ROWS = 4, 3
TILE, GAP = (1.0, HEIGHT / WIDTH), (0.12, 0.24)
"""Width and height of a picture, and the room between two; below a picture there is its caption."""
FACING = (0.0, 1.0, 0.0, 0.0)
"""viser's pictures face down; turned about x they face the viewer, the right way up."""
ORDERS = ("best first", "worst first")
LONGEST = 26


class Wall:
    """The controls of the gallery, and its nodes below ``/wall``."""

    def __init__(
        self,
        client: viser.ClientHandle,
        gallery: Gallery,
        model: str,
        on_open: Callable[[Entry], None],
        on_show: Callable[[], None],
    ) -> None:
        self.client, self.gallery, self.on_open = client, gallery, on_open
        self.title = gallery.title + _by_another(gallery, model)
        self.pages = -(-len(gallery.entries) // (COLUMNS * ROWS))
        self._tiles: list[Any] = []
        with client.gui.add_folder("Gallery"):
            self._caption = client.gui.add_html(caption_html(self.title, ""))
            self._order: Any = client.gui.add_dropdown("Order", ORDERS)
            self._page: Any = client.gui.add_slider(
                "Page", 1, max(self.pages, 2), 1, 1, visible=self.pages > 1
            )
            back = client.gui.add_button("Show the gallery")
        for control in (self._order, self._page):
            control.on_update(lambda _: on_show())
        back.on_click(lambda _: on_show())

    def clear(self) -> None:
        for node in self._tiles:
            node.remove()
        self._tiles = []

    def shown(self) -> list[Entry]:
        """The entries of the page that is chosen."""
        entries = self.gallery.entries
        entries = entries if self._order.value == ORDERS[0] else entries[::-1]
        first = (min(self._page.value, self.pages) - 1) * COLUMNS * ROWS
        return list(entries[first : first + COLUMNS * ROWS])

    def view(self, fov: float, aspect: float) -> View:
        """The camera in front of the wall."""
        width, height = COLUMNS * (TILE[0] + GAP[0]) - GAP[0], ROWS * (TILE[1] + GAP[1])
        back = 0.53 * max(height, width / aspect) / np.tan(fov / 2)
        middle = np.array([width / 2, -height / 2, 0.0])
        return View(middle + np.array([0, 0, back]), middle, np.array([0.0, 1.0, 0.0]))

    def hang(self, number: int, entry: Entry, pixels: UInt8[np.ndarray, "h w 3"]) -> None:
        """One picture, with its caption."""
        place = self._place(number)
        picture = self.client.scene.add_image(
            f"/wall/{number}",
            pixels,
            *TILE,
            wxyz=FACING,
            position=place,
            cast_shadow=False,
            receive_shadow=False,
        )
        picture.on_click(lambda _: self.on_open(entry))
        caption = self.client.scene.add_label(
            f"/wall/caption{number}",
            f"{entry.error_text}  {_short(entry.id)}",
            position=place - [0, TILE[1] / 2 + 0.02, 0],
            anchor="top-center",
            font_screen_scale=0.8,
        )
        self._tiles += [picture, caption]

    def say(self, entry: Entry | None) -> None:
        """Which pair is open, and how it was answered."""
        text = "" if entry is None else f"{entry.id}: {entry.error_text} in the evaluation"
        self._caption.content = caption_html(self.title, text)

    def _place(self, number: int) -> Float64[np.ndarray, " 3"]:
        """The middle of a picture; rows go down."""
        row, column = divmod(number, COLUMNS)
        return np.array(
            [
                column * (TILE[0] + GAP[0]) + TILE[0] / 2,
                -row * (TILE[1] + GAP[1]) - TILE[1] / 2,
                0.0,
            ]
        )


def _by_another(gallery: Gallery, model: str) -> str:
    """What to say where pairs are not answered by what was evaluated."""
    another = [] if gallery.checkpoint == model else [f"by the model {model}"]
    without = [] if gallery.refine == "none" else [f"without the refinement {gallery.refine}"]
    if not another and not without:
        return ""
    how = ", ".join(another + without)
    return f"; the pictures show what was evaluated, and a pair that is opened is answered {how}"


def _short(id: str) -> str:
    return id if len(id) <= LONGEST else f"…{id[-LONGEST + 1 :]}"
