"""The server of the page: on this machine unless told otherwise, and careful with what it is sent."""

from __future__ import annotations

import errno
import io
import ipaddress
import logging
import socket
from collections.abc import Callable
from contextlib import redirect_stdout
from urllib.parse import urlsplit

import viser
from viser import _messages as messages

from bitr.errors import InputError
from bitr.viewer.files import MOST_BYTES, too_large

LOCAL = "127.0.0.1"
PORTS = 1000
"""How many are tried, from the one that was asked for."""

log = logging.getLogger("bitr")


class Server(viser.ViserServer):
    """viser's server, without its way to put a page on the internet."""

    def __init__(self, host: str, port: int) -> None:
        with redirect_stdout(io.StringIO()):  # viser prints a box with the address
            super().__init__(host=host, port=free_port(host, port), label="bitr", verbose=False)
        self.gui.configure_theme(show_logo=False, show_share_button=False, control_width="medium")
        self.gui.main_panel.dock_right()

    def request_share_url(self, verbose: bool = True) -> str | None:
        """Refused: a tunnel to a public address is nothing that a page may ask for."""
        return None

    def stop(self) -> None:
        with redirect_stdout(io.StringIO()):  # viser says that it has stopped
            super().stop()


def free_port(host: str, port: int) -> int:
    """The first port from ``port`` on that nobody uses, any for 0; a host that is none of ours raises."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for candidate in range(port, min(port + PORTS, 65536)):
        try:
            with socket.create_server((host, candidate), family=family) as taken:
                return int(taken.getsockname()[1])
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise InputError(
                    f"--host {host}: cannot be used ({error.strerror}), expected an address of this machine"
                ) from error
    raise InputError(f"--port {port}: no free port from there on; choose another")


def is_local(host: str) -> bool:
    """Whether only this machine can reach a server that is bound to ``host``."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def of_same_origin(origin: str | None, host: str | None, bound_to: str) -> bool:
    """Whether a connection comes from our own page, and not from another page in the same browser.

    A page from elsewhere may connect to a local server, and its browser then names that page as the origin.
    For a server of this machine alone, the name of the host must be one of this machine too: a name from
    outside can be made to point here.
    """
    name = urlsplit(f"//{host}").hostname
    if is_local(bound_to) and not (name is not None and is_local(name)):
        return False
    return origin is None or urlsplit(origin).netloc == host


async def refuse_strangers(server: Server, client: viser.ClientHandle, bound_to: str) -> bool:
    """Close a connection that another site opened; nothing was shown to it."""
    connection = server._websock_server._live_connections.get(client.client_id)
    if connection is None or connection.request is None:
        return True
    headers = connection.request.headers
    if of_same_origin(headers.get("Origin"), headers.get("Host"), bound_to):
        return False
    log.warning("refused a connection from %s", headers.get("Origin"))
    await connection.close(1008, "another origin")
    return True


def limit_uploads(client: viser.ClientHandle, say: Callable[[str], None]) -> None:
    """Drop an upload of more than ``MOST_BYTES`` as soon as it says so, or as soon as it turns out to be.

    viser collects the parts of a file in memory before it hands it over, however many they are. So that there
    is a bound to it, each button has one upload at a time.
    """
    uploads = client.gui._current_file_upload_states
    connection = client._websock_connection
    newest: dict[str, str] = {}
    """The transfer of each button; one that comes on top of it takes its place."""

    def started(_: int, message: messages.FileTransferStartUpload) -> None:
        button, transfer = message.source_component_uuid, message.transfer_uuid
        if message.size_bytes > MOST_BYTES:
            refuse(transfer, button, message.filename, message.size_bytes)
        elif transfer in uploads:  # for viser, only where the button is one of the page
            if newest.get(button) != transfer:
                uploads.pop(newest.get(button, ""), None)
            newest[button] = transfer

    def arrived(_: int, message: messages.FileTransferPart) -> None:
        upload = uploads.get(message.transfer_uuid)
        if upload is not None and upload["transferred_bytes"] > MOST_BYTES:
            size = max(upload["total_bytes"], upload["transferred_bytes"])
            refuse(message.transfer_uuid, message.source_component_uuid, upload["filename"], size)

    def refuse(transfer: str, button: str | None, name: str, size: int) -> None:
        uploads.pop(transfer, None)
        say(str(too_large(name, size)))
        # the browser waits until all has arrived: tell it so, or its button would stay grey
        connection.queue_message(
            messages.FileTransferPartAck(
                source_component_uuid=button, transfer_uuid=transfer, transferred_bytes=size, total_bytes=size
            )
        )

    connection.register_handler(messages.FileTransferStartUpload, started)
    connection.register_handler(messages.FileTransferPart, arrived)
