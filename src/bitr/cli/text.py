"""Text for people: whatever a file is called, a message stays one line."""

from __future__ import annotations


def one_line(text: str) -> str:
    """The text with everything unprintable escaped: line breaks, control codes, bytes that are no UTF-8."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
