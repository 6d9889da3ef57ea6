"""The viewer: a server, a worker, and a page for every tab."""

from __future__ import annotations

import threading
from types import TracebackType

import viser

from bitr.assembly.network import Network
from bitr.io import Geometry
from bitr.viewer.gallery import Gallery
from bitr.viewer.page import Page
from bitr.viewer.server import LOCAL, Server, limit_uploads, refuse_strangers
from bitr.viewer.worker import Worker


class Viewer:
    """Serves pages until it is closed; all open on the same pair or gallery, each on its own from there."""

    def __init__(
        self,
        network: Network,
        shown: tuple[Geometry, Geometry] | Gallery,
        *,
        host: str = LOCAL,
        port: int = 8080,
        points: int | None = None,
        method: str = "auto",
    ) -> None:
        self.network, self.shown, self.host = network, shown, host
        self.points, self.method = points, method
        self.pages: dict[int, Page] = {}
        self.server = Server(host, port)
        self.worker = Worker()
        self.server.on_client_connect(self._connected)
        self.server.on_client_disconnect(self._disconnected)

    @property
    def url(self) -> str:
        name = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{name}:{self.server.get_port()}"

    def wait(self) -> None:
        """Until Ctrl-C."""
        threading.Event().wait()

    def close(self) -> None:
        self.worker.close()
        self.server.stop()

    def __enter__(self) -> Viewer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    async def _connected(self, client: viser.ClientHandle) -> None:
        if await refuse_strangers(self.server, client, self.host):
            return
        gallery = self.shown if isinstance(self.shown, Gallery) else None
        page = Page(client, self.network, self.worker, self.points, self.method, gallery)
        limit_uploads(client, page.panel.say)
        self.pages[client.client_id] = page
        if isinstance(self.shown, Gallery):
            page.show_wall()
        else:
            page.open(*self.shown)

    async def _disconnected(self, client: viser.ClientHandle) -> None:
        page = self.pages.pop(client.client_id, None)
        if page is not None:
            page.close()
