"""Calls as jobs, in the shape of `concurrent.futures`: each call of a function is a job, its outcome comes back.

    pending ──starts──> running ──its outcome is read──> done
       │
       └──cancel(), or `nexus remove`──> cancelled

All futures of a client hear of their jobs by one thread. Ctrl-C inside `with Executor(...)` ends the jobs that are left.
"""

from __future__ import annotations

import atexit
import concurrent.futures as futures
import os
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Dict, Generic, Iterable, Iterator, List, Mapping, NamedTuple, Optional
from typing import Set, Tuple, TypeVar, cast

from . import _pickled
from ._events import Watch
from ._folder import Folder
from ._home import caller_environment
from ._spec import Options, spec
from .client import Client, default_client
from .errors import NexusError, Refused
from .job import Job

if TYPE_CHECKING:
    from typing_extensions import Unpack

T = TypeVar("T")

CALL_PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_call.py")


# Within this time a future is settled whose end is known.
SETTLED_SECONDS = 10.0


class Call(NamedTuple):
    """What one job is to do. `label` is for people who look at the queue."""

    function: Callable[..., Any]
    args: Tuple[Any, ...]
    kwargs: Dict[str, Any]
    label: str


class AsSweep(NamedTuple):
    """Calls that are queued as one sweep. `about`: what they have in common, by which nexus knows them again."""

    about: str
    name: Optional[str] = None
    max_running: Optional[int] = None


class JobFuture(futures.Future, Generic[T]):  # type: ignore[type-arg]
    """A call that is a job. `job` is the job as it stood when it was queued, and later as it ended."""

    def __init__(self, job: Job) -> None:
        super().__init__()
        self.job = job
        self._taken_out: Callable[[str], None] = lambda _id: None

    def result(self, timeout: Optional[float] = None) -> T:
        return cast(T, super().result(timeout))

    def cancel(self) -> bool:
        """Takes the job out of the queue; False if it runs already: `kill()` ends it then."""
        if self.done() or self.running():
            return self.cancelled()
        try:
            self.job.client.http.post("/v1/jobs/remove", {"ids": [self.job.id]})
        except Refused as refused:
            if refused.code != "wrong_state":
                raise
            return self.cancelled()
        self._taken_out(self.job.id)
        # The listening thread may have heard of it first, and be about to say so.
        futures.wait([self], SETTLED_SECONDS)
        return self.cancelled()

    def kill(self) -> None:
        """Ends the job wherever it is; `result()` raises JobFailed, or CancelledError if it had not begun."""
        self.job.client.cancel([self.job])


