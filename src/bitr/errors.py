"""The error for wrong input."""


class InputError(ValueError):
    """Input that has no answer; the message names what was found and what was expected."""
