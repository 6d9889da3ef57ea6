"""Who may connect, where the server listens, and what it refuses."""

import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from dataclasses import asdict

import msgspec
import numpy as np
import pytest
import viser
import zstandard
from viser import _messages as messages
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from bitr.assembly.network import Network
from bitr.assembly.puzzle import Puzzle
from bitr.cli import main
from bitr.cli.demo import REFERENCE, SOURCE
from bitr.errors import InputError
from bitr.io import Geometry, write
from bitr.show.viewer import PuzzleViewer, Viewer
from bitr.show.viewer import server as server_module
from bitr.show.viewer.server import Server, free_port, is_local, is_same_origin
from tests.show.cases import demo_pair
from tests.show.chromium import until

pytestmark = pytest.mark.filterwarnings(
    "ignore:Queued:UserWarning"
)  # tabs close while answers are on the way

CAMERA = messages.ViewerCameraMessage(
    (1.0, 0.0, 0.0, 0.0), (0.0, 0.0, 3.0), 0.7, 0.01, 100.0, 600, 800, (0.0, 0.0, 0.0), (0.0, 1.0, 0.0)
)


@pytest.fixture(scope="module")
def viewer():
    with Viewer(Network.of("default"), demo_pair(), port=0, points=100, method="model") as viewer:
        yield viewer


def visit(viewer, **headers):
    """A connection that says that it is a page, as viser's script does."""
    address = viewer.url.replace("http", "ws")
    line = connect(address, subprotocols=[f"viser-v{viser.__version__}"], max_size=None, **headers)
    line.send(msgspec.msgpack.encode({"type": "ViewerCameraMessage", **asdict(CAMERA)}))
    return line


def received(line):
    """The messages of the server, unpacked, until it closes the connection."""
    try:
        while True:
            message = line.recv(timeout=60)
            size = int.from_bytes(message[8:16], "little")
            yield zstandard.ZstdDecompressor().decompress(message[16 : 16 + size])
    except ConnectionClosed:
        return


def test_what_is_received_can_be_read(viewer):
    """Or the absence of a cloud in what a stranger receives would say nothing."""
    with visit(viewer, origin=viewer.url) as line:
        assert any(b"piece0" in message for message in received(line))


def test_only_this_machine_can_reach_it(viewer):
    assert viewer.server.get_host() == "127.0.0.1"
    assert viewer.url.startswith("http://127.0.0.1:")


def test_our_own_page_is_served(viewer):
    before = set(viewer.pages)
    with visit(viewer, origin=viewer.url):
        (number,) = until(lambda: set(viewer.pages) - before, "a page")
    until(lambda: number not in viewer.pages, "the end of the page")


@pytest.mark.parametrize("origin", ["http://evil.example", "http://127.0.0.1:1", "null"])
def test_a_page_of_another_site_is_shown_nothing(viewer, origin):
    before = set(viewer.pages)
    with visit(viewer, origin=origin) as line:
        assert not any(b"piece0" in message or b"bitr-" in message for message in received(line))
        assert line.close_code == 1008
    assert set(viewer.pages) <= before


@pytest.mark.parametrize(
    ("origin", "host", "bound_to", "allowed"),
    [
        ("http://127.0.0.1:8080", "127.0.0.1:8080", "127.0.0.1", True),
        ("http://localhost:9000", "localhost:9000", "127.0.0.1", True),  # through a tunnel
        ("http://[::1]:8080", "[::1]:8080", "::1", True),
        (None, "127.0.0.1:8080", "127.0.0.1", True),  # no browser
        ("http://evil.example", "127.0.0.1:8080", "127.0.0.1", False),
        ("http://evil.example:8080", "evil.example:8080", "127.0.0.1", False),  # a name that points here
        ("http://localhost:8080", "127.0.0.1:8080", "127.0.0.1", False),
        (None, None, "127.0.0.1", False),
        ("http://desk.lan:8080", "desk.lan:8080", "0.0.0.0", True),
        ("http://evil.example", "desk.lan:8080", "0.0.0.0", False),
    ],
)
def test_same_origin(origin, host, bound_to, allowed):
    assert is_same_origin(origin, host, bound_to) is allowed


