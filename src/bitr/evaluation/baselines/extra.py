"""Libraries that only some baselines need."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from bitr.errors import InputError


def load(module: str, method: str) -> Any:
    """The module, or one line that says what it is for and how to get it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise InputError(
            f'{method} needs {module}, which cannot be loaded ({error}): pip install "bitr[baselines]"'
        ) from error
