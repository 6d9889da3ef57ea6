"""Shared by all tests: reproducible generators, small random clouds and fields."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")  # as the command does, before torch looks

import hypothesis
import torch

from bitr.groups import Field, Rep, components

hypothesis.settings.register_profile("bitr", deadline=None)  # no test depends on timing
hypothesis.settings.load_profile("bitr")
torch.set_num_threads(1)  # pytest runs one worker per core
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored in the background


@pytest.fixture
def rng() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.fixture
def real_data() -> Path:
    """The folder of real data; tests that want it do without when it is not there."""
    folder = os.environ.get("BITR_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("BITR_DATA names no folder of real data")
    return Path(folder)


def random_field(rep: Rep, n: int, rng: torch.Generator) -> Field:
    return {d: torch.randn(n, components(d), c, generator=rng, dtype=torch.float64) for d, c in rep.items()}


def random_points(n: int, d: int, rng: torch.Generator, b: int = 1) -> torch.Tensor:
    return torch.randn(b, n, d, generator=rng, dtype=torch.float64)


def assert_same_field(actual: Field, expected: Field, tol: float = 1e-10) -> None:
    assert actual.keys() == expected.keys()
    for degree in expected:
        torch.testing.assert_close(actual[degree], expected[degree], rtol=tol, atol=tol)
