"""Formulas as MathML, made when the site is built: browsers show it without a script from elsewhere.

Pages write them as GitHub does, $`x^2`$ in a line and a block ```math; docstrings as :math:`x^2`.
"""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

BLOCK = re.compile(r'<div class="formula">(.*?)</div>', re.DOTALL)
INLINE = re.compile(r"(?:\$<code>([^<]*)</code>\$|:math:<code>([^<]*)</code>)")


def on_page_content(content: str, **_: Any) -> str:
    content = BLOCK.sub(lambda found: mathml(found[1], "block"), content)
    return INLINE.sub(lambda found: mathml(found[1] or found[2], "inline"), content)


def mathml(escaped: str, display: str) -> str:
    latex = html.unescape(escaped).strip().replace(r"\top", r"\mathsf{T}")  # ⊤ stands too high in most fonts
    return convert(latex, display=display)
