"""The header of a ply file: elements, each with a count and properties."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from bitr.io.source import Source

TYPES = {
    "char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4",
    "float": "f4", "double": "f8", "int8": "i1", "uint8": "u1", "int16": "i2", "uint16": "u2",
    "int32": "i4", "uint32": "u4", "int64": "i8", "uint64": "u8", "float32": "f4", "float64": "f8",
}  # fmt: skip
INTEGERS = {name for name, kind in TYPES.items() if kind[0] in "iu"}
ORDERS = {"ascii": "", "binary_little_endian": "<", "binary_big_endian": ">"}
INDICES = ("vertex_indices", "vertex_index")
"""What the list of a face's corners is called."""
END = re.compile(rb"[\r\n]end_header[ \t]*(\r\n|\n|\r)")


@dataclass(frozen=True)
class Property:
    name: str
    kind: str
    """Of the value or, for a list, of its items: a numpy type without byte order."""
    length: str | None = None
    """Of the number in front of a list; None where the property is a single value."""


@dataclass(frozen=True)
class Element:
    name: str
    count: int
    properties: tuple[Property, ...]

    @property
    def names(self) -> list[str]:
        return [p.name for p in self.properties]


@dataclass(frozen=True)
class Header:
    order: str
    elements: tuple[Element, ...]
    size: int
    """Bytes up to the body."""
    lines: int


def parse_header(source: Source) -> Header:
    """What the file claims to hold; nothing is compared with its size yet."""
    end = END.search(source.data, 0, 1 << 20)
    if end is None:
        raise source.error("the ply header has no 'end_header': the file is truncated or damaged")
    lines = [line.decode("latin-1") for line in source.data[: end.start()].splitlines()]
    order: str | None = None
    elements: list[Element] = []
    for number, line in enumerate(lines, 1):
        match line.split():
            case ["format", kind, *_] if kind in ORDERS:
                order = ORDERS[kind]
            case ["element", name, count] if count.isdecimal():
                elements.append(Element(name, int(count[:18]), ()))
            case ["property", "list", length, kind, name] if (
                elements and length in INTEGERS and kind in TYPES
            ):
                elements[-1] = _more(elements[-1], Property(name, TYPES[kind], TYPES[length]))
            case ["property", kind, name] if elements and kind in TYPES:
                elements[-1] = _more(elements[-1], Property(name, TYPES[kind]))
            case ["ply" | "comment" | "obj_info", *_] | []:
                continue
            case _:
                raise source.error(
                    f"line {number}: found {line[:40]!r} in the ply header, expected a property"
                )
    if order is None:
        raise source.error(f"the ply header has no line 'format' with one of {', '.join(ORDERS)}")
    return Header(order, tuple(elements), end.end(), len(lines) + 1)


def _more(element: Element, extra: Property) -> Element:
    return replace(element, properties=(*element.properties, extra))
