"""The errors that are one line for people, wrong input and a full disk, their checks and their words."""

import difflib
import errno
from collections.abc import Sequence


class InputError(ValueError):
    """Input that has no answer; the message names what was found and what was expected."""


class NoSpaceError(RuntimeError):
    """The disk is full; the message says what is whole, and how to go on."""


def unknown_name(name: str, kind: str, known: Sequence[str]) -> InputError:
    """The error for a name that is none of the ``known`` ones; it tells the nearest of them."""
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return InputError(f"{name}: no such {kind}, expected one of {', '.join(known)}{hint}")


def counted(number: int, thing: str) -> str:
    """A number of things, as "1 file" or "2 files"."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def require(is_right: object, problem: str) -> None:
    """Raise an InputError that tells the problem, unless the condition holds."""
    if not is_right:
        raise InputError(problem)


def is_full(error: Exception) -> bool:
    """True at the end of the disk or the quota; safetensors says so in its message only."""
    codes = (errno.ENOSPC, errno.EDQUOT)
    if isinstance(error, OSError):
        return error.errno in codes
    return any(f"(os error {code})" in str(error) for code in codes)
