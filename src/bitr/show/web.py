"""Pages that need nothing but a browser: the templates of this package, filled with escaped text."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup


def render_page(
    template: str, values: Mapping[str, Any], styles: Sequence[str], scripts: Sequence[str] = ()
) -> str:
    """Fill a template; styles and scripts are put into the page, so that it loads nothing.

    Its Content-Security-Policy names the hashes of its style and its script: a browser runs no other script
    and applies no other style. Bytes of a file name that are no text show as "?".
    """
    style, script = (Markup("".join(map(_read, names))) for names in (styles, scripts))
    hashes = {"style_hash": _hash(style), "script_hash": _hash(script)}
    page = environment().get_template(template).render(**values, style=style, script=script, **hashes)
    return page.encode("utf-8", "replace").decode()


def render_part(template: str, macro: str, **values: Any) -> str:
    """Fill one macro of a template: a piece of HTML for a page that something else serves."""
    return str(getattr(environment().get_template(template).module, macro)(**values))


@cache
def environment() -> Environment:
    """Templates in which text is escaped, JSON cannot end its script element, and no value is missing."""
    found = Environment(
        loader=PackageLoader("bitr.show"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    return found


def _read(name: str) -> str:
    return (resources.files("bitr.show") / "templates" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """The name of an inline script or style in a Content-Security-Policy."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
