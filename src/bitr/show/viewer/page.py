"""The page of one browser tab: joins its session with scene and controls, and the worker that answers it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Literal

import viser

from bitr.assembly.network import Network
from bitr.errors import InputError
from bitr.io import Geometry
from bitr.show.picture import empty_thumbnail
from bitr.show.viewer.gallery import Entry, Gallery, Wall
from bitr.show.viewer.panel import DOWNLOADS, Actions, Change, Panel, read_upload
from bitr.show.viewer.scene import Camera, Scenery, lay_out
from bitr.show.viewer.session import Answer, Piece, Place, Problem, Session, Solver

Job = Callable[[], None]
Kind = Literal["open", "hang", "answer"]
"""Kinds of jobs: open a pair or the gallery; hang the gallery's next picture; answer the session."""

log = logging.getLogger("bitr")


class Page:
    """The view and the actions of one person; pages share the model and the worker, and nothing else."""

    def __init__(
        self,
        client: viser.ClientHandle,
        network: Network,
        worker: Worker,
        points: int | None,
        method: str,
        gallery: Gallery | None,
    ) -> None:
        self.client, self.worker, self.points, self.method = client, worker, points, method
        self.solver, self.camera = Solver(network), Camera(client)
        self.scenery = Scenery(client, self.move)
        self.wall: Wall | None = None
        if gallery is not None:
            self.wall = Wall(client, gallery, network.name, self.open_entry, self.show_wall)
        self.panel = Panel(client.gui, Actions(self.change, self.reset, self.upload, self.download))
        self.session: Session | None = None
        self.answer: Answer | None = None
        self._first: Session | None = None
        self._wanted: tuple[Geometry, Geometry] | None = None
        self._lock, self._held, self._closed = threading.Lock(), False, False

    def open(self, source: Geometry, reference: Geometry) -> None:
        """Show another pair, once there is an answer to it."""
        with self._lock:
            self._open_files(source, reference)

    def show_wall(self) -> None:
        """Show the gallery, picture by picture, so that other pages get their answers in between."""
        with self._lock:
            self._open_soon(self._show_wall)

    def open_entry(self, entry: Entry) -> None:
        """Open a pair of the gallery."""
        with self._lock:
            self._open_soon(lambda: self._open_entry(entry))

    def move(self, index: int, place: Place, held: bool = False) -> None:
        """Put a piece somewhere else; while it is held, the answer goes with it."""

        def move(session: Session) -> Session:
            self._held = held
            return session.move(index, place)

        self.change(move)

    def change(self, update: Change) -> None:
        """Go on with another session, and answer it after the answer at hand.

        Another hypothesis and pieces that moved need no new answer and are shown at once. The model alone is
        fast enough to be asked while a piece is held; the last pose of other methods is carried along.
        """
        with self._lock:
            if self.session is None:
                return
            self._held = False  # unless the update says so
            try:
                after = update(self.session)
            except InputError as error:
                self.panel.say(str(error))
                return
            if after is self.session:
                return
            self.session = after
            self.panel.say("")
            last = self.answer
            if last is not None and after.differs_by_motion(last.session):
                rests = after.places == last.session.places
                if rests or after.problem.method != "model":
                    self._show(replace(last, session=after))
                if rests and not last.is_carried:
                    return
        self._submit("answer", self._answer)

    def reset(self) -> None:
        """Put everything back as it was when the pair was opened."""

        def start_again(_: Session) -> Session:
            assert self._first is not None
            self.scenery.hold(self._first)
            self.panel.set(self._first)
            return self._first

        self.change(start_again)

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
                source, reference = (session.problem.pieces[index].file for index in session.order)
                wanted = source, reference
            if wanted is not None:
                self._open_files(*((geometry, wanted[1]) if side == 0 else (wanted[0], geometry)))
                return
        self.panel.say("open a pair first: a file takes the place of one of its pieces")

    def download(self, name: str) -> None:
        """Send a file to the browser."""
        if self.answer is not None and name in DOWNLOADS:
            content = DOWNLOADS[name](self.answer)
            self.client.send_file_download(name.replace(" ", ""), content, save_immediately=True)

    def close(self) -> None:
        """Drop all jobs: the tab is gone."""
        self._closed = True
        self._drop("open", "hang", "answer")

    def _submit(self, kind: Kind, job: Job) -> None:
        """Have the worker do a job; of each kind only the newest waits."""
        self.worker.submit((id(self), kind), lambda: self._guard(job))

    def _drop(self, *kinds: Kind) -> None:
        for kind in kinds:
            self.worker.drop((id(self), kind))

    def _guard(self, job: Job) -> None:
        """Do a job; the page says what goes wrong, and goes on."""
        if self._closed:
            return
        try:
            job()
        except InputError as error:
            self.panel.say(str(error))
        except Exception as error:
            log.exception("unexpected error in the viewer")
            self.panel.say(f"unexpected {type(error).__name__}: {error}")

    def _open_files(self, source: Geometry, reference: Geometry) -> None:
        """Open a pair, with the lock held."""
        self._open_soon(lambda: self._open(source, reference), (source, reference))

    def _open_soon(self, job: Job, wanted: tuple[Geometry, Geometry] | None = None) -> None:
        """Submit a job, with the lock held; until it is done, an upload joins the pair that is ``wanted``."""
        self._wanted = wanted
        self.panel.say("")

        def finish() -> None:
            try:
                job()
            finally:
                with self._lock:
                    if self._wanted is wanted:
                        self._wanted = None

        self._submit("open", finish)

    def _open(self, source: Geometry, reference: Geometry) -> None:
        """Show a pair with the answer for its files, carried along; then answer it as it stands."""
        problem = Problem((Piece(source), Piece(reference)), self.method, points=self.points)
        self.panel.work(True)
        try:
            layout = lay_out(problem, self.solver.base(problem).transformation)
        finally:
            self.panel.work(False)
        session = layout.start(problem)
        answer = self.solver.first(session)
        assert answer is not None  # only a motion lies between
        self._drop("hang")
        if self.wall is not None:
            self.wall.clear()
        with self._lock:  # nobody may hold pieces that are being taken away
            self.session, self._first, self._held = session, session, False
            self.scenery.set_up(layout, answer)
            self._drop("answer")
            self._show(answer)
        self.camera.frame(layout.frame(answer), hazy=True)
        self.panel.set(session)
        self._submit("answer", self._answer)

    def _show_wall(self) -> None:
        assert self.wall is not None
        with self._lock:
            self.session = self.answer = None
            self.scenery.clear()
        self._drop("answer", "hang")
        self.wall.clear()
        self.wall.say(None)
        self.camera.frame(self.wall.frame(), hazy=False)
        self._hang(self.wall, list(enumerate(self.wall.shown())))

    def _hang(self, wall: Wall, rest: list[tuple[int, Entry]]) -> None:
        if not rest:
            return
        number, entry = rest[0]
        try:
            picture = wall.gallery.picture(entry)
        except InputError as error:
            self.panel.say(str(error))
            picture = empty_thumbnail()
        wall.hang(number, entry, picture)
        self._submit("hang", lambda: self._hang(wall, rest[1:]))

    def _open_entry(self, entry: Entry) -> None:
        assert self.wall is not None
        pair = self.wall.gallery.pair(entry)
        self._open(pair.source, pair.reference)
        self.wall.say(entry)

    def _answer(self) -> None:
        """Answer the newest session, which may be newer than the one that asked."""
        with self._lock:
            session, held, last = self.session, self._held, self.answer
        if session is None:
            return
        if held and last is not None and session.differs_by_motion(last.session):
            if session.problem.method == "model":
                self._receive(self.solver.follow(session, last), dragged=True)
            return
        self.panel.work(True)
        try:
            if not self.solver.knows(session.problem) and (first := self.solver.first(session)) is not None:
                self._receive(first)
            self._receive(self.solver.solve(session))
        finally:
            self.panel.work(False)

    def _receive(self, answer: Answer, dragged: bool = False) -> None:
        """Show an answer of the worker, carried along to where the pieces are by now."""
        with self._lock:
            now = self.session
            if now is None:  # the gallery is shown by now
                return
            if not now.differs_by_motion(answer.session):
                if self.answer is not None and self.answer.session is now:  # reset meanwhile: a stale answer
                    return
            elif now.problem.method != "model":
                answer = replace(answer, session=now)
            self._show(answer, dragged)

    def _show(self, answer: Answer, dragged: bool = False) -> None:
        """Show an answer, with the lock held."""
        self.answer = answer
        self.scenery.show(answer)
        self.panel.show(answer, dragged)


