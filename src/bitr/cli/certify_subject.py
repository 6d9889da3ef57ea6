"""What the argument of ``bitr certify`` leads to: a model, or any function."""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from bitr.errors import InputError
from bitr.model.checkpoint import load
from bitr.testing import untrained_model

NAMED = re.compile(r"[\w.]+:[\w.]+")
UNTRAINED = ("default", "paper")


def is_checkpoint(name: str) -> bool:
    """Whether a name is one that ``load`` understands: a file or folder, or anything without a colon."""
    return Path(name).exists() or not NAMED.fullmatch(name)


def find_subject(name: str, seed: int) -> Any:
    """A model by name or path, an untrained one, or whatever ``module:name`` leads to."""
    if is_checkpoint(name):
        return load(name)
    module, attribute = name.split(":")
    if module != "untrained":
        return _imported(name, module, attribute)
    if attribute not in UNTRAINED:
        raise InputError(f"{name}: no such construction, expected untrained:default or untrained:paper")
    return untrained_model(attribute, seed, torch.float32)


def _imported(name: str, module: str, attribute: str) -> Any:
    if os.getcwd() not in sys.path:  # ``python -m`` has it there, the installed command does not
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except Exception as error:  # somebody's module may fail in any way
        raise InputError(f"{name}: cannot be imported ({type(error).__name__}: {error})") from error
    if not callable(found):
        raise InputError(f"{name}: is {type(found).__name__}, expected a function of source and reference")
    return found


def guarded(method: Callable[..., Any], name: str) -> Callable[[Any, Any], Any]:
    """What goes wrong inside somebody's function is told in one line."""

    def solve(source: Any, reference: Any) -> Any:
        try:
            return method(source, reference)
        except Exception as error:
            raise InputError(f"{name}: raised {type(error).__name__}: {error}") from error

    return solve