class Executor(futures.Executor):
    """Runs calls as jobs: `Executor(gpus=1, vram="8G")`. The options are those of `submit`, for each of them.

    A job runs in this process's folder, with its environment and its `sys.path`, on this machine unless `machine` or
    `machine_class` say otherwise: another one must see the same files.
    """

    def __init__(self, *, client: Optional[Client] = None, **options: "Unpack[Options]") -> None:
        self.client = client or default_client()
        self.options = options
        if not options.get("machine_class"):
            self.options.setdefault("machine", "local")
        self._folder = Folder(self.client.home)
        self.tag = tag_of(self._folder.token)
        self.options["tags"] = [*_listed(options.get("tags")), self.tag]
        self._lock = threading.Lock()
        self._clearing = threading.Lock()
        self._count = 0
        self._has_folder = False
        self._is_shut = False
        self._is_ended = False
        self._left_some = False
        self._files: Dict[str, Path] = {}
        self._futures: Dict[str, "JobFuture[Any]"] = {}
        self._in_flight: Set["futures.Future[Any]"] = set()
        self._watch = Watch(self._changed, self._broke)
        _executors.add(self)

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> "JobFuture[T]":
        """Queues a call. CannotPickle, before anything is queued, where it cannot be taken to another process."""
        return self.submit_calls([Call(fn, args, kwargs, _name_of(fn))])[0]

    def map(
        self, fn: Callable[..., T], *iterables: Iterable[Any], timeout: Optional[float] = None, chunksize: int = 1
    ) -> Iterator[T]:
        """What each call returns, in order; all are queued at once. `chunksize` means nothing: each call is a job."""
        calls = [Call(fn, args, {}, _name_of(fn)) for args in zip(*iterables)]
        made = self.submit_calls(calls)
        return _in_order(made, None if timeout is None else time.monotonic() + timeout)

    def submit_calls(self, calls: List[Call], sweep: Optional[AsSweep] = None) -> "List[JobFuture[Any]]":
        """Queues calls, all or none."""
        if not calls:
            return []
        with self._lock:
            self._refuse_if_shut()
            files = [self._folder.path / str(self._count + at) for at in range(len(calls))]
            self._count += len(calls)
        contents = [_pickled.call(call.function, call.args, call.kwargs) for call in calls]
        self._make_folder()
        for file, content in zip(files, contents):
            file.with_name(f"{file.name}.call").write_bytes(content)
        return cast("List[JobFuture[Any]]", self._steadily(lambda: self._queue(calls, files, sweep)))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """No more calls. `wait`: returns when all are done; `cancel_futures`: those that wait are taken out."""
        with self._lock:
            self._is_shut = True
            left = list(self._futures.values())
        if cancel_futures:
            for future in left:
                future.cancel()
        if wait:
            futures.wait(left)
        self._clear_away()

    def end(self, wait: bool = True) -> None:
        """No more calls, and an end to all jobs that are left. `wait`: returns when they are gone.

        What was asked of the service before this is interrupted is asked.
        """
        with self._lock:
            self._is_shut = self._is_ended = True
            left = list(self._futures.values())
            in_flight = set(self._in_flight)
        try:
            self._steadily(lambda: self.client.cancel([future.job for future in left]))
            if wait:
                futures.wait(in_flight)
                with self._lock:
                    left = list(self._futures.values())
                futures.wait(left)
        finally:
            self._clear_away()

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        if self._is_ended:
            # Whoever was in no mood to wait for that is not made to wait here.
            return
        if kind is not None and not issubclass(kind, Exception):
            self.end()
        else:
            self.shutdown(wait=True)

    def _refuse_if_shut(self) -> None:
        if self._is_shut:
            raise RuntimeError("cannot schedule new futures after shutdown")

    def _queue(self, calls: List[Call], files: List[Path], sweep: Optional[AsSweep]) -> "List[JobFuture[Any]]":
        if sweep is None:
            jobs = self.client.submit_all([self._job(call, file) for call, file in zip(calls, files)])
        else:
            jobs = self.client.queue_sweep(self._sweep(calls, files, sweep)).jobs
        made = [JobFuture[Any](job) for job in jobs]
        with self._lock:
            for future, file in zip(made, files):
                future._taken_out = self._taken_out
                self._futures[future.job.id] = future
                self._files[future.job.id] = file
            is_ended = self._is_ended
        if is_ended:
            # Somebody left while this was on its way.
            self.client.cancel(jobs)
        self.client.listener.add(self._watch, [job.id for job in jobs])
        return made

    def _job(self, call: Call, file: Path) -> Tuple[List[str], Options]:
        label = _plain(call.label)
        # By its name nexus knows a call again, and what earlier ones took of time and memory.
        options: Options = {**self.options, "name": self.options.get("name") or label[:100]}
        return [sys.executable, CALL_PROGRAM, str(file), label], options

    def _sweep(self, calls: List[Call], files: List[Path], sweep: AsSweep) -> Dict[str, Any]:
        command = [sys.executable, CALL_PROGRAM, "{call}", _plain(sweep.about), "{of}"]
        rows = [[str(file), _plain(call.label)] for call, file in zip(calls, files)]
        return {
            "spec": spec(command, self.options, caller_environment()),
            "plan": {"from": {"names": ["call", "of"], "rows": rows}},
            "name": sweep.name,
            "max_running": sweep.max_running,
            # Each of them is waited for.
            "stop_after": 0,
        }

    def _make_folder(self) -> None:
        with self._lock:
            if self._has_folder:
                return
            self._folder.make()
            self._has_folder = True

        def is_needed(token: str) -> bool:
            return bool(self.client.http.get("/v1/jobs", tag=tag_of(token), state="alive"))

        try:
            self._folder.clear_others(is_needed)
        except (NexusError, OSError):
            # Another time: nobody waits for that.
            pass

    def _steadily(self, work: Callable[[], Any]) -> Any:
        """Does it in a thread of its own, which goes on to its end where this one is interrupted."""
        done: "futures.Future[Any]" = futures.Future()

        def run() -> None:
            try:
                done.set_result(work())
            except BaseException as error:
                done.set_exception(error)
            with self._lock:
                self._in_flight.discard(done)

        thread = threading.Thread(target=run, name="nexus_gpu request", daemon=False)
        try:
            with self._lock:
                self._in_flight.add(done)
            thread.start()
        except RuntimeError:
            # The interpreter is on its way out, and starts none any more.
            run()
        except BaseException:
            if thread.ident is None:
                with self._lock:
                    self._in_flight.discard(done)
            raise
        return done.result()

    def _changed(self, id: str, state: str, job: Optional[Mapping[str, Any]]) -> None:
        if job is None:
            with self._lock:
                future = self._futures.get(id)
                if future and state in ("starting", "running", "copying") and not future.running() and not future.done():
                    future.set_running_or_notify_cancel()
            return
        claimed = self._claim(id)
        if claimed is None:
            return
        future, file = claimed
        future.job.data = dict(job)
        if job.get("reason") == "removed" and not future.running():
            _set_cancelled(future)
        else:
            _settle(future, file)
        _delete(file)
        self._clear_away()

    def _taken_out(self, id: str) -> None:
        claimed = self._claim(id)
        if claimed is not None:
            future, file = claimed
            _set_cancelled(future)
            _delete(file)
            self._clear_away()

    def _broke(self, id: str, error: Exception) -> None:
        claimed = self._claim(id)
        if claimed is not None:
            # Its job may run on.
            self._left_some = True
            claimed[0].set_exception(error)
            self._clear_away()

    def _claim(self, id: str) -> "Optional[Tuple[JobFuture[Any], Path]]":
        """Whoever has it settles the future; all others come too late."""
        with self._lock:
            future = self._futures.pop(id, None)
            return None if future is None else (future, self._files.pop(id))

    def _clear_away(self) -> None:
        """Once nothing is left that could come. Whoever comes second waits: a thread that is about to leave must not do so
        while another one is at it.
        """
        with self._clearing:
            with self._lock:
                if not self._is_shut or ((self._futures or self._in_flight) and not self._is_ended):
                    return
                has_folder, self._has_folder = self._has_folder, False
                is_idle = not self._futures and not self._in_flight
            if is_idle:
                self.client.listener.remove(self._watch)
            if has_folder:
                self._folder.leave() if self._left_some else self._folder.remove()


