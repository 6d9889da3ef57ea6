"""The work of ``bitr calibrate``: from names to a calibration inside a checkpoint, or to figures of one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from bitr.app.calibrate import Answers, Check, answers_of, calibrate, check, pairs_of
from bitr.app.calibration import Calibration, Origin
from bitr.assembly.network import Network
from bitr.cli.console import Counter
from bitr.errors import InputError
from bitr.evaluation.figures import reliability_diagram
from bitr.model.checkpoint import find
from bitr.refine import REFINEMENTS


@dataclass(frozen=True, eq=False)
class Report:
    """Figures for each refinement, and what they are of."""

    model: str
    origin: Origin
    checks: Mapping[str, Check]
    written: Path | None

    def to_json(self) -> str:
        found = {name: each.to_dict() for name, each in self.checks.items()}
        return json.dumps({"model": self.model, **asdict(self.origin), "refine": found}, allow_nan=False)

    def to_text(self) -> str:
        """A table in Markdown."""
        how = "" if self.written is None else ", each by a fit that did not see it"
        lines = [
            f"{self.model} on {self.origin.pairs} pairs of {self.origin.data}, {self.origin.split}{how}",
            "",
            "| refine | share right | mean confidence | calibration error (10 bins) | AUROC |",
            "| --- | --- | --- | --- | --- |",
        ]
        for name, each in self.checks.items():
            found = each.to_dict()
            auroc = "-" if found["auroc"] is None else f"{found['auroc']:.3f}"
            lines.append(
                f"| {name} | {found['share_right']:.3f} | {found['mean_confidence']:.3f} | "
                f"{found['expected_calibration_error']:.3f} | {auroc} |"
            )
        return "\n".join(lines)


@dataclass(frozen=True)
class Job:
    """A model, and the pairs it is to be calibrated or checked on."""

    model: str
    asked: Origin
    refine: tuple[str, ...]
    root: Path | None

    def fitted(self, output: Path | None, on_pair: Counter) -> Report:
        """Fits, and writes the checkpoint with the calibration inside."""
        target = output or find(self.model)
        if output is None and not Path(self.model).exists():
            raise InputError(
                f"{self.model}: these weights come with bitr; name a file for a copy with --output"
            )
        network = Network.of(self.model)
        answers, origin = self._answers(network, on_pair)
        calibration, checks = calibrate(origin, answers)
        known = network.calibration
        if known is not None and known.origin == origin:  # maps of other refinements stay
            calibration = replace(calibration, maps={**known.maps, **calibration.maps})
        calibration.into(self.model, target)
        return Report(self.model, origin, checks, target)

    def checked(self, on_pair: Counter) -> Report:
        """Fits nothing; pairs that the calibration was fitted on are refused."""
        network = Network.of(self.model)
        known = network.calibration
        if known is None:
            raise InputError(f"{self.model}: has no calibration; fit one with bitr calibrate, without --test")
        if (known.origin.data, known.origin.split) == (self.asked.data, self.asked.split):
            raise InputError(
                f"{self.model}: was calibrated on the {self.asked.split} split of {self.asked.data}"
            )
        answers, origin = self._answers(network, on_pair, known)
        return Report(self.model, origin, check(known, answers), None)

    def _answers(
        self, network: Network, on_pair: Counter, known: Calibration | None = None
    ) -> tuple[dict[str, Answers], Origin]:
        possible = tuple(REFINEMENTS if known is None else known.maps)
        for name in self.refine:
            if name not in possible:
                raise InputError(f"--refine {name}: expected one of {', '.join(possible)}")
        samplings = pairs_of(self.asked, self.root)
        origin = replace(self.asked, pairs=sum(map(len, samplings)))
        return answers_of(network, samplings, self.refine or possible, on_pair), origin


def draw(path: Path, report: Report, *, force: bool) -> None:
    found = {f"refine {name}": each.reliability for name, each in report.checks.items()}
    reliability_diagram(path, found, force=force)
