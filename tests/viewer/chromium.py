"""Tabs of a headless Chromium, each in a context of its own; for the tests of the viewer."""

from __future__ import annotations

import base64
import io
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from tests.app.browser import WEBGL, Page, browser

SIZE = {"width": 1000, "height": 600, "deviceScaleFactor": 1, "mobile": False}
PATIENCE = 60
"""Seconds; a condition that holds is noticed at once."""


class Tab:
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

    def evaluate(self, script: str) -> Any:
        answer = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

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

    def settle(self) -> None:
        """Wait until what is due has been drawn."""
        frame = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))"
        self.evaluate(frame)

    def screenshot(self) -> bytes:
        return base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"])

    def pixels(self) -> np.ndarray:
        from PIL import Image

        return np.asarray(Image.open(io.BytesIO(self.screenshot())).convert("RGB")).astype(int)

    def events(self, *methods: str) -> list[dict[str, Any]]:
        mine = [event for event in self.root.events if event.get("sessionId") == self.session]
        return [event["params"] for event in mine if event["method"] in methods]

    @property
    def errors(self) -> list[dict[str, Any]]:
        """What a console would show in red: exceptions, refused requests, errors that were logged."""
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
