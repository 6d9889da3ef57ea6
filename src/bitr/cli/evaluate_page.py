"""The page that ``bitr evaluate --html`` writes: which pairs it shows, and what it says of them."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np

from bitr.assembly.network import Network
from bitr.cli.evaluate_job import Job
from bitr.cli.text import one_line
from bitr.data import AssemblyPair
from bitr.errors import InputError
from bitr.evaluation.charts import spread
from bitr.evaluation.method import law_errors_on, law_row
from bitr.evaluation.report import Ranked, Report, ranked
from bitr.files import check_target, whole_file
from bitr.io import as_points
from bitr.show import MOST_SHOWN, Scene
from bitr.show.report import MOST_EXAMPLES, Example, error_rows, render_evaluation

SUFFIXES = (".html", ".htm")
MOST_TRIED = 3
"""Examples whose laws are tried: the best, the one in the middle and the worst."""

log = logging.getLogger("bitr")


def check_page(path: Path | None, folder: Path | None, *, force: bool) -> None:
    """Raise when the page cannot be written, before any work is done for it; ``folder`` will be there."""
    if path is None:
        return
    if path.suffix.lower() not in SUFFIXES:
        found = path.suffix or "file without a suffix"
        raise InputError(f"{path}: --html writes no {found}, expected one of {' '.join(SUFFIXES)}")
    if folder is None or path.parent != folder or folder.exists():
        check_target(path, force=force)


def write_page(path: Path, report: Report, job: Job, checkpoint: str | None, *, force: bool) -> None:
    """Write the page; without a checkpoint it has no law errors."""
    network = None if checkpoint is None else Network.of(checkpoint)
    pairs = ranked(report.rows[0])
    shown = spread(sum(pair.score.errors is not None for pair in pairs), MOST_EXAMPLES)
    tried = {shown[index] for index in spread(len(shown), MOST_TRIED)}
    samplings = {number: job.pairs(number) for number in {pairs[place].sampling for place in shown}}
    examples = {}
    for done, place in enumerate(shown):
        log.info("the page: pair %d of %d", done + 1, len(shown))
        pair = samplings[pairs[place].sampling][pairs[place].number]
        examples[place] = _example(pairs[place], pair, job, network, place in tried)
    title = f"{checkpoint or report.rows[0].name} on {job.dataset}, {job.split}"
    with whole_file(path, force=force) as temporary:
        text = render_evaluation(report, pairs, examples, one_line(title))
        temporary.write_text(text, encoding="utf-8", newline="\n")


def _example(ranked: Ranked, pair: AssemblyPair, job: Job, network: Network | None, tried: bool) -> Example:
    pose = ranked.score.transformation
    assert pose is not None  # only pairs with an answer are shown
    source, reference = (as_points(side, MOST_SHOWN, seed=0).points for side in (pair.source, pair.reference))
    facts = error_rows(ranked)
    if network is not None and tried:
        rng = np.random.default_rng([job.seed, ranked.sampling, ranked.number])
        facts.append(law_row(law_errors_on(job.method(network, ranked.sampling), pair, pose, rng)))
    return Example(Scene(source, reference, pose, title=one_line(ranked.name)), facts)
