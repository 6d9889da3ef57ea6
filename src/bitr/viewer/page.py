"""One browser tab: its session, what it shows, and the worker that answers it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

import viser

from bitr.assembly.network import Network
from bitr.errors import InputError
from bitr.io import Geometry
from bitr.viewer.camera import Camera
from bitr.viewer.files import assembled_ply, pose_json, pose_text, read_upload
from bitr.viewer.gallery import Entry, Gallery
from bitr.viewer.jobs import Jobs
from bitr.viewer.layout import layout
from bitr.viewer.panel import DOWNLOADS, Actions, Panel
from bitr.viewer.piece import Piece
from bitr.viewer.scenery import Scenery, all_points
from bitr.viewer.session import Place, Problem, Session
from bitr.viewer.solver import Answer, Solver
from bitr.viewer.thumbnail import EMPTY
from bitr.viewer.wall import Wall
from bitr.viewer.worker import Worker


class Page:
    """What one person sees and does; pages share the model and the worker, and nothing else."""

    def __init__(
        self,
        client: viser.ClientHandle,
        network: Network,
        worker: Worker,
        points: int | None,
        method: str = "auto",
        gallery: Gallery | None = None,
    ) -> None:
        self.client, self.points, self.method = client, points, method
        self.solver, self.camera = Solver(network), Camera(client)
        self.scenery = Scenery(client, self.move)
        self.wall = (
            None if gallery is None else Wall(client, gallery, network.name, self.open_entry, self.show_wall)
        )
        self.panel = Panel(client.gui, Actions(self.change, self.reset, self.upload, self.download))
        self.jobs = Jobs(worker, self.panel.say)
        self.session: Session | None = None
        self.answer: Answer | None = None
        self._first: Session | None = None
        self._wanted: tuple[Geometry, Geometry] | None = None
        self._lock, self._held = threading.Lock(), False

    def open(self, source: Geometry, reference: Geometry) -> None:
        """Show another pair: once there is an answer to it, and only then."""
        with self._lock:
            self._open_files(source, reference)

    def show_wall(self) -> None:
        """The gallery in place of a pair; picture by picture, so that others get their answers in between."""
        with self._lock:
            self._open_soon(self._show_wall)

    def open_entry(self, entry: Entry) -> None:
        """A pair of the gallery."""
        with self._lock:
            self._open_soon(lambda: self._open_entry(entry))

    def move(self, index: int, place: Place, held: bool = False) -> None:
        """A piece was put somewhere else; while it is held, the answer goes with it."""

        def moved(session: Session) -> Session:
            self._held = held
            return session.moved(index, place)

        self.change(moved)

    def change(self, update: Callable[[Session], Session]) -> None:
        """Go on with another session, and answer it as soon as what is being answered is done.

        What needs no new answer is shown at once: another hypothesis, or pieces that moved. The model alone
        is fast enough to be asked while a piece is held; other methods have their last pose carried along.
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
            if last is not None and after.like(last.session):
                chosen = after.places == last.session.places
                if chosen or after.problem.method != "model":
                    self._show(replace(last, session=after))
                if chosen and not last.carried:
                    return
        self.jobs.submit("answer", self._answer)

    def reset(self) -> None:
        """Everything as it was when the pair was opened."""

        def again(_: Session) -> Session:
            assert self._first is not None
            self.scenery.hold(self._first)
            self.panel.set(self._first)
            return self._first

        self.change(again)

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
                self._open_files(*((geometry, wanted[1]) if side == 0 else (wanted[0], geometry)))
                return
        self.panel.say("open a pair first: a file takes the place of one of its pieces")

    def download(self, what: str) -> None:
        """Send a file to the browser."""
        make = dict(zip(DOWNLOADS, (pose_text, pose_json, assembled_ply), strict=True)).get(what)
        if self.answer is not None and make is not None:
            name = what.replace(" ", "")
            self.client.send_file_download(name, make(self.answer), save_immediately=True)

    def close(self) -> None:
        """The tab is gone."""
        self.jobs.close()

    def _open_files(self, source: Geometry, reference: Geometry) -> None:
        """With the lock held."""
        wanted = source, reference

        self._open_soon(lambda: self._open(*wanted), wanted)

    def _open_soon(self, job: Callable[[], None], wanted: tuple[Geometry, Geometry] | None = None) -> None:
        """With the lock held; what is wanted is what the next upload joins, until the job is done."""
        self._wanted = wanted
        self.panel.say("")

        def done() -> None:
            try:
                job()
            finally:
                with self._lock:
                    if self._wanted is wanted:
                        self._wanted = None

        self.jobs.submit("open", done)

    def _open(self, source: Geometry, reference: Geometry) -> None:
        """Shown with the answer for the files, carried along; then answered as the pieces stand."""
        problem = Problem((Piece(source), Piece(reference)), self.method, points=self.points)
        self.panel.work(True)
        try:
            found = layout(problem, self.solver.base(problem).transformation)
        finally:
            self.panel.work(False)
        session = found.start(problem)
        answer = self.solver.first(session)
        assert answer is not None  # only a motion lies between
        self.jobs.drop("hang")
        if self.wall is not None:
            self.wall.clear()
        with self._lock:  # nobody may hold pieces that are being taken away
            self.session, self._first, self._held = session, session, False
            self.scenery.set_up(found, answer)
            self.jobs.drop("answer")
            self._show(answer)
        self.camera.frame(found.framing(all_points(found, answer)), hazy=True)
        self.panel.set(session)
        self.jobs.submit("answer", self._answer)

    def _show_wall(self) -> None:
        assert self.wall is not None
        with self._lock:
            self.session = self.answer = None
            self.scenery.clear()
        self.jobs.drop("answer", "hang")
        self.wall.clear()
        self.wall.say(None)
        self.camera.frame(self.wall.view, hazy=False)
        self._hang(self.wall, list(enumerate(self.wall.shown())))

    def _hang(self, wall: Wall, rest: list[tuple[int, Entry]]) -> None:
        if not rest:
            return
        number, entry = rest[0]
        try:
            picture = wall.gallery.picture(entry)
        except InputError as error:
            self.panel.say(str(error))
            picture = EMPTY
        wall.hang(number, entry, picture)
        self.jobs.submit("hang", lambda: self._hang(wall, rest[1:]))

    def _open_entry(self, entry: Entry) -> None:
        assert self.wall is not None
        pair = self.wall.gallery.pair(entry)
        self._open(pair.source, pair.reference)
        self.wall.say(entry)

    def _answer(self) -> None:
        with self._lock:
            session, held, last = self.session, self._held, self.answer  # the newest, not the one that asked
        if session is None:
            return
        if held and last is not None and session.like(last.session):
            if session.problem.method == "model":
                self._arrived(self.solver.follow(session, last), dragged=True)
            return
        self.panel.work(True)
        try:
            if not self.solver.knows(session.problem) and (first := self.solver.first(session)) is not None:
                self._arrived(first)
            self._arrived(self.solver.solve(session))
        finally:
            self.panel.work(False)

    def _arrived(self, answer: Answer, dragged: bool = False) -> None:
        """Show an answer of the worker, where the pieces are by now."""
        with self._lock:
            now = self.session
            if now is None:  # the gallery is shown by now
                return
            if now.like(answer.session) and now.problem.method != "model":
                answer = replace(answer, session=now)
            self._show(answer, dragged)

    def _show(self, answer: Answer, dragged: bool = False) -> None:
        """With the lock held."""
        self.answer = answer
        self.scenery.show(answer)
        self.panel.show(answer, dragged)
