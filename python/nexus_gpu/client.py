"""A client of one home: submits jobs and sweeps, waits for them, finds them again.

It starts a service for what it submits. A service that restarts meanwhile is waited for; no submission happens twice.
"""

from __future__ import annotations

import os
import queue
import time
import uuid
from typing import TYPE_CHECKING, Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple, Union
from urllib.parse import quote

from ._events import IDS_AT_ONCE, Listener, Watch
from ._home import caller_environment, find_home
from ._http import Http
from ._spec import Command, Options, Path, spec
from .errors import Refused
from .job import Job
from .sweep import Params, Sweep, table

if TYPE_CHECKING:
    from typing_extensions import Unpack

# How long a service that is away is waited for.
PATIENCE_SECONDS = 60.0

_Heard = Tuple[str, Union[Mapping[str, Any], Exception]]


class Client:
    """The service of one home: `home`, else `NEXUS_HOME`, else `~/.nexus`."""

    def __init__(self, home: Optional[Path] = None, *, patience: float = PATIENCE_SECONDS) -> None:
        """`patience`: seconds that a service which restarts is waited for."""
        self.home = find_home(home)
        self.http = Http(self.home, patience)
        self.listener = Listener(self.http)

    def __repr__(self) -> str:
        return f"<nexus_gpu.Client of {self.home}>"

    def submit(self, command: Command, **options: "Unpack[Options]") -> Job:
        """Queues a job. A text is a shell command; a list is a program and its arguments.

        It has this process's environment and folder, as with `nexus add`.
        """
        return self.submit_all([(command, options)])[0]

    def submit_all(self, jobs: Iterable[Tuple[Command, Options]], key: Optional[str] = None) -> List[Job]:
        """Queues jobs, all or none."""
        caller = caller_environment()
        specs = [spec(command, options, caller) for command, options in jobs]
        if not specs:
            return []
        answer = self.http.post("/v1/jobs", specs, key or new_key(), start=True)
        return [Job(self, job) for job in answer["jobs"]]

    def map(
        self,
        command: Command,
        params: Params,
        *,
        max_running: Optional[int] = None,
        stop_after: Optional[int] = None,
        **options: "Unpack[Options]",
    ) -> Sweep:
        """Queues a job for each combination of values: `{lr}` in the command is replaced by each of `params["lr"]`.

        A list of mappings instead of a mapping of lists names the combinations one by one. What is put in is not
        quoted. `name` is that of the sweep; `max_running` and `stop_after` are those of `nexus sweep`.
        """
        wish: Dict[str, Any] = {
            "spec": spec(command, options, caller_environment()),
            "plan": {"from": table(params)},
            "name": options.get("name"),
            "max_running": max_running,
        }
        if stop_after is not None:
            wish["stop_after"] = stop_after
        return self.queue_sweep(wish)

    def queue_sweep(self, wish: Mapping[str, Any], key: Optional[str] = None) -> Sweep:
        """Queues a sweep as `POST /v1/sweeps` takes it."""
        answer = self.http.post("/v1/sweeps", wish, key or new_key(), start=True)
        return Sweep(self, answer["sweep"]["name"], self._by_id(answer["ids"]))

    def job(self, id: str) -> Job:
        return Job(self, self.http.get(f"/v1/jobs/{quote(id, safe='')}"))

    def jobs(self, *selectors: str, state: Optional[str] = None) -> List[Job]:
        """Jobs as selectors name them (`tag:night`, `sweep:x`, `last:3`); without any all that are alive."""
        select = "\n".join(selectors) or None
        try:
            return [Job(self, job) for job in self.http.get("/v1/jobs", select=select, state=state)]
        except Refused as refused:
            if refused.code == "nothing_matches":
                return []
            raise

    def sweep(self, name: str) -> Sweep:
        path = f"/v1/sweeps/{quote(name, safe='')}"
        return Sweep(self, self.http.get(path)["name"], [Job(self, job) for job in self.http.get(f"{path}/jobs")])

    def wait(self, jobs: Iterable[Job], timeout: Optional[float] = None) -> List[Job]:
        """Returns the jobs when all have ended, however; TimeoutError where that takes longer."""
        jobs = list(jobs)
        for _ in self.as_completed(jobs, timeout):
            pass
        return jobs

    def as_completed(self, jobs: Iterable[Job], timeout: Optional[float] = None) -> Iterator[Job]:
        """Each job when it has ended, however; TimeoutError where that takes longer."""
        deadline = None if timeout is None else time.monotonic() + timeout
        left = {job.id: job for job in jobs}
        heard: "queue.SimpleQueue[_Heard]" = queue.SimpleQueue()

        def changed(id: str, _state: str, job: Optional[Mapping[str, Any]]) -> None:
            if job is not None:
                heard.put((id, job))

        for job in [job for job in left.values() if job.has_ended]:
            yield left.pop(job.id)
        watch = Watch(changed, lambda id, error: heard.put((id, error)))
        try:
            if left:
                self.listener.add(watch, list(left))
            while left:
                id, what = _next(heard, deadline, len(left))
                if isinstance(what, Exception):
                    raise what
                left[id].data = dict(what)
                yield left.pop(id)
        finally:
            self.listener.remove(watch)

    def cancel(self, jobs: Iterable[Job]) -> None:
        """Ends those that run, takes out those that wait, in one step; nothing for those that have ended."""
        ids = [job.id for job in jobs]
        if not ids:
            return
        try:
            self.http.post("/v1/jobs/cancel", {"ids": ids, "skip_unfit": True})
        except Refused as refused:
            # All of them have ended.
            if refused.code != "wrong_state":
                raise

    def _by_id(self, ids: Sequence[str]) -> List[Job]:
        jobs: Dict[str, Job] = {}
        for begin in range(0, len(ids), IDS_AT_ONCE):
            some = self.http.get("/v1/jobs", select="\n".join(ids[begin : begin + IDS_AT_ONCE]))
            jobs.update((job["id"], Job(self, job)) for job in some)
        return [jobs[id] for id in ids]


def new_key() -> str:
    """Under which a submission happens once, however often it is sent."""
    return f"python-{uuid.uuid4()}"


def _next(heard: "queue.SimpleQueue[_Heard]", deadline: Optional[float], count: int) -> _Heard:
    left = None if deadline is None else max(0.0, deadline - time.monotonic())
    try:
        return heard.get(timeout=left)
    except queue.Empty:
        raise TimeoutError(f"{count} {'job has' if count == 1 else 'jobs have'} not ended") from None


# A process that was forked has no thread of its parent's, so it has clients of its own.
_clients: Dict[Tuple[int, str], Client] = {}


def default_client() -> Client:
    """The client of the home that the environment names now."""
    place = (os.getpid(), str(find_home(None)))
    if place not in _clients:
        _clients[place] = Client(place[1])
    return _clients[place]
