"""Methods to compare with, on the same pairs and in the same table."""

from __future__ import annotations

import difflib
from collections.abc import Callable

from bitr.errors import InputError
from bitr.evaluation.baselines.bound import bound
from bitr.evaluation.baselines.features import fgr, fpfh_ransac
from bitr.evaluation.baselines.gicp import gicp
from bitr.evaluation.baselines.icp import icp
from bitr.evaluation.baselines.identity import centroids, identity
from bitr.evaluation.baselines.kiss import kiss_matcher
from bitr.evaluation.method import Method

__all__ = ["baseline", "baselines"]


def baselines() -> dict[str, Callable[[], Method]]:
    """What makes each baseline, by its short name. Only "bound" looks at the answer."""
    return {
        "identity": identity,
        "centroids": centroids,
        "bound": bound,
        "icp": icp,
        "gicp": gicp,
        "fpfh-ransac": fpfh_ransac,
        "fgr": fgr,
        "kiss-matcher": kiss_matcher,
    }


def baseline(name: str) -> Method:
    """The baseline of that short name."""
    known = baselines()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise InputError(f"{name}: no such baseline, expected one of {', '.join(known)}{hint}")
    return known[name]()
