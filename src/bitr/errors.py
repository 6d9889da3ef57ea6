"""The one error that says: the input is wrong, and here is what was expected."""


class InputError(ValueError):
    """Input that no answer can be given for: the message names what was found and what is needed."""
