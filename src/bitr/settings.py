"""Settings as frozen dataclasses: from TOML, changed by ``a.b=value``, written back. Unknown keys raise."""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import date, time
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from bitr.errors import InputError, require

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

T = TypeVar("T")


def from_file(cls: type[T], path: Path, changes: Iterable[str] = ()) -> T:
    """Read settings from TOML, with ``a.b=value`` changes; values that are not stated are the defaults."""
    return from_mapping(cls, apply_changes(read_toml(path), changes), str(path))


def read_toml(path: Path) -> dict[str, Any]:
    """Read the tables of a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}), expected a TOML file") from error
    except ValueError as error:  # of TOML and of UTF-8
        raise InputError(f"{path}: not TOML ({error})") from error


def from_mapping(cls: type[T], values: Mapping[str, Any], where: str, above: str = "") -> T:
    """Make a dataclass from values by name; messages say where they are from, in the table ``above``."""
    known = [field.name for field in fields(cls)]  # type: ignore[arg-type]
    hints = get_type_hints(cls)
    for key in values:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {above}{near[0]}?" if near else f"expected one of {', '.join(known)}"
            raise InputError(f"{where}: unknown setting {above}{key}; {hint}")
    given = {key: _as(hints[key], value, where, f"{above}{key}") for key, value in values.items()}
    try:
        return cls(**given)
    except InputError as error:  # of the class itself, which knows no file
        raise InputError(f"{where}: {error}") from error


def to_mapping(settings: Any) -> dict[str, Any]:
    """Invert ``from_mapping``: tables by name, tuples as lists."""
    return {field.name: _plain(getattr(settings, field.name)) for field in fields(settings)}


def check_rules(settings: Any, **rules: bool) -> None:
    """Raise for the first setting whose rule does not hold."""
    for name, holds in rules.items():
        found = f"{type(settings).__name__}: {name} = {getattr(settings, name)!r}"
        require(holds, f"{found} is out of range")


def apply_changes(values: Mapping[str, Any], changes: Iterable[str]) -> dict[str, Any]:
    """Make each change ``a.b=v``; v is a TOML value, or else plain text."""
    result = dict(values)
    for change in changes:
        path, equals, text = change.partition("=")
        if not equals or not path.strip():
            raise InputError(f"--set {change}: expected a.b=value, as optimizer.rate=1e-3")
        *tables, key = path.strip().split(".")
        inner = result
        for table in tables:
            if not isinstance(inner.get(table, {}), Mapping):
                raise InputError(f"--set {change}: {table} is a value and has no keys")
            inner[table] = dict(inner.get(table, {}))
            inner = inner[table]
        try:
            value = tomllib.loads(f"value = {text.strip()}")["value"]
        except ValueError:
            value = text.strip()
        # no setting is a date, but a folder may be
        inner[key] = text.strip() if isinstance(value, date | time) else value
    return result


def to_toml(settings: Any) -> str:
    """Write all settings as TOML, which ``from_file`` reads back to the same."""
    values = to_mapping(settings)
    tables = {"": {key: value for key, value in values.items() if not isinstance(value, dict)}}
    tables |= {f"[{name}]": table for name, table in values.items() if isinstance(table, dict)}
    parts = [
        "\n".join([*([name] if name else []), *(f"{key} = {_toml(value)}" for key, value in table.items())])
        for name, table in tables.items()
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _as(kind: Any, value: Any, where: str, name: str) -> Any:
    """Convert a value to the type of its field, or raise an error that names both."""
    if is_dataclass(kind) and isinstance(value, Mapping):
        return from_mapping(kind, value, where, f"{name}.")  # type: ignore[arg-type]
    if get_origin(kind) is tuple and isinstance(value, list | tuple):
        inner = get_args(kind)
        each = [inner[0]] * len(value) if len(inner) == 2 and inner[1] is ... else list(inner)
        if len(each) == len(value):
            return tuple(_as(k, v, where, name) for k, v in zip(each, value, strict=True))
    if get_origin(kind) is Literal and value in get_args(kind):
        return value
    if kind is float and type(value) is int:
        return float(value)
    # a name of a file that is no text has no way to be written in TOML
    is_text = not (isinstance(value, str) and any("\ud800" <= letter <= "\udfff" for letter in value))
    if isinstance(kind, type) and type(value) is kind and is_text:
        return value
    raise InputError(f"{where}: found {name} = {value!r}, expected {_describe(kind)}")


def _describe(kind: Any) -> str:
    if is_dataclass(kind):
        return "a table"
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(map(repr, get_args(kind)))
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "text in UTF-8"}
    return names.get(kind, f"a list of {len(get_args(kind))} values")


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return to_mapping(value)
    return [_plain(v) for v in value] if isinstance(value, tuple) else value


def _toml(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(_toml(v) for v in value) + "]"
    if isinstance(value, float):
        return repr(value)
    # text, whole numbers and true look the same in JSON, which leaves one control code as it is
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
