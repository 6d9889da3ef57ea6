"""Experiments small enough to test: the smallest of models, a few steps, a few pairs."""

from pathlib import Path
from typing import Any

import pytest
from benchmarks.walk import SMALL

from bitr.evaluation.experiment import Plan, find_experiment
from bitr.evaluation.reproduce import Result, run


def plan(out: Path, **changes: Any) -> Plan:
    """Without real data, unless a root is given."""
    own: dict[str, Any] = {"budget": "full", "samplings": 2, "limit": 2, "baselines": "none"}
    return Plan(**(own | {"out": out, "changes": SMALL} | changes))


def result(name: str, settings: Plan) -> Result:
    """The result of an experiment, without the time that its pictures take."""
    return run(find_experiment(name), settings)


@pytest.fixture
def no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine that has none of the data sets."""
    monkeypatch.delenv("BITR_DATA", raising=False)