def tag_of(token: str) -> str:
    """By which the jobs of one executor are found: `nexus cancel tag:python-…`."""
    return f"python-{token}"


def _settle(future: "JobFuture[Any]", file: Path) -> None:
    """By what the job's last attempt left, or by how it ended where it left nothing."""
    try:
        content = Path(f"{file}.result.{future.job.data.get('attempt')}").read_bytes()
    except OSError:
        future.set_exception(future.job.failure())
        return
    try:
        future.set_result(_pickled.outcome(content))
    except BaseException as error:
        future.set_exception(error)


def _set_cancelled(future: "JobFuture[Any]") -> None:
    futures.Future.cancel(future)
    # Tells those who wait for it.
    future.set_running_or_notify_cancel()


def _delete(file: Path) -> None:
    for one in file.parent.glob(f"{file.name}.*"):
        try:
            one.unlink()
        except OSError:
            # It goes with the folder.
            pass


def _in_order(made: "List[JobFuture[T]]", deadline: Optional[float]) -> Iterator[T]:
    left = list(reversed(made))
    try:
        while left:
            yield left.pop().result(None if deadline is None else max(0.0, deadline - time.monotonic()))
    finally:
        for future in left:
            future.cancel()


def _name_of(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__qualname__", None) or type(function).__name__)


def _plain(label: str) -> str:
    """What stands in braces would be the name of a variable, whose value would be put in."""
    return label.replace("{", "(").replace("}", ")")[:500]


def _listed(tags: Any) -> List[str]:
    return [tags] if isinstance(tags, str) else list(tags or [])


_executors: "weakref.WeakSet[Executor]" = weakref.WeakSet()


@atexit.register
def _at_exit() -> None:
    """As with the executors of the standard library, one that was not shut down is waited for."""
    for executor in list(_executors):
        try:
            executor.shutdown(wait=not executor._is_ended)
        except KeyboardInterrupt:
            executor.end(wait=False)
