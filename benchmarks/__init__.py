"""Studies beside the package: ``python -m benchmarks.speed`` and the like."""

from collections.abc import Callable

import torch


def no_grad(job: Callable[[], object]) -> Callable[[], object]:
    """The job without gradients."""

    def run() -> object:
        with torch.no_grad():
            return job()

    return run
