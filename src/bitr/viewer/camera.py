"""From where a page is seen."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import viser
from jaxtyping import Float64

FIELD_OF_VIEW = 0.65
"""Top to bottom, in radians: narrow enough for shapes to keep their proportions."""
HAZE = (0.6, 1.6)
"""How far before the middle things begin to fade, and how far behind it they are gone."""


@dataclass(frozen=True, eq=False)
class View:
    """Where the camera is, what it looks at, and what is up."""

    position: Float64[np.ndarray, " 3"]
    look_at: Float64[np.ndarray, " 3"]
    up: Float64[np.ndarray, " 3"]


Framing = Callable[[float, float], View]
"""The view that shows everything, from the field of view and from width over height."""


class Camera:
    """Frames what is shown; again when the window changes its size."""

    def __init__(self, client: viser.ClientHandle) -> None:
        self.client = client
        self._framing: Framing | None = None
        self._size, self._far, self._hazy = (0, 0), 0.0, False
        self._lock = threading.Lock()
        client.camera.fov = FIELD_OF_VIEW
        client.camera.on_update(self._updated)

    def frame(self, framing: Framing, hazy: bool) -> None:
        """Show everything; with haze, what is far is paler."""
        self._framing, self._hazy, self._far = framing, hazy, 0.0
        self._frame(framing)

    def _frame(self, framing: Framing) -> None:
        camera = self.client.camera
        with self._lock:  # the worker frames, and so does the event of a new size: the newest size must win
            self._size = camera.image_width, camera.image_height
            view = framing(FIELD_OF_VIEW, (camera.image_width / max(camera.image_height, 1)) or 1.5)
            with self.client.atomic():
                camera.up_direction = view.up
                camera.position, camera.look_at = view.position, view.look_at
        self._haze(float(np.linalg.norm(view.position - view.look_at)))

    async def _updated(self, camera: viser.CameraHandle) -> None:
        if self._framing is not None and (camera.image_width, camera.image_height) != self._size:
            self._frame(self._framing)
        else:
            self._haze(float(np.linalg.norm(camera.position - camera.look_at)))

    def _haze(self, far: float) -> None:
        """The haze goes with the camera: from afar everything would vanish in it."""
        if abs(far - self._far) > 0.02 * far:
            self._far = far
            self.client.scene.configure_fog(max(far - HAZE[0], 0.0), far + HAZE[1], enabled=self._hazy)
