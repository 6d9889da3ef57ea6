"""The errors that are one line for people: wrong input, and a full disk."""

import errno


class InputError(ValueError):
    """Input that has no answer; the message names what was found and what was expected."""


class NoSpaceError(RuntimeError):
    """The disk is full; the message says what is whole, and how to go on."""


def is_full(error: Exception) -> bool:
    """True at the end of the disk or the quota; safetensors says so in its message only."""
    codes = (errno.ENOSPC, errno.EDQUOT)
    if isinstance(error, OSError):
        return error.errno in codes
    return any(f"(os error {code})" in str(error) for code in codes)
