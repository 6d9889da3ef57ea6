"""The error for wrong input, and the check that raises it."""


class InputError(ValueError):
    """Input that has no answer; the message names what was found and what was expected."""


def require(is_right: object, problem: str) -> None:
    """Raise an InputError that tells the problem, unless the condition holds."""
    if not is_right:
        raise InputError(problem)
