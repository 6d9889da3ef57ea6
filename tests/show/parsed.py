"""The elements of a page; for the tests of pages."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

VOID = {"meta", "input", "path", "polyline", "br", "img", "link"}


class Parsed(HTMLParser):
    """The elements of a page, with their attributes and the text directly inside."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[dict] = []
        self.elements: list[dict] = []
        self.feed(page)
        self.close()
        assert self.open == [], "elements that are never closed"

    def handle_starttag(self, tag, attrs):
        element = {"tag": tag, "attrs": dict(attrs), "text": ""}
        self.elements.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag, attrs):
        self.elements.append({"tag": tag, "attrs": dict(attrs), "text": ""})

    def handle_endtag(self, tag):
        assert self.open.pop()["tag"] == tag

    def handle_data(self, data):
        if self.open:
            self.open[-1]["text"] += data

    def all(self, tag: str, **attrs: str) -> list[dict]:
        return [e for e in self.elements if e["tag"] == tag and attrs.items() <= e["attrs"].items()]

    def scene(self) -> dict:
        (element,) = self.all("script", id="scene")
        return json.loads(element["text"])


def assert_loads_nothing(page: str) -> None:
    """No address, no element and no style that a browser would go and fetch; nothing left to fill in."""
    parsed = Parsed(page)
    assert "://" not in page
    assert not {"link", "iframe", "object", "embed", "base"} & {e["tag"] for e in parsed.elements}
    for element in parsed.elements:
        assert not {"href", "srcset", "action", "style"} & element["attrs"].keys()
        assert element["attrs"].get("src", "data:image/svg").startswith("data:image/svg")
        assert not any(name.startswith("on") for name in element["attrs"])
    assert not re.search(r"url\(|@import|fetch\(|XMLHttpRequest|import\(", page)
    assert "{{" not in page


def assert_allows_only_its_own(page: str) -> None:
    """The page's policy names its one style and its one script, and nothing else."""
    parsed = Parsed(page)
    (policy,) = parsed.all("meta", **{"http-equiv": "Content-Security-Policy"})
    directives = dict(part.strip().split(" ", 1) for part in policy["attrs"]["content"].split(";"))
    (style,), script = parsed.all("style"), parsed.all("script")[-1]
    for name, element in (("style-src", style), ("script-src", script)):
        digest = base64.b64encode(hashlib.sha256(element["text"].encode()).digest()).decode()
        assert directives.pop(name) == f"'sha256-{digest}'"
    assert directives == {"default-src": "'none'", "img-src": "data:"}
