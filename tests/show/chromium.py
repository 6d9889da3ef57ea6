"""A headless Chromium, spoken to over a pipe; for the tests of pages and of the viewer."""

from __future__ import annotations

import base64
import io
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

EXECUTABLE = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-background-networking",
    "--hide-scrollbars",
    "--disable-dev-shm-usage",
)
PATIENCE = 60
"""Seconds; a condition that holds is noticed at once."""
WEBGL = ("--use-angle=swiftshader", "--enable-unsafe-swiftshader")
NO_WEBGL = ("--disable-3d-apis",)
SIZE = {"width": 1000, "height": 600, "deviceScaleFactor": 1, "mobile": False}


class Commands:
    """Commands to one tab, by its ``send``."""

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        raise NotImplementedError

    def evaluate(self, script: str) -> Any:
        answer = self.send(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True, userGesture=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def settle(self) -> None:
        """Wait until what is due has been drawn."""
        self.evaluate(
            "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))"
        )

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def screenshot(self) -> bytes:
        return base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"])

    def pixels(self) -> np.ndarray:
        """The page as it looks, (height, width, 3), from 0 to 255."""
        from PIL import Image

        return np.asarray(Image.open(io.BytesIO(self.screenshot())).convert("RGB")).astype(int)


class Page(Commands):
    """One tab; ``errors`` are the exceptions and refused requests that it met."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self.to_browser, self.from_browser = to_browser, from_browser
        self.session: str | None = None
        self.buffer, self.count = b"", 0
        self.events: list[dict[str, Any]] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        self.count += 1
        message = {"id": self.count, "method": method, "params": params}
        message |= {"sessionId": self.session} if self.session else {}
        os.write(self.to_browser, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self.count:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.from_browser], [], [], PATIENCE)
            received = os.read(self.from_browser, 1 << 20) if ready else b""
            assert received, "the browser ended" if ready else f"no answer for {PATIENCE} s"
            self.buffer += received
        line, _, self.buffer = self.buffer.partition(b"\0")
        answer = json.loads(line)
        if "method" in answer:
            self.events.append(answer)
        return answer

    def open(self, path: Path, fragment: str = "", *, width: int, height: int, dark: bool = False) -> None:
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.send("Emulation.setDeviceMetricsOverride", **size)
        self.send("Page.navigate", url="about:blank")  # or a change of fragment would not load the page again
        self.events.clear()
        self.send("Page.navigate", url=f"{path.as_uri()}#{fragment}")
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self._receive()
        self.settle()

    @property
    def errors(self) -> list[str]:
        bad = ("Runtime.exceptionThrown", "Network.loadingFailed", "Log.entryAdded")
        return [json.dumps(event) for event in self.events if event["method"] in bad]

    @property
    def requested(self) -> list[str]:
        sent = [event for event in self.events if event["method"] == "Network.requestWillBeSent"]
        return [event["params"]["request"]["url"] for event in sent]


@contextmanager
def browser(profile: Path, *flags: str) -> Iterator[Page]:
    """A page in a browser of its own, which ends with the block."""
    assert EXECUTABLE is not None
    their_in, to_browser = os.pipe()
    from_browser, their_out = os.pipe()

    def take_over() -> None:  # Chromium reads from descriptor 3 and writes to 4
        spare_in, spare_out = os.dup2(their_in, 63), os.dup2(their_out, 64)
        os.dup2(spare_in, 3)
        os.dup2(spare_out, 4)

    command = [EXECUTABLE, *FLAGS, *flags, f"--user-data-dir={profile}", "--remote-debugging-pipe"]
    process = subprocess.Popen(
        command, preexec_fn=take_over, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    os.close(their_in)
    os.close(their_out)
    try:
        yield Page(to_browser, from_browser)
    finally:
        os.close(to_browser)
        os.close(from_browser)
        process.terminate()
        process.wait(timeout=20)


class Tab(Commands):
    """A page in a context of its own: no cookies, no storage and no cache shared with another."""

    def __init__(self, root: Page) -> None:
        self.root = root
        root.session = None
        context = root.send("Target.createBrowserContext")["browserContextId"]
        target = root.send("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        self.session = root.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log", "DOM"):
            self.send(f"{domain}.enable")
        self.send("Emulation.setDeviceMetricsOverride", **SIZE)

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        self.root.session = self.session
        return self.root.send(method, **params)

    def open(self, url: str) -> None:
        self.send("Page.navigate", url=url)

    def drag(self, start: np.ndarray, end: np.ndarray, steps: int = 8) -> None:
        held = {"button": "left", "buttons": 1}
        self.mouse("mouseMoved", *start.tolist())
        self.mouse("mousePressed", *start.tolist(), clickCount=1, **held)
        for step in range(1, steps + 1):
            self.mouse("mouseMoved", *(start + (end - start) * step / steps).tolist(), **held)
        self.mouse("mouseReleased", *end.tolist(), clickCount=1, button="left")

    def click_at(self, x: float, y: float) -> None:
        place = float(x), float(y)
        self.mouse("mouseMoved", *place)
        self.mouse("mousePressed", *place, button="left", buttons=1, clickCount=1)
        self.mouse("mouseReleased", *place, button="left", clickCount=1)

    def click(self, label: str) -> None:
        """The button with this label."""
        found = f"[...document.querySelectorAll('button')].find((b) => b.textContent.trim() === {label!r})"
        self.evaluate(f"{found}.click()")

    def text(self, id: str) -> str:
        return self.evaluate(f"document.getElementById({id!r})?.innerText ?? ''")

    def events(self, *methods: str) -> list[dict[str, Any]]:
        mine = [event for event in self.root.events if event.get("sessionId") == self.session]
        return [event["params"] for event in mine if event["method"] in methods]

    @property
    def errors(self) -> list[dict[str, Any]]:
        """The red lines of a console: exceptions, refused requests, errors that were logged."""
        logged = self.events("Log.entryAdded")
        said = [call for call in self.events("Runtime.consoleAPICalled") if call["type"] == "error"]
        failed = self.events("Runtime.exceptionThrown", "Network.loadingFailed")
        return failed + said + [entry for entry in logged if entry["entry"]["level"] == "error"]

    @property
    def requested(self) -> list[str]:
        sent = [call["request"]["url"] for call in self.events("Network.requestWillBeSent")]
        return sent + [call["url"] for call in self.events("Network.webSocketCreated")]


def until(condition: Callable[[], Any], what: str) -> Any:
    """The first value of the condition that is true."""
    deadline = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < deadline, f"{what}: not within {PATIENCE} s"
        time.sleep(0.02)
    return found


@contextmanager
def chromium(profile: Path) -> Iterator[Callable[[], Tab]]:
    """Makes tabs, as long as the block lasts."""
    with browser(profile, *WEBGL) as root:
        yield lambda: Tab(root)
