"""One browser tab: its session, what it shows, and the worker that answers it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import replace

import viser

from bitr.app.network import Network
from bitr.errors import InputError
from bitr.io import Geometry
from bitr.viewer.camera import Camera
from bitr.viewer.changes import Changes
from bitr.viewer.files import assembled_ply, pose_json, pose_text, read_upload
from bitr.viewer.gallery import Entry, Gallery
from bitr.viewer.layout import Layout, layout
from bitr.viewer.panel import DOWNLOADS, Actions, Panel
from bitr.viewer.piece import Piece
from bitr.viewer.scenery import Scenery, all_points
from bitr.viewer.session import Place, Problem, Session
from bitr.viewer.solver import Answer, Solver
from bitr.viewer.wall import Wall
from bitr.viewer.worker import Worker

log = logging.getLogger("bitr")


class Page:
    """What one person sees and does; pages share the model and the worker, and nothing else."""

    def __init__(
        self,
        client: viser.ClientHandle,
        network: Network,
        worker: Worker,
        budget: int,
        gallery: Gallery | None = None,
    ) -> None:
        self.client, self.worker, self.budget = client, worker, budget
        self.solver, self.camera = Solver(network), Camera(client)
        self.scenery = Scenery(client, self.move)
        self.wall = None if gallery is None else Wall(client, gallery, self.open_entry, self.show_wall)
        self.panel = Panel(client.gui, Actions(self.change, self.reset, self.upload, self.download))
        self.session: Session | None = None
        self.answer: Answer | None = None
        self._layout: Layout | None = None
        self._wanted: tuple[Geometry, Geometry] | None = None
        self._lock, self._closed, self._held = threading.Lock(), False, False

    def open(self, source: Geometry, reference: Geometry) -> None:
        """Show another pair: once there is an answer to it, and only then."""
        wanted = self._wanted = source, reference

        def job() -> None:
            try:
                self._open(self._problem(source, reference))
            finally:
                if self._wanted is wanted:
                    self._wanted = None

        self._submit("open", job)

    def show_wall(self) -> None:
        """The gallery in place of a pair; picture by picture, so that others get their answers in between."""
        self._submit("open", self._show_wall)

    def open_entry(self, entry: Entry) -> None:
        """A pair of the gallery."""
        self._submit("open", lambda: self._open_entry(entry))

    def move(self, index: int, place: Place, held: bool = False) -> None:
        """A piece was put somewhere else; while it is held, answers come sooner."""
        self._held = held
        self.change(lambda session: session.moved(index, place))

    def change(self, update: Callable[[Session], Session]) -> None:
        """Go on with another session, and answer it as soon as what is being answered is done."""
        with self._lock:
            if self.session is None:
                return
            try:
                after = update(self.session)
            except InputError as error:
                self.panel.say(str(error))
                return
            if after is self.session:
                return
            self.session = after
        self._submit("answer", self._answer)

    def reset(self) -> None:
        """Everything as it was when the pair was opened."""
        if self.session is None or self._layout is None:
            return
        x, y = (replace(piece, changes=Changes()) for piece in self.session.problem.pieces)
        first = self._layout.start(Problem((x, y)))
        self.change(lambda _: first)
        self.scenery.hold(first)
        self.panel.set(first)

    def upload(self, side: int, name: str, content: bytes) -> None:
        """Take a file of the browser as source (0) or reference (1), or say what is wrong with it."""
        try:
            geometry = read_upload(name, content)
        except InputError as error:
            self.panel.say(str(error))
            return
        with self._lock:  # of two files that come at once, the second must not put the first aside
            session, wanted = self.session, self._wanted
            if wanted is None and session is not None:
                pieces = [session.problem.pieces[index].file for index in session.order]
                wanted = pieces[0], pieces[1]
            if wanted is not None:
                self.open(*((geometry, wanted[1]) if side == 0 else (wanted[0], geometry)))
                return
        self.panel.say("open a pair first: a file takes the place of one of its pieces")

    def download(self, what: str) -> None:
        """Send a file to the browser."""
        make = dict(zip(DOWNLOADS, (pose_text, pose_json, assembled_ply), strict=True)).get(what)
        if self.answer is not None and make is not None:
            name = what.replace(" ", "")
            self.client.send_file_download(name, make(self.answer), save_immediately=True)

    def close(self) -> None:
        """Forget what still waits; the tab is gone."""
        self._closed = True
        for kind in ("open", "answer"):
            self.worker.drop((id(self), kind))

    def _submit(self, kind: str, job: Callable[[], None]) -> None:
        self.worker.submit((id(self), kind), lambda: self._guarded(job))

    def _guarded(self, job: Callable[[], None]) -> None:
        """Whatever happens to an answer, the page says it and goes on."""
        if self._closed:
            return
        try:
            job()
        except InputError as error:
            self.panel.say(str(error))
        except Exception as error:
            log.exception("unexpected error in the viewer")
            self.panel.say(f"unexpected {type(error).__name__}: {error}")

    def _problem(self, source: Geometry, reference: Geometry) -> Problem:
        return Problem((Piece(source, budget=self.budget), Piece(reference, budget=self.budget)))

    def _open(self, problem: Problem) -> None:
        found = layout(problem, self.solver.base(problem).transformation)
        session = found.start(problem)
        answer = self.solver.solve(session)
        with self._lock:
            self.session, self._layout = session, found
        self.worker.drop((id(self), "answer"))
        if self.wall is not None:
            self.wall.clear()
        self.scenery.set_up(found, answer)
        self.camera.frame(found.framing(all_points(found, answer)), hazy=True)
        self.panel.set(session)
        self._show(answer)

    def _show_wall(self) -> None:
        assert self.wall is not None
        with self._lock:
            self.session = None
        self.worker.drop((id(self), "answer"))
        self.scenery.clear()
        self.wall.clear()
        self.wall.say(None)
        self.camera.frame(self.wall.view, hazy=False)
        self._hang(self.wall, list(enumerate(self.wall.shown())))

    def _hang(self, wall: Wall, rest: list[tuple[int, Entry]]) -> None:
        if rest:
            wall.hang(*rest[0])
            self._submit("open", lambda: self._hang(wall, rest[1:]))

    def _open_entry(self, entry: Entry) -> None:
        assert self.wall is not None
        pair = self.wall.gallery.pair(entry)
        self._open(self._problem(pair.source, pair.reference))
        self.wall.say(entry)

    def _answer(self) -> None:
        session = self.session  # the newest, not the one that asked
        if session is not None:
            last = self.answer if self._held else None
            answer = self.solver.solve(session) if last is None else self.solver.follow(session, last)
            self.scenery.show(answer)
            self._show(answer)

    def _show(self, answer: Answer) -> None:
        self.answer = answer
        self.panel.say("")
        self.panel.show(answer)
