"""The 3-D scene of a page: the camera, the frame it is drawn in, and the pieces with their handles."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import viser
from jaxtyping import Float64
from scipy.spatial.transform import Rotation

from bitr.io import even_draw
from bitr.show.picture import COLORS, KEY_COLORS, parse_color
from bitr.show.stage import Matrix, Scene, Vector, quaternion_wxyz, set_stage
from bitr.show.viewer.session import Answer, Place, Problem, Session

FIELD_OF_VIEW = 0.65
"""Top to bottom, in radians: narrow enough for shapes to keep their proportions."""
HAZE = (0.6, 1.6)
"""Distance before the centre at which things begin to fade, and behind it at which they are gone."""
ENOUGH = 3000
"""Points of a cloud that determine its size and its broad side."""
BESIDE = 1.05
"""Distance between the pieces at first, in sums of their radii."""
ROOM = 1.06
"""Room around the pieces when they are framed."""
NARROW, FREE = 576, 0.4
"""Up to this width, in pixels, viser lays its panel over the picture; the share above the panel."""
MOST_DRAWN = 200_000
"""Most points of a cloud that are sent to a browser."""
FAINT = 0.6
"""Fading of the points that the engine does not choose from, from 0 to 1."""
DOTS = {"full": 0.16, "dense": 0.24, "keys": 0.45}
"""Diameters, in distances between neighbours; for key points, between neighbours of a thousand points."""
SAME = 1e-5
"""By the laws key points move with their pieces; they are sent where they differ by more, as drawn."""

Points = Float64[np.ndarray, "n 3"]


class Camera:
    """Frames the scene, again when the window changes its size."""

    def __init__(self, client: viser.ClientHandle) -> None:
        self.client = client
        self._shown: tuple[Points, Matrix] | None = None
        self._size, self._far, self._hazy = (0, 0), 0.0, False
        self._lock = threading.Lock()
        client.camera.fov = FIELD_OF_VIEW
        client.camera.on_update(self._update)

    def frame(self, points: Points, axes: Matrix, hazy: bool) -> None:
        """Show all points, with axes to the right, up and towards the viewer; haze makes far ones paler."""
        self._hazy, self._far, self._shown = hazy, 0.0, (points, axes)
        self._frame(points, axes)

    def _frame(self, points: Points, axes: Matrix) -> None:
        camera = self.client.camera
        with self._lock:  # the worker frames, and so does the event of a new size: the newest size must win
            self._size = camera.image_width, camera.image_height
            aspect = (camera.image_width / max(camera.image_height, 1)) or 1.5
            free = FREE if 0 < camera.image_width <= NARROW and aspect < 1 else 1.0
            position, look_at = aim(points, axes, FIELD_OF_VIEW, aspect, free)
            with self.client.atomic():
                camera.up_direction, camera.position, camera.look_at = axes[1], position, look_at
        self._update_haze(float(np.linalg.norm(position - look_at)))

    async def _update(self, camera: viser.CameraHandle) -> None:
        if self._shown is not None and (camera.image_width, camera.image_height) != self._size:
            self._frame(*self._shown)
        else:
            self._update_haze(float(np.linalg.norm(camera.position - camera.look_at)))

    def _update_haze(self, far: float) -> None:
        """Move the haze with the camera: from afar everything would vanish in it."""
        if abs(far - self._far) > 0.02 * far:
            self._far = far
            self.client.scene.configure_fog(max(far - HAZE[0], 0.0), far + HAZE[1], enabled=self._hazy)


def aim(points: Points, axes: Matrix, fov: float, aspect: float, free: float = 1.0) -> tuple[Vector, Vector]:
    """Position of the camera, and the point that it looks at, for which all points fill the picture, or the
    upper share of it that is free."""
    seen = points @ axes.T
    middle = (seen.min(0) + seen.max(0)) / 2
    width, height, depth = ROOM * np.ptp(seen, axis=0) / 2
    back = max(height / free, width / aspect) / np.tan(fov / 2) + depth / 2
    middle[1] -= (1 - free) * (back - depth / 2) * np.tan(fov / 2)  # the free share has its middle above
    return (middle + np.array([0, 0, back])) @ axes, middle @ axes


@dataclass(frozen=True, eq=False)
class Layout:
    """The frame of the drawing: p is drawn at (p − origin) / unit.

    Whatever the unit and the place of the files, coordinates are of order 1 and near the origin, so that the
    float32 of a browser is enough.
    """

    origin: Vector
    unit: float
    view: Matrix
    """Rows: the directions to the right, up, and towards the viewer."""
    radii: list[float]
    """Radii of the pieces, as drawn."""
    spacings: list[float]
    """Distance between neighbours if a piece were drawn with a thousand points; the size of a key point."""

    def draw(self, points: Float64[np.ndarray, "... 3"]) -> Float64[np.ndarray, "... 3"]:
        return (points - self.origin) / self.unit

    def start(self, problem: Problem) -> Session:
        """Put the reference where its file has it, and the source beside it, neither turned."""
        apart = BESIDE * sum(self.radii) * self.unit * self.view[0]
        middle = problem.pieces[1].middle
        return Session(problem, (Place(np.eye(3), middle - apart), Place(np.eye(3), middle)))

    def place(self, wxyz: Float64[np.ndarray, " 4"], position: Vector) -> Place:
        """The place of a piece whose handle is drawn at ``position``, turned by ``wxyz``."""
        rotation = Rotation.from_quat(np.roll(wxyz, -1)).as_matrix()
        return Place(rotation, self.origin + self.unit * position)

    def all_points(self, answer: Answer) -> Points:
        """Both pieces and the source in its place, as drawn."""
        session = answer.session
        source, reference = (session.stand(i, session.problem.pieces[i].dense) for i in session.order)
        shown = source.points, reference.points, source.moved(answer.pose).points
        return self.draw(np.concatenate(shown))


def lay_out(problem: Problem, ref_from_src: Float64[np.ndarray, "4 4"]) -> Layout:
    """Lay out a pair so that the assembly shows its broad side."""
    clouds = [piece.cloud.points for piece in problem.pieces]
    source, reference = (points[even_draw(len(points), ENOUGH, seed=0)] for points in clouds)
    stage = set_stage(Scene(source, reference, ref_from_src))
    unit = stage.source.radius + stage.reference.radius
    radii, spacings = [], []
    for cloud in (stage.source, stage.reference):
        spacing = cloud.spacing * float(np.sqrt(len(cloud.points) / 1000))
        radii.append(cloud.radius / unit)
        spacings.append(max(spacing, 0.01 * cloud.radius) / unit)  # points may lie on each other
    return Layout(problem.pieces[1].middle, unit, stage.view, radii, spacings)


class Scenery:
    """The nodes of a pair: ``/piece0`` and ``/piece1``, which are dragged, and ``/answer``.

    ``on_move`` is told the index of a piece that was dragged, its new place, and whether it is still held.
    """

    def __init__(
        self,
        client: viser.ClientHandle,
        layout: Layout,
        session: Session,
        on_move: Callable[[int, Place, bool], None],
    ) -> None:
        self.client, self.layout, self.on_move = client, layout, on_move
        self.handles = [self._add_handle(index, session.places[index]) for index in (0, 1)]
        self.answer = client.scene.add_frame("/answer", show_axes=False)
        self.keys: list[viser.PointCloudHandle] = []
        self._drawn: tuple[Any, ...] = ()

    def clear(self) -> None:
        for node in (*self.handles, self.answer):
            node.remove()

    def show(self, answer: Answer) -> None:
        """Draw the answer, and the clouds where they are not those that are drawn already."""
        session = answer.session
        with self.client.atomic():
            drawn = (*session.problem.pieces, session.swapped, session.scale)
            if drawn != self._drawn:  # pieces are compared as objects: each is a new one when it changes
                source, reference = session.order
                self.keys = [
                    self._draw_cloud(f"/piece{source}", session, source, "source"),
                    self._draw_cloud(f"/piece{reference}", session, reference, "reference"),
                    self._draw_cloud("/answer", session, source, "source, moved"),
                ]
                self._drawn = drawn
            pose, place = answer.pose, session.places[session.order[0]]
            self.answer.wxyz = quaternion_wxyz(pose[:3, :3] @ place.rotation)
            self.answer.position = self.layout.draw(pose[:3, :3] @ place.middle + pose[:3, 3])
            x, y = self.own_keypoints(answer)
            for node, points in zip(self.keys, (x, y, x), strict=True):
                if points.shape != node.points.shape or np.abs(points - node.points).max() > SAME:
                    node.points = points.astype(np.float32)

    def hold(self, session: Session) -> None:
        """Put the handles where the session has the pieces, after motions that did not come from the page."""
        for handle, place in zip(self.handles, session.places, strict=True):
            handle.wxyz, handle.position = quaternion_wxyz(place.rotation), self.layout.draw(place.middle)

    def own_keypoints(self, answer: Answer) -> tuple[Points, Points]:
        """Key points of both sides about the middles of the pieces, not turned, as they are drawn."""
        x, y = (answer.solved.places[index] for index in answer.solved.order)
        found = answer.assembly.source_keypoints, answer.assembly.reference_keypoints
        source, reference = (
            (points - place.middle) @ place.rotation / self.layout.unit
            for points, place in zip(found, (x, y), strict=True)
        )
        return source, reference

    def _add_handle(self, index: int, place: Place) -> viser.TransformControlsHandle:
        handle = self.client.scene.add_transform_controls(
            f"/piece{index}",
            scale=0.75 * self.layout.radii[index],
            wxyz=quaternion_wxyz(place.rotation),
            position=self.layout.draw(place.middle),
            line_width=2.0,
            opacity=0.75,
            depth_test=False,
        )

        @handle.on_update
        async def _(event: viser.TransformControlsEvent) -> None:
            place = self.layout.place(event.target.wxyz, event.target.position)
            self.on_move(index, place, event.phase != "end")

        return handle

    def _draw_cloud(self, node: str, session: Session, index: int, role: str) -> viser.PointCloudHandle:
        """Draw points about the middle of a piece, below a node that moves them; returns the key points."""
        piece, spacing = session.problem.pieces[index], session.scale * self.layout.spacings[index]
        color, full, dense = parse_color(COLORS[role]), piece.cloud.points, piece.dense.points

        def add(name: str, points: Points, shade: Vector, size: float, visible: bool = True) -> Any:
            return self.client.scene.add_point_cloud(
                f"{node}/{name}",
                points.astype(np.float32),
                np.rint(255 * shade).astype(np.uint8),
                point_size=DOTS[name] * spacing * size,
                point_shape="circle",
                point_shading="gradient",
                precision="float32",
                visible=visible,
            )

        drawn = full[even_draw(len(full), MOST_DRAWN, seed=0)]
        for name, points, shade, visible in (
            ("full", drawn, color + FAINT * (1 - color), len(dense) < len(full)),
            ("dense", dense, color, True),
        ):
            about_middle = session.scale * (points - piece.middle) / self.layout.unit
            add(name, about_middle, shade, np.sqrt(1000 / len(points)), visible)
        return add("keys", np.zeros((1, 3)), parse_color(KEY_COLORS[role]), 1.0)
