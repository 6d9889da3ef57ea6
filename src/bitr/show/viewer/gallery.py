"""The gallery: the pairs of an evaluation, sorted by error, as a wall of pictures that open when clicked."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import viser

from bitr.assembly.assemble import Settings
from bitr.data import AssemblyPair, dataset, is_name
from bitr.data.own import own_pairs
from bitr.data.poses import Pose, nearest_pose
from bitr.errors import InputError, require
from bitr.model.checkpoint import find
from bitr.show.picture import THUMBNAIL, THUMBNAIL_POINTS, Picture, draw_thumbnail, empty_thumbnail
from bitr.show.report import render_part
from bitr.show.stage import show_pair

if TYPE_CHECKING:
    from bitr.show.viewer.page import Page

FILE = "evaluation.json"
NEEDED = ("dataset", "split", "seed", "rows")
COLUMNS, ROWS = 4, 3
TILE, GAP = (1.0, THUMBNAIL[1] / THUMBNAIL[0]), (0.12, 0.24)
"""Width and height of a picture, and the room between two; a caption stands below each."""
FACING = (0.0, 1.0, 0.0, 0.0)
"""viser's pictures face down; turned about x they face the viewer, the right way up."""
ORDERS = ("best first", "worst first")
LONGEST = 26
"""Most characters of a pair's id in a caption."""


@dataclass(frozen=True, eq=False)
class Entry:
    """One pair and its answer."""

    sampling: int
    number: int
    """Number of the pair in its sampling."""
    id: str
    error: float | None
    """Rotation error in degrees; None without an answer."""
    ref_from_src: Pose | None

    @property
    def error_text(self) -> str:
        return "no answer" if self.error is None else f"Δr {self.error:.1f}°"


class Gallery:
    """The content of a folder of ``bitr evaluate``; pairs are read from the data set when asked for."""

    def __init__(self, folder: Path, root: Path | None = None) -> None:
        self.root, self.folder, self.source = root, folder, str(folder / FILE)
        self.found = _read(folder / FILE)
        try:
            self.row: dict[str, Any] = self.found["rows"][0]  # the evaluated method, on the unperturbed pairs
            entries = [
                _make_entry(sampling, number, score)
                for sampling, each in enumerate(self.row["samplings"])
                for number, score in enumerate(each["scores"])
            ]
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"{self.source}: not what bitr evaluate writes ({error!r:.80})") from error
        require(entries, f"{self.source}: not what bitr evaluate writes (no pairs)")
        self.title = f"{self.row.get('name')} on {self.found['dataset']}, {self.found['split']}"
        # the smallest rotation error first, pairs without an answer last
        self.entries = sorted(entries, key=lambda entry: math.inf if entry.error is None else entry.error)
        self.points: int | None = self.found.get("points")
        """Points of each cloud that the model saw; None where unknown, as for a file of predictions."""
        self.method: str = self.found.get("method", "auto")
        self.refine: str = self.found.get("refine", "none")
        """The refinement after the engine, which the viewer does not do."""
        Settings(self.method, points=self.points)  # raises where bitr evaluate would not have written them
        self.picture = lru_cache(maxsize=1000)(self._draw)
        self._pairs = cache(self._read_sampling)

    @property
    def checkpoint(self) -> str | None:
        """The weights that were evaluated; None for a file of predictions."""
        name = self.found.get("checkpoint")
        if name is None:
            return None
        try:
            find(name)
        except InputError:
            return self._find_nearby(name)
        return str(name)

    def pair(self, entry: Entry) -> AssemblyPair:
        """The pair of an entry, from the data set that was evaluated."""
        pairs = self._pairs(entry.sampling)
        found = pairs[entry.number] if entry.number < len(pairs) else None
        if found is None or found.id != entry.id:
            raise InputError(f"{self.source}: {entry.id} is not in {self.found['dataset']} as it is now")
        return found

    def _draw(self, entry: Entry) -> Picture:
        """Draw the pair as it was answered; without an answer the picture is empty."""
        if entry.ref_from_src is None:
            return empty_thumbnail()
        return draw_thumbnail(show_pair(self.pair(entry), entry.ref_from_src, most=THUMBNAIL_POINTS))

    def _read_sampling(self, sampling: int) -> Sequence[AssemblyPair]:
        name, split, seed = str(self.found["dataset"]), self.found["split"], self.found["seed"] + sampling
        if not is_name(name) and not Path(name).exists():
            name = self._find_nearby(name)
        if is_name(name) or not Path(name).exists():
            return dataset(name, split, self.root, seed)
        ids = {score["id"] for score in self.row["samplings"][sampling]["scores"]}  # some may be left out
        return own_pairs(Path(name), split, lambda pair: pair.id in ids)

    def _find_nearby(self, name: str) -> str:
        """Find a path that was typed where the results were written: in their folder, or in one above it."""
        here = self.folder.resolve()
        return next((str(at / name) for at in (here, *here.parents) if (at / name).exists()), name)

    def difference(self, model: str) -> str:
        """Say how an opened pair is answered where that is not how it was evaluated."""
        how = [] if self.checkpoint == model else [f"by the model {model}"]
        how += [] if self.refine == "none" else [f"without the refinement {self.refine}"]
        shown = "; the pictures show what was evaluated, and a pair that is opened is answered "
        return shown + ", ".join(how) if how else ""


