"""The servers of ``bitr view``: for this machine unless told otherwise, careful with what they are sent."""

from __future__ import annotations

import asyncio
import errno
import io
import ipaddress
import logging
import socket
import threading
from collections.abc import Callable
from contextlib import redirect_stdout
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar
from urllib.parse import urlsplit

import viser
from viser import _messages as messages

from bitr.assembly.network import Network
from bitr.errors import InputError
from bitr.io import Geometry
from bitr.show.viewer.gallery import Gallery
from bitr.show.viewer.page import Page, Worker
from bitr.show.viewer.panel import MOST_BYTES, refuse_size

LOCAL = "127.0.0.1"
PORTS = 1000
"""Number of ports that are tried, from the one that was asked for."""

log = logging.getLogger("bitr")
S = TypeVar("S", bound="Served")


class Served:
    """A server that answers in the background until it is closed."""

    host: str
    port: int

    @property
    def url(self) -> str:
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    def wait(self) -> None:
        """Wait for Ctrl-C."""
        threading.Event().wait()

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self: S) -> S:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Viewer(Served):
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
        self.server, self.worker = Server(host, port), Worker()
        self.port = self.server.get_port()
        self.server.on_client_connect(self._connect)
        self.server.on_client_disconnect(self._disconnect)

    def close(self) -> None:
        self.worker.close()
        self.server.stop()

    async def _connect(self, client: viser.ClientHandle) -> None:
        if await refuse_strangers(self.server, client, self.host):
            return
        gallery = self.shown if isinstance(self.shown, Gallery) else None
        page = Page(client, self.network, self.worker, self.points, self.method, gallery)
        limit_uploads(client, page.panel.say)
        if isinstance(self.shown, Gallery):
            page.show_wall()
        else:
            page.open(*self.shown)
        self.pages[client.client_id] = page

    async def _disconnect(self, client: viser.ClientHandle) -> None:
        page = self.pages.pop(client.client_id, None)
        if page is not None:
            page.close()


class PuzzleViewer(Served):
    """Serves the page of a puzzle, which is complete in itself, until it is closed."""

    def __init__(self, page: str, *, host: str = LOCAL, port: int = 8080) -> None:
        self.host, content = host, page.encode()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                """Send the page, at its one address and to its own name only."""
                is_own = is_same_origin(self.headers.get("Origin"), self.headers.get("Host"), host)
                if not is_own or self.path != "/":
                    self.send_error(404 if is_own else 403)
                    return
                self.send_response(200)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: Any) -> None:
                log.debug(format, *args)

        class AnyAddress(ThreadingHTTPServer):
            address_family = family_of(host)
            daemon_threads = True

        self.server = AnyAddress((host, free_port(host, port)), Handler)
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, name="bitr-puzzle", daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


class Server(viser.ViserServer):
    """viser's server, without its way to put a page on the internet."""

    def __init__(self, host: str, port: int) -> None:
        with redirect_stdout(io.StringIO()):  # viser prints a box with the address
            super().__init__(host=host, port=free_port(host, port), label="bitr", verbose=False)
        logging.getLogger("websockets.server").addFilter(shorten)
        self._event_loop.call_soon_threadsafe(self._event_loop.set_exception_handler, tell_failure)
        self.gui.configure_theme(show_logo=False, show_share_button=False, control_width="medium")
        self.gui.main_panel.dock_right()

    def request_share_url(self, verbose: bool = True) -> str | None:
        """Refuse: no page may ask for a tunnel to a public address."""
        return None

    def stop(self) -> None:
        with redirect_stdout(io.StringIO()):  # viser says that it has stopped
            super().stop()


def shorten(record: logging.LogRecord) -> bool:
    """Make one line of the traceback of a connection: whoever sends what cannot be read is disconnected."""
    if record.exc_info:
        log.debug("a connection failed", exc_info=record.exc_info)
        error = record.exc_info[0]
        record.msg = "bitr: closed a connection that sent what cannot be read (%s)"
        record.args, record.exc_info = (error.__name__ if error else "no reason",), None
    return True


def tell_failure(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Tell in one line that a message could not be used; the page goes on."""
    error = context.get("exception")
    log.debug("a message could not be used", exc_info=error)
    log.warning("a message of a page could not be used (%s)", type(error).__name__ if error else context)


def family_of(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def free_port(host: str, port: int) -> int:
    """The first free port from ``port`` on, any for 0; a host that is not of this machine raises."""
    for candidate in range(port, min(port + PORTS, 65536)):
        try:
            with socket.create_server((host, candidate), family=family_of(host)) as taken:
                return int(taken.getsockname()[1])
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise InputError(
                    f"--host {host}: cannot be used ({error.strerror}), expected an address of this machine"
                ) from error
    raise InputError(f"--port {port}: no free port from there on; choose another")


def is_local(host: str) -> bool:
    """True when only this machine can reach a server that is bound to ``host``."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_same_origin(origin: str | None, host: str | None, bound_to: str) -> bool:
    """True when a connection comes from our own page, and not from another page in the same browser.

    A page from elsewhere may connect to a local server, and its browser then names that page as the origin.
    For a server of this machine alone, the name of the host must be one of this machine too: a name from
    outside can be made to point here.
    """
    name = urlsplit(f"//{host}").hostname
    if is_local(bound_to) and not (name is not None and is_local(name)):
        return False
    return origin is None or urlsplit(origin).netloc == host


async def refuse_strangers(server: Server, client: viser.ClientHandle, bound_to: str) -> bool:
    """Close a connection that another site opened, before anything is shown to it."""
    connection = server._websock_server._live_connections.get(client.client_id)
    if connection is None or connection.request is None:
        return True
    headers = connection.request.headers
    if is_same_origin(headers.get("Origin"), headers.get("Host"), bound_to):
        return False
    log.warning("refused a connection from %s", headers.get("Origin"))
    await connection.close(1008, "another origin")
    return True


def limit_uploads(client: viser.ClientHandle, say: Callable[[str], None]) -> None:
    """Drop an upload of more than ``MOST_BYTES`` as soon as it says so, or as soon as it turns out to be.

    viser collects the parts of a file in memory before it hands it over, however many they are. To bound
    this, each button has one upload at a time.
    """
    uploads = client.gui._current_file_upload_states
    connection = client._websock_connection
    newest: dict[str, str] = {}
    """The transfer of each button; a newer one takes its place."""

    def start(_: int, message: messages.FileTransferStartUpload) -> None:
        button, transfer = message.source_component_uuid, message.transfer_uuid
        if message.size_bytes > MOST_BYTES:
            refuse(transfer, button, message.filename, message.size_bytes)
        elif transfer in uploads:  # for viser, only where the button is one of the page
            if newest.get(button) != transfer:
                uploads.pop(newest.get(button, ""), None)
            newest[button] = transfer

    def receive(_: int, message: messages.FileTransferPart) -> None:
        upload = uploads.get(message.transfer_uuid)
        if upload is not None and upload["transferred_bytes"] > MOST_BYTES:
            size = max(upload["total_bytes"], upload["transferred_bytes"])
            refuse(message.transfer_uuid, message.source_component_uuid, upload["filename"], size)

    def refuse(transfer: str, button: str | None, name: str, size: int) -> None:
        uploads.pop(transfer, None)
        say(refuse_size(name, size))
        # the browser waits until all has arrived: tell it so, or its button would stay grey
        done = messages.FileTransferPartAck(button, transfer, transferred_bytes=size, total_bytes=size)
        connection.queue_message(done)

    connection.register_handler(messages.FileTransferStartUpload, start)
    connection.register_handler(messages.FileTransferPart, receive)