class Worker:
    """One thread that does jobs one after the other; of the jobs that wait under one key only the newest.

    So an answer is never behind by more than the one at hand, however fast a piece is dragged; and keys take
    turns, so that nobody who drags without a break keeps the others waiting.
    """

    def __init__(self) -> None:
        self._waiting: dict[Hashable, Job] = {}
        self._news = threading.Condition()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="bitr-viewer", daemon=True)
        self._thread.start()

    def submit(self, key: Hashable, job: Job) -> None:
        """Do the job when it is its key's turn, in place of one that waits under the same key."""
        with self._news:
            self._waiting[key] = job
            self._news.notify()

    def drop(self, key: Hashable) -> None:
        """Forget the job that waits under a key."""
        with self._news:
            self._waiting.pop(key, None)

    def close(self) -> None:
        """End after the job at hand; jobs that wait are not done."""
        with self._news:
            self._ended = True
            self._waiting.clear()
            self._news.notify()
        self._thread.join()

    def _run(self) -> None:
        while (job := self._next()) is not None:
            try:
                job()
            except Exception:  # one page must not stop the others
                log.exception("unexpected error in the viewer")

    def _next(self) -> Job | None:
        with self._news:
            self._news.wait_for(lambda: self._waiting or self._ended)
            return None if self._ended else self._waiting.pop(next(iter(self._waiting)))
