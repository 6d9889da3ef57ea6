"""What is drawn: the pieces with their handles, and the source in its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import viser
from jaxtyping import Float64

from bitr.io import even_draw
from bitr.pictures.picture import COLORS, KEY_COLORS
from bitr.viewer.layout import Layout, wxyz
from bitr.viewer.piece import Piece
from bitr.viewer.session import Place, Session
from bitr.viewer.solver import Answer

MOST_DRAWN = 200_000
"""Points of a cloud that are sent to a browser."""
FAINT = 0.6
"""How far the points that the engine does not choose from fade into the background."""
DOTS = {"full": 0.16, "dense": 0.24}
"""Diameters, in distances between neighbours."""
KEY_DOT = 1.0
"""Diameter of a key point, in distances between neighbours among a thousand points."""
SAME = 1e-5
"""As drawn. Key points go with their pieces, by the laws, and are sent only where they do not."""

Moved = Callable[[int, Place, bool], None]
"""Is told which piece was dragged, where to, and whether it is still held."""


class Scenery:
    """The nodes of one page: ``/piece0`` and ``/piece1``, which are dragged, and ``/answer``."""

    def __init__(self, client: viser.ClientHandle, on_move: Moved) -> None:
        self.client, self.on_move = client, on_move
        self._layout: Layout | None = None
        self._drawn: tuple[Any, ...] = ()
        self._handles: list[viser.TransformControlsHandle] = []
        self._answer: viser.FrameHandle | None = None
        self._keys: list[viser.PointCloudHandle] = []

    def clear(self) -> None:
        """Leave nothing."""
        for node in (*self._handles, *([self._answer] if self._answer else ())):
            node.remove()
        self._handles, self._keys, self._answer, self._drawn = [], [], None, ()

    def set_up(self, layout: Layout, answer: Answer) -> None:
        """Draw another pair."""
        self.clear()
        self._layout = layout
        self._handles = [self._handle(index, answer.session) for index in (0, 1)]
        self._answer = self.client.scene.add_frame("/answer", show_axes=False)
        self.show(answer)

    def show(self, answer: Answer) -> None:
        """The answer, and the clouds where they are not those that are drawn already."""
        assert self._layout is not None
        assert self._answer is not None
        session = answer.session
        with self.client.atomic():
            drawn = (*session.problem.pieces, session.swapped, session.scale)
            if drawn != self._drawn:  # pieces are compared as objects: each is a new one when it changes
                self._draw_clouds(session)
                self._drawn = drawn
            pose, place = answer.pose, session.places[session.order[0]]
            self._answer.wxyz = wxyz(pose[:3, :3] @ place.rotation)
            self._answer.position = self._layout.shown(pose[:3, :3] @ place.middle + pose[:3, 3])
            x, y = self._own_keypoints(answer)
            for node, points in zip(self._keys, (x, y, x), strict=True):
                if points.shape != node.points.shape or np.abs(points - node.points).max() > SAME:
                    node.points = points.astype(np.float32)

    def hold(self, session: Session) -> None:
        """Put the handles where the session has the pieces: for motions that did not come from the page."""
        assert self._layout is not None
        if not self._handles:  # nothing is drawn
            return
        for handle, place in zip(self._handles, session.places, strict=True):
            handle.wxyz, handle.position = wxyz(place.rotation), self._layout.shown(place.middle)

    def _handle(self, index: int, session: Session) -> viser.TransformControlsHandle:
        assert self._layout is not None
        layout, place = self._layout, session.places[index]
        handle = self.client.scene.add_transform_controls(
            f"/piece{index}",
            scale=0.75 * layout.radii[index],
            wxyz=wxyz(place.rotation),
            position=layout.shown(place.middle),
            line_width=2.0,
            opacity=0.75,
            depth_test=False,
        )

        @handle.on_update
        async def _(event: viser.TransformControlsEvent) -> None:
            place = layout.place(event.target.wxyz, event.target.position)
            self.on_move(index, place, event.phase != "end")

        return handle

    def _draw_clouds(self, session: Session) -> None:
        """Both pieces in the colours of their roles, and the source again, where the answer puts it."""
        source, reference = session.order
        self._keys = [
            self._draw_cloud(f"/piece{source}", session, source, "source"),
            self._draw_cloud(f"/piece{reference}", session, reference, "reference"),
            self._draw_cloud("/answer", session, source, "source, moved"),
        ]

    def _draw_cloud(self, node: str, session: Session, index: int, role: str) -> viser.PointCloudHandle:
        """Points about the middle of a piece, below a node that moves them; returns the key points."""
        assert self._layout is not None
        piece, spacing = session.problem.pieces[index], session.scale * self._layout.spacings[index]
        color = _rgb(COLORS[role])
        faint = color + FAINT * (255 - color)
        for name, points, shade in (
            ("full", piece.cloud.points[even_draw(len(piece.cloud.points), MOST_DRAWN, seed=0)], faint),
            ("dense", piece.dense.points, color),
        ):
            self.client.scene.add_point_cloud(
                f"{node}/{name}",
                self._about_middle(piece, points, session.scale).astype(np.float32),
                shade.astype(np.uint8),
                point_size=DOTS[name] * spacing * np.sqrt(1000 / len(points)),
                point_shape="circle",
                point_shading="gradient",
                precision="float32",
                visible=name == "dense" or len(piece.dense.points) < len(piece.cloud.points),
            )
        return self.client.scene.add_point_cloud(
            f"{node}/keys",
            np.zeros((1, 3), dtype=np.float32),
            _rgb(KEY_COLORS[role]).astype(np.uint8),
            point_size=KEY_DOT * spacing,
            point_shape="circle",
            point_shading="gradient",
            precision="float32",
        )

    def _about_middle(
        self, piece: Piece, points: Float64[np.ndarray, "n 3"], scale: float
    ) -> Float64[np.ndarray, "n 3"]:
        assert self._layout is not None
        return scale * (points - piece.middle) / self._layout.unit

    def _own_keypoints(self, answer: Answer) -> tuple[Float64[np.ndarray, "l 3"], Float64[np.ndarray, "l 3"]]:
        """Key points of both sides about the middles of the pieces, not turned, as they are drawn."""
        assert self._layout is not None
        assembly, session = answer.assembly, answer.solved
        places = [session.places[index] for index in session.order]
        x, y = (
            (points - place.middle) @ place.rotation / self._layout.unit
            for points, place in zip(
                (assembly.source_keypoints, assembly.reference_keypoints), places, strict=True
            )
        )
        return x, y


def all_points(layout: Layout, answer: Answer) -> Float64[np.ndarray, "n 3"]:
    """Everything that is in sight: both pieces, and the source in its place."""
    session = answer.session
    source, reference = (session.standing(i, session.problem.pieces[i].dense) for i in session.order)
    moved = source.moved(answer.pose)
    points = np.concatenate([source.points, reference.points, moved.points])
    return (points - layout.origin) / layout.unit


def _rgb(color: str) -> Float64[np.ndarray, " 3"]:
    return np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)], dtype=np.float64)
