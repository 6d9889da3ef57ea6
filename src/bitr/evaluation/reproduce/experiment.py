"""What an experiment of the paper is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from bitr.evaluation.report import Published
from bitr.evaluation.reproduce.plan import Plan
from bitr.evaluation.reproduce.result import Result


@dataclass(frozen=True)
class Case:
    """One data set of an experiment, by the name that ``bitr.data.dataset`` knows."""

    data: str
    keep: float | None = None
    """The share of each cloud that is kept, where that is what varies."""

    @property
    def title(self) -> str:
        return self.data if self.keep is None else f"{self.data.partition(':')[0]}, keep {self.keep:g}"


@dataclass(frozen=True)
class Experiment:
    """One table or figure of the paper, and how it is made again."""

    name: str
    title: str
    section: str
    run: Callable[[Experiment, Plan], Result]
    data: tuple[str, ...]
    """Names of data sets; the training config has the same name."""
    keeps: tuple[float, ...] = ()
    """Shares of each cloud to keep, each a data set of its own."""
    weights: str | None = None
    """Those that come with bitr under this name are used, and nothing is trained."""
    most: int | None = None
    """Pairs of each sampling, where there are endless ones; --limit goes before it."""
    refinements: tuple[str, ...] = ()
    baselines: tuple[str, ...] = ()
    """Classical ones, by their short names."""
    learned: tuple[str, ...] = ()
    published: Mapping[str, Published] = field(default_factory=dict)
    """The paper's figures by the names of our rows; those that are no rows of ours are shown alone."""
    notes: tuple[str, ...] = ()
    """Said below the table: what the paper's data and figures are."""

    @property
    def cases(self) -> tuple[Case, ...]:
        return tuple(
            Case(name) if keep is None else Case(f"{name}:{keep:g}", keep)
            for name in self.data
            for keep in self.keeps or (None,)
        )
