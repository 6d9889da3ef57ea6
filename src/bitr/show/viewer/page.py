"""The page of one browser tab: joins its session with scene and controls, and the worker that answers it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable
from dataclasses import replace

import numpy as np
import viser

from bitr.assembly.network import Network
from bitr.errors import InputError
from bitr.io import Geometry
from bitr.show.picture import empty_thumbnail
from bitr.show.viewer.gallery import Entry, Gallery, Wall
from bitr.show.viewer.panel import DOWNLOADS, Change, Panel, read_upload
from bitr.show.viewer.scene import Camera, Scenery, lay_out
from bitr.show.viewer.session import Answer, Piece, Place, Problem, Session, Solver

Job = Callable[[], None]

log = logging.getLogger("bitr")


class Page:
    """The view and the actions of one person; pages share the model and the worker, and nothing else.

    Jobs of the worker are of four kinds: "open" a pair or the gallery, take an "upload", "hang" the gallery's
    next picture, and "answer" the session.
    """

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
        self.wall = None if gallery is None else Wall(client, gallery, self)
        self.panel = Panel(client.gui, self)
        self.scenery: Scenery | None = None
        self.session: Session | None = None
        self.answer: Answer | None = None
        self.first: Session | None = None
        """The session as the pair was opened."""
        self._uploads: dict[int, Geometry] = {}
        self._lock, self._held, self._closed = threading.Lock(), False, False

    def open(self, source: Geometry, reference: Geometry) -> None:
        """Show another pair, once there is an answer to it."""
        self._submit("open", lambda: self._open(source, reference), is_asked=True)

    def show_wall(self) -> None:
        """Show the gallery, picture by picture, so that other pages get their answers in between."""
        wall = self.wall
        assert wall is not None

        def show() -> None:
            with self._lock:
                self._clear()
                self.session = self.answer = self.scenery = None
            wall.say(None)
            self.camera.frame(wall.corners(), np.eye(3), hazy=False)
            self._hang(wall, list(enumerate(wall.shown())))

        self._submit("open", show, is_asked=True)

    def open_entry(self, entry: Entry) -> None:
        """Open a pair of the gallery."""
        wall = self.wall
        assert wall is not None

        def show() -> None:
            pair = wall.gallery.pair(entry)
            self._open(pair.source, pair.reference)
            wall.say(entry)

        self._submit("open", show, is_asked=True)

    def move(self, index: int, place: Place, held: bool = False) -> None:
        """Put a piece somewhere else; while it is held, the answer goes with it."""
        self.change(lambda session: session.move(index, place), held)

    def change(self, update: Change, held: bool = False) -> None:
        """Go on with another session, and answer it after the answer at hand.

        Another hypothesis and pieces that moved need no new answer and are shown at once. The model alone is
        fast enough to be asked while a piece is held; the last pose of other methods is carried along.
        """
        with self._lock:
            if self.session is None:
                return
            self._held = held
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

        def start_again(session: Session) -> Session:
            first = self.first or session
            if self.scenery is not None:
                self.scenery.hold(first)
            self.panel.set(first)
            return first

        self.change(start_again)

    def upload(self, side: int, name: str, content: bytes) -> None:
        """Take a file of the browser as source (0) or reference (1), or say what is wrong with it."""
        try:
            geometry = read_upload(name, content)
        except InputError as error:
            self.panel.say(str(error))
            return
        with self._lock:
            self._uploads[side] = geometry
        self._submit("upload", self._take_uploads, is_asked=True)

    def download(self, name: str) -> None:
        """Send a file to the browser."""
        if self.answer is not None and name in DOWNLOADS:
            content = DOWNLOADS[name](self.answer)
            self.client.send_file_download(name.replace(" ", ""), content, save_immediately=True)

    def close(self) -> None:
        """Drop all jobs: the tab is gone."""
        self._closed = True
        for kind in ("open", "upload", "hang", "answer"):
            self.worker.drop((id(self), kind))

    def _submit(self, kind: str, job: Job, is_asked: bool = False) -> None:
        """Have the worker do a job; of each kind only the newest waits. Those asked for clear the message."""
        if is_asked:
            self.panel.say("")
        self.worker.submit((id(self), kind), lambda: self._guard(job))

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
        with self._lock:  # nobody may hold pieces that are being taken away
            self._clear()
            self.session, self.first, self._held = session, session, False
            self.scenery = Scenery(self.client, layout, session, self.move)
            self._show(answer)
        self.camera.frame(layout.all_points(answer), layout.view, hazy=True)
        self.panel.set(session)
        self._submit("answer", self._answer)

    def _take_uploads(self) -> None:
        """Open the pair that is on the page with the files that came meanwhile in place of its own."""
        with self._lock:
            session, files, self._uploads = self.session, self._uploads, {}
        if session is None:
            raise InputError("open a pair first: a file takes the place of one of its pieces")
        x, y = (session.problem.pieces[index].file for index in session.order)
        self._open(files.get(0, x), files.get(1, y))

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

    def _clear(self) -> None:
        """Take away what is shown and the jobs for it, with the lock held."""
        for kind in ("hang", "answer"):
            self.worker.drop((id(self), kind))
        if self.wall is not None:
            self.wall.clear()
        if self.scenery is not None:
            self.scenery.clear()

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
        assert self.scenery is not None
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
