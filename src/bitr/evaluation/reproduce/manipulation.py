"""Manipulation of Sec. 6.6: does a mug hang, does a bowl stand where the answer puts it? By simulation."""

from __future__ import annotations

import logging
from dataclasses import replace

from bitr.data.sim import success
from bitr.evaluation.evaluate import Evaluation
from bitr.evaluation.method import Method
from bitr.evaluation.report import Repeated
from bitr.evaluation.reproduce.comparison import compare
from bitr.evaluation.reproduce.experiment import Experiment
from bitr.evaluation.reproduce.plan import Plan
from bitr.evaluation.reproduce.result import Result, Table
from bitr.evaluation.reproduce.rows import Entry, measured, samplings

SUCCESS = "success in simulation"
TRUTH = Entry("true pose", Method("true pose", lambda pair: pair.ref_from_src), "looks at the answer")

log = logging.getLogger("bitr")


def manipulation(experiment: Experiment, plan: Plan) -> Result:
    """The usual comparison, with the share of successes beside the errors and the true pose as a bound.

    The errors are against the one pose that was demonstrated, or the nearest turn of a bowl; another one may
    work as well, so the paper reports none.
    """
    result = compare(experiment, plan)
    return replace(result, tables=tuple(_with_success(table, plan) for table in result.tables))


def _with_success(table: Table, plan: Plan) -> Table:
    bound = measured([TRUTH], samplings(table.title, plan), {}, plan)
    return replace(table, rows=tuple(_counted(row, plan) for row in (*table.rows, *bound)))


def _counted(row: Repeated, plan: Plan) -> Repeated:
    if not row.samplings:
        return row
    log.info("simulating the answers of %s", row.name)
    return replace(row, shares={SUCCESS: success_rate(row.pooled, plan)})


def success_rate(evaluation: Evaluation, plan: Plan) -> float:
    """The share of all pairs whose answer works; a pair without an answer does not."""
    poses = [(score.id, score.transformation) for score in evaluation.scores]
    worked = [pose is not None and success(id, pose, plan.root).succeeded for id, pose in poses]
    return sum(worked) / len(worked)
