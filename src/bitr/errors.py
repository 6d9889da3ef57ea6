"""The error for wrong input, and the checks that raise it."""

import difflib
from collections.abc import Sequence


class InputError(ValueError):
    """Input that has no answer; the message names what was found and what was expected."""


def unknown_name(name: str, kind: str, known: Sequence[str]) -> InputError:
    """The error for a name that is none of the ``known`` ones; it tells the nearest of them."""
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return InputError(f"{name}: no such {kind}, expected one of {', '.join(known)}{hint}")


def require(is_right: object, problem: str) -> None:
    """Raise an InputError that tells the problem, unless the condition holds."""
    if not is_right:
        raise InputError(problem)