@pytest.mark.parametrize(
    "message",
    [
        b"\xc1 nothing that is packed",
        "text",
        msgspec.msgpack.encode([1, 2]),
        msgspec.msgpack.encode({"type": "NoSuchMessage"}),
        msgspec.msgpack.encode({"type": "ViewerCameraMessage", "wxyz": 3}),
    ],
)
def test_a_message_that_cannot_be_read_is_one_line_and_others_go_on(viewer, message, capsys):
    with visit(viewer, origin=viewer.url) as line:
        line.send(message)
        list(received(line))  # until the connection is closed
    said = capsys.readouterr().err.splitlines()
    assert [text.partition(" (")[0] for text in said] == [
        "bitr: closed a connection that sent what cannot be read"
    ]
    with visit(viewer, origin=viewer.url) as line:
        assert any(b"piece0" in message for message in received(line))


def test_a_port_in_use_gives_the_next_free_one():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert free_port("127.0.0.1", port) > port


def test_a_host_that_is_not_ours_is_bad_input_and_not_a_wait_for_ever():
    with pytest.raises(InputError, match=r"--host 192.0.2.1: cannot be used"):
        free_port("192.0.2.1", 8080)
    with pytest.raises(InputError, match=r"--host no such host: cannot be used"):
        free_port("no such host", 8080)


@pytest.mark.parametrize(
    ("host", "local"),
    [("127.0.0.1", True), ("localhost", True), ("::1", True), ("0.0.0.0", False), ("192.168.1.2", False)],
)
def test_which_addresses_are_of_this_machine_alone(host, local):
    assert is_local(host) is local


def test_a_page_cannot_ask_for_a_public_address(viewer, monkeypatch):
    """viser would open a tunnel for any page that sends this message."""
    opened, asked = [], []
    monkeypatch.setattr(viser._viser, "ViserTunnel", lambda *_: opened.append(1))
    refuse = Server.request_share_url
    monkeypatch.setattr(Server, "request_share_url", lambda self: asked.append(refuse(self)))
    with visit(viewer, origin=viewer.url) as line:
        line.send(msgspec.msgpack.encode({"type": "ShareUrlRequest"}))
        until(lambda: asked, "the request")
    assert asked == [None]
    assert opened == []


def sent(line, kind, **fields):
    line.send(msgspec.msgpack.encode({"type": kind, **fields}))


def start(line, button, transfer, size, name="x.ply"):
    more = {"filename": name, "mime_type": "", "part_count": 4, "size_bytes": size}
    sent(line, "FileTransferStartUpload", source_component_uuid=button, transfer_uuid=transfer, **more)


def part(line, button, transfer, number, size):
    more = {"part_index": number, "content": b"x" * size}
    sent(line, "FileTransferPart", source_component_uuid=button, transfer_uuid=transfer, **more)


@pytest.fixture
def uploading(viewer, monkeypatch):
    """A page that takes 1000 bytes, its connection, its upload buttons, and what is on the way."""
    monkeypatch.setattr(server_module, "MOST_BYTES", 1000)
    before = set(viewer.pages)
    with visit(viewer, origin=viewer.url) as line:
        (number,) = until(lambda: set(viewer.pages) - before, "a page")
        page = viewer.pages[number]
        handles = page.client.gui._gui_input_handle_from_uuid
        buttons = [key for key, handle in handles.items() if isinstance(handle, viser.GuiUploadButtonHandle)]
        yield page, line, buttons, page.client.gui._current_file_upload_states


def test_two_uploads_at_once_have_their_limit_each(uploading):
    page, line, buttons, uploads = uploading
    for button, transfer in zip(buttons, "ab", strict=True):
        start(line, button, transfer, 1000)
    for number in range(3):
        for button, transfer in zip(buttons, "ab", strict=True):
            part(line, button, transfer, number, 250)
    until(lambda: sum(each["transferred_bytes"] for each in uploads.values()) == 1500, "the parts")
    assert "expected at most" not in page.panel._message.content


def test_an_upload_that_is_more_than_it_said_is_dropped_and_not_the_other(uploading):
    page, line, buttons, uploads = uploading
    for button, transfer in zip(buttons, "ab", strict=True):
        start(line, button, transfer, 900)
        part(line, button, transfer, 0, 800)
    part(line, buttons[0], "a", 1, 800)
    until(lambda: list(uploads) == ["b"], "the end of one")
    assert "expected at most" in page.panel._message.content


