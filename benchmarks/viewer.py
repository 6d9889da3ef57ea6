"""Answers of the model a second that follow a drag, on pieces of a thousand points.

From the root of the repository: python -m benchmarks.viewer [--browser]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from bitr.assembly.network import Network
from bitr.cli.demo import REFERENCE, SOURCE
from bitr.data.transforms import take
from bitr.io import Geometry, farthest_points, read
from bitr.show.viewer.page import Worker
from bitr.show.viewer.scene import lay_out
from bitr.show.viewer.session import Answer, Piece, Place, Problem, Session, Solver

POINTS, RATE = 1000, 60
"""Points of a cloud; and motions a second, as many as a screen shows."""


def path(start: Session, seconds: float) -> Place:
    """Place of the source after so many seconds: going round and turning."""
    c, s = np.cos(seconds), np.sin(seconds)
    turn = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
    return Place(turn, start.places[0].middle + 0.3 * np.array([c, s, 0.0]))


def drag(start: Session, move: Callable[[Place], None], seconds: float) -> None:
    """Move the source ``RATE`` times a second, whatever comes of it."""
    began = time.perf_counter()
    for tick in range(int(seconds * RATE)):
        move(path(start, tick / RATE))
        time.sleep(max(0.0, began + (tick + 1) / RATE - time.perf_counter()))


def without_browser(pair: tuple[Geometry, Geometry], seconds: float) -> list[Answer]:
    solver, answers = Solver(Network.of("default")), list[Answer]()
    problem = Problem((Piece(pair[0]), Piece(pair[1])), "model")
    start = lay_out(problem, solver.base(problem).transformation).start(problem)
    worker, first = Worker(), solver.solve(start)

    def follow(place: Place) -> None:
        answers.append(solver.follow(start.move(0, place), first))

    drag(start, lambda place: worker.submit("drag", lambda: follow(place)), seconds)
    worker.close()
    return answers


def in_browser(pair: tuple[Geometry, Geometry], seconds: float) -> list[Answer]:
    """The same on a page in a headless Chromium, whose software rendering takes a core of its own."""
    from tests.show.chromium import chromium, until

    from bitr.show.viewer import Viewer

    answers = list[Answer]()
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile,
        Viewer(Network.of("default"), pair, port=0, method="model") as viewer,
        chromium(Path(profile)) as new_tab,
    ):
        tab = new_tab()
        tab.open(viewer.url)
        until(lambda: tab.text("bitr-answer"), "an answer")
        page = next(iter(viewer.pages.values()))
        until(lambda: page.answer and not page.answer.is_carried, "the answer as the pieces stand")
        follow = page.solver.follow

        def counted(session: Session, last: Answer) -> Answer:
            answers.append(follow(session, last))
            return answers[-1]

        page.solver.follow = counted  # type: ignore[method-assign]
        start = page.session
        assert start is not None

        def move(place: Place) -> None:
            page.move(0, place, held=True)
            assert page.scenery is not None
            page.scenery.hold(page.session or start)

        drag(start, move, seconds)
        return list(answers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--browser", action="store_true", help="on a page in Chromium, not without one")
    parser.add_argument("--seconds", type=float, default=10.0)
    given = parser.parse_args()
    x, y = (take(cloud, farthest_points(cloud.points, POINTS)) for cloud in map(read, (SOURCE, REFERENCE)))
    measure = in_browser if given.browser else without_browser
    answers = measure((x, y), given.seconds)
    took = 1000 * np.array([answer.assembly.seconds for answer in answers])
    print(
        f"{len(answers) / given.seconds:.1f} answers a second over {given.seconds:g} s; an answer takes "
        f"{np.median(took):.0f} ms (median, {took.min():.0f} to {took.max():.0f}); largest law error "
        f"{max(answer.law_error for answer in answers):.0e}; {len(x.points)} and {len(y.points)} points, "
        f"{torch.get_num_threads()} threads"
    )


if __name__ == "__main__":
    main()
