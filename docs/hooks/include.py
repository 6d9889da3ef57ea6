"""Text that stands in one place: a paragraph that is only a link to README.md or the like becomes that text.

``[What it is](../README.md)`` brings the whole file without its title, ``../README.md#the-laws`` the section
below that heading. Where the pages are read as files, the same line is a link to follow.
"""

from __future__ import annotations

import re
from os.path import normpath
from pathlib import Path
from typing import Any

from markdown.extensions.toc import slugify
from mkdocs.exceptions import PluginError

DOCS = Path(__file__).parents[1]
ROOT = DOCS.parent
PAGES = {"README.md": "index.md", "BENCHMARK.md": "benchmark.md"}
"""Which page shows a file that is not in docs/."""
WHOLE_LINE = re.compile(r"^\[[^\]]*\]\(\.\./(?P<file>\w+\.md)(?:#(?P<section>[\w-]+))?\)$", re.MULTILINE)
LINK = re.compile(r"(?P<picture>!?)\[(?P<text>[^\]]*)\]\((?P<path>[^)#\s]+)(?P<rest>#[^)\s]*)?\)")
FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    markdown = WHOLE_LINE.sub(lambda found: as_in_docs(included(found["file"], found["section"])), markdown)
    return LINK.sub(lambda found: link(found, DOCS), markdown)


def included(file: str, section: str | None) -> str:
    """The text below a heading, up to the next one that is not below it; of a whole file, below its title."""
    text = (ROOT / file).read_text(encoding="utf-8")
    fences = [found.span() for found in FENCE.finditer(text)]
    headings = [
        found
        for found in re.finditer(r"^(#+) (.+)$", text, re.MULTILINE)
        if not any(start <= found.start() < end for start, end in fences)
    ]
    if section is None:
        return text[headings[0].end() :]
    for i, heading in enumerate(headings):
        if slugify(heading[2], "-") == section:
            above_or_beside = (h.start() for h in headings[i + 1 :] if len(h[1]) <= max(2, len(heading[1])))
            return text[heading.end() : next(above_or_beside, len(text))]
    raise PluginError(f"{file} has no section {section}; a page of the site includes it")


def as_in_docs(text: str) -> str:
    return LINK.sub(lambda found: link(found, ROOT), text).strip()


def link(found: re.Match[str], folder: Path) -> str:
    """The link as it has to be on a page; what the site does not show keeps its name alone."""
    target = Path(normpath(folder / found["path"]))
    if "://" in found["path"] or not target.is_relative_to(ROOT) or not target.exists():
        return found[0]
    name = target.relative_to(ROOT).as_posix()
    page = PAGES.get(name) or (target.relative_to(DOCS).as_posix() if target.is_relative_to(DOCS) else None)
    if page is None:
        return f"`{name}`"
    text = title(target) if found["text"] == found["path"] else found["text"]
    return f"{found['picture']}[{text}]({page}{found['rest'] or ''})"


def title(page: Path) -> str:
    """Who reads the site knows pages by their titles; who reads the files, by their names."""
    return page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