def _read(path: Path) -> dict[str, Any]:
    require(path.is_file(), f"{path}: no such file, expected a folder that bitr evaluate -o has written")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: damaged or not JSON ({str(error)[:60]})") from error
    is_whole = isinstance(found, dict) and all(found.get(key) is not None for key in NEEDED)
    require(is_whole, f"{path}: not what bitr evaluate writes, expected {', '.join(NEEDED)} in it")
    return found


def _make_entry(sampling: int, number: int, score: dict[str, Any]) -> Entry:
    pose, error = score["transformation"], score["rotation_error_deg"]
    matrix = None if pose is None else nearest_pose(np.array(pose, dtype=np.float64), score["id"])
    return Entry(sampling, number, str(score["id"]), None if error is None else float(error), matrix)


class Wall:
    """The controls of the gallery, and its nodes below ``/wall``."""

    def __init__(self, client: viser.ClientHandle, gallery: Gallery, page: Page) -> None:
        self.client, self.gallery, self.page = client, gallery, page
        self.count = -(-len(gallery.entries) // (COLUMNS * ROWS))
        self.tiles: list[Any] = []
        self.title = gallery.title + gallery.difference(page.solver.network.name)
        gui = client.gui
        with gui.add_folder("Gallery"):
            self.caption = gui.add_html("")
            self._order: Any = gui.add_dropdown("Order", ORDERS)
            self._page: Any = gui.add_slider("Page", 1, max(self.count, 2), 1, 1, visible=self.count > 1)
            back = gui.add_button("Show the gallery")
        for control in (self._order, self._page):
            control.on_update(lambda _: page.show_wall())
        back.on_click(lambda _: page.show_wall())
        self.say(None)

    def clear(self) -> None:
        for node in self.tiles:
            node.remove()
        self.tiles = []

    def shown(self) -> list[Entry]:
        """The entries of the page that is chosen."""
        entries = self.gallery.entries if self._order.value == ORDERS[0] else self.gallery.entries[::-1]
        first = (min(self._page.value, self.count) - 1) * COLUMNS * ROWS
        return entries[first : first + COLUMNS * ROWS]

    def corners(self) -> np.ndarray:
        """Two corners of the whole wall."""
        width, height = COLUMNS * (TILE[0] + GAP[0]) - GAP[0], ROWS * (TILE[1] + GAP[1])
        return np.array([[0, 0, 0], [width, -height, 0]])

    def hang(self, number: int, entry: Entry, pixels: Picture) -> None:
        """Hang one picture, with its caption; rows go down."""
        row, column = divmod(number, COLUMNS)
        x, y = column * (TILE[0] + GAP[0]) + TILE[0] / 2, -row * (TILE[1] + GAP[1]) - TILE[1] / 2
        picture = self.client.scene.add_image(
            f"/wall/{number}",
            pixels,
            *TILE,
            wxyz=FACING,
            position=(x, y, 0.0),
            cast_shadow=False,
            receive_shadow=False,
        )
        picture.on_click(lambda _: self.page.open_entry(entry))
        short = entry.id if len(entry.id) <= LONGEST else f"…{entry.id[-LONGEST + 1 :]}"
        caption = self.client.scene.add_label(
            f"/wall/caption{number}",
            f"{entry.error_text}  {short}",
            position=(x, y - TILE[1] / 2 - 0.02, 0.0),
            anchor="top-center",
            font_screen_scale=0.8,
        )
        self.tiles += [picture, caption]

    def say(self, entry: Entry | None) -> None:
        """Name the pair that is open, and its error in the evaluation."""
        text = "" if entry is None else f"{entry.id}: {entry.error_text} in the evaluation"
        self.caption.content = render_part("panel.html", "caption", title=self.title, pair=text)