def test_a_button_has_one_upload_at_a_time(uploading):
    _, line, buttons, uploads = uploading
    for transfer in "abc":
        start(line, buttons[0], transfer, 900)
        part(line, buttons[0], transfer, 0, 100)
    start(line, "no button", "d", 900)
    start(line, buttons[1], "e", 900)
    until(lambda: "e" in uploads, "the last")
    assert set(uploads) == {"c", "e"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["a.ply"], "got 1 file, expected SRC and REF"),
        (["a.ply", "b.ply", "c.ply"], "a.ply: no such file"),
        (["a.ply", "b.ply", "c.ply", "--method", "seam"], "--method is for two pieces"),
        (["a.ply", "b.ply", "c.ply", "--host", "192.0.2.1"], "--host 192.0.2.1: cannot be used"),
        (["nothing.ply", "nothing.ply"], "nothing.ply: no such file"),
        ([str(SOURCE), str(REFERENCE), "--results", "x"], "got files and --results"),
        (["--data-root", "x"], "--data-root goes with --results"),
        (["--results", "nowhere"], "no such file, expected a folder that bitr evaluate -o has written"),
        (["--points", "2"], "points = 2"),
        (["--method", "magic"], "method = 'magic': expected one of auto"),
        (["--host", "192.0.2.1"], "--host 192.0.2.1: cannot be used"),
        (["--model", "nothing"], "nothing"),
    ],
)
def test_bad_usage_is_told_in_one_line(given, message, capsys):
    assert main(["view", *given]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def fetch(url, **headers):
    request = urllib.request.Request(url, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""


def test_the_page_of_a_puzzle_is_served_at_one_address_to_its_own_name():
    with PuzzleViewer("<html>puzzle</html>", port=0) as puzzle:
        assert fetch(puzzle.url) == (200, "<html>puzzle</html>")
        assert fetch(f"{puzzle.url}/etc/passwd")[0] == 404
        assert fetch(puzzle.url, Host="example.org")[0] == 403
        assert fetch(puzzle.url, Origin="http://example.org")[0] == 403


@pytest.mark.slow
def test_three_files_are_put_together_and_served(monkeypatch, capsys, tmp_path):
    files, seen = [tmp_path / f"{k}.ply" for k in range(3)], []
    rng = np.random.default_rng(0)
    for path in files:
        write(path, Geometry(rng.normal(size=(200, 3)) * [1.0, 2.0, 3.0]))

    def look(puzzle):
        seen.append(fetch(puzzle.url)[1])
        raise KeyboardInterrupt

    def solve(pieces, workshop):
        names = tuple(piece.name for piece in pieces)
        poses = np.tile(np.eye(4), (3, 1, 1))
        return Puzzle(names, poses, (), (0, 1, 2), (0.1,) * 3, (), (), 1.0, "default", ())

    monkeypatch.setattr("bitr.assembly.puzzle.solve_puzzle", solve)
    monkeypatch.setattr(PuzzleViewer, "wait", look)
    assert main(["view", *map(str, files), "--port", "0"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("open http://127.0.0.1:")
    assert out.endswith("stopped\n")
    assert all(path.name in seen[0] for path in files)
    assert 'class="graph"' in seen[0]


def test_without_viser_the_extra_is_named(monkeypatch, capsys):
    monkeypatch.setattr("bitr.cli.options.find_spec", lambda name: None)
    assert main(["view"]) == 2
    assert 'pip install -e ".[viz]"' in capsys.readouterr().err


def serve(*given):
    command = [sys.executable, "-m", "bitr", "view", *given]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, **pipes, env=os.environ | {"PYTHONWARNINGS": "error"})


def ended(process):
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=60)
    assert process.returncode == 0
    return out, error


@pytest.mark.slow
def test_it_serves_on_the_next_free_port_until_ctrl_c():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = serve("--port", str(port))
        line = process.stdout.readline()
        url = line.split()[1]
        assert url.startswith("http://127.0.0.1:")
        assert int(url.rpartition(":")[2]) > port
        with urllib.request.urlopen(url) as answer:
            assert b"<html" in answer.read()
        assert ended(process) == ("stopped\n", "")


@pytest.mark.slow
def test_another_host_comes_with_a_warning():
    process = serve("--host", "0.0.0.0", "--port", "0")
    assert process.stdout.readline().startswith("open http://0.0.0.0:")
    _, error = ended(process)
    assert error == (
        "bitr: warning: whoever can reach 0.0.0.0 can see these pieces and keep this machine busy\n"
    )
