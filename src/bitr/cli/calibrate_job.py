"""The work of ``bitr calibrate``: from names to a verifier inside a checkpoint, or to figures of one."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from bitr.assembly.network import Network, with_verifier
from bitr.cli.console import Counter
from bitr.errors import InputError
from bitr.evaluation.calibrate import Check, Origin, Rows, calibrate, check, collect, joints_of, pairs_of
from bitr.evaluation.charts import reliability_diagram
from bitr.hypotheses import with_symmetry
from bitr.model.checkpoint import find


@dataclass(frozen=True, eq=False)
class Report:
    """What a confidence is worth, and on which pairs that was measured."""

    model: str
    origin: Origin
    check: Check
    joints: tuple[str, ...]
    written: Path | None

    def to_json(self) -> str:
        told = {"model": self.model, **asdict(self.origin), "joints": list(self.joints)}
        return json.dumps(told | self.check.to_dict(), allow_nan=False)

    def to_text(self) -> str:
        """A table in Markdown."""
        how = "" if self.written is None else ", each by a fit that did not see it"
        found = self.check.to_dict()
        auroc = "-" if found["auroc"] is None else f"{found['auroc']:.3f}"
        wrong = "-" if found["wrong_above_0.9"] is None else f"{found['wrong_above_0.9']:.1%}"
        return "\n".join(
            [
                f"{self.model} on {self.origin.pairs} pairs of {self.origin.data}, {self.origin.split}{how}",
                "",
                "| share right | right candidate found | mean confidence | calibration error (10 bins) "
                "| AUROC | wrong above 0.9 | joints |",
                "| --- | --- | --- | --- | --- | --- | --- |",
                f"| {found['share_right']:.3f} | {found['share_possible']:.3f} | "
                f"{found['mean_confidence']:.3f} | {found['expected_calibration_error']:.3f} | {auroc} | "
                f"{wrong} | {', '.join(self.joints)} |",
            ]
        )


@dataclass(frozen=True)
class Job:
    """A model, and the pairs its verifier is fitted or checked on."""

    model: str
    asked: Origin
    root: Path | None

    def fitted(self, output: Path | None, on_pair: Counter) -> Report:
        """Fits, and writes the checkpoint with the verifier inside."""
        target = output or find(self.model)
        if output is None and not Path(self.model).exists():
            raise InputError(
                f"{self.model}: these weights come with bitr; name a file for a copy with --output"
            )
        network = Network.of(self.model)
        rows, origin = self._rows(network, on_pair)
        verifier, found = calibrate(origin, rows)
        joints = tuple(name for name in joints_of(verifier, rows) if name in network.joints)
        with_verifier(self.model, target, verifier, joints)
        return Report(self.model, origin, found, joints, target)

    def checked(self, on_pair: Counter) -> Report:
        """Fits nothing; pairs that the verifier was fitted on are refused."""
        network = Network.of(self.model)
        known = network.verifier.origin
        if (known.get("data"), known.get("split")) == (self.asked.data, self.asked.split):
            raise InputError(
                f"{self.model}: was calibrated on the {self.asked.split} split of {self.asked.data}"
            )
        rows, origin = self._rows(network, on_pair)
        return Report(self.model, origin, check(network.verifier, rows), network.joints, None)

    def _rows(self, network: Network, on_pair: Counter) -> tuple[list[Rows], Origin]:
        samplings = pairs_of(self.asked, self.root)
        origin = replace(self.asked, pairs=sum(map(len, samplings)))
        return collect(network, samplings, on_pair, with_symmetry), origin


def draw(path: Path, report: Report, *, force: bool) -> None:
    reliability_diagram({report.model: report.check.reliability}).write(path, force=force)
