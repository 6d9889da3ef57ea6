"""Pages that need nothing but a browser: templates of ``assets``, filled with text that is escaped."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from html import escape
from importlib import resources
from typing import Any


def page(template: str, values: Mapping[str, str], styles: tuple[str, ...], scripts: tuple[str, ...]) -> str:
    """The template with its values, styles and scripts, all by their names in ``assets``, in one text.

    The template has a Content-Security-Policy that allows ``{{style_hash}}`` and, where it has a script,
    ``{{script_hash}}``: a browser runs no other script, applies no other style and loads nothing.
    """
    style, script = ("".join(asset(name) for name in names) for names in (styles, scripts))
    own = {"style": style, "style_hash": _hash(style), "script": script, "script_hash": _hash(script)}
    return filled(asset(template), {**values, **own})


def filled(template: str, values: Mapping[str, str]) -> str:
    """The template with each ``{{name}}`` replaced, in one pass: what is filled in is not looked at again."""
    return re.sub(r"\{\{(\w+)\}\}", lambda match: values[match[1]], template)


def asset(name: str) -> str:
    return (resources.files("bitr") / "assets" / name).read_text(encoding="utf-8")


def as_text(text: str) -> str:
    """Text from outside, as HTML; a file name may hold bytes that are no text, which show as "?"."""
    return escape(text.encode("utf-8", "replace").decode())


def in_script(values: Mapping[str, Any]) -> str:
    """JSON in which no ``<`` can end the script element early."""
    return json.dumps(values, separators=(",", ":")).replace("<", "\\u003c")


def _hash(text: str) -> str:
    """As a Content-Security-Policy names an inline script or style."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
