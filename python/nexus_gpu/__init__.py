"""Queue jobs on the GPUs of this machine from Python, and wait for them. Needs nothing but the `nexus` binary.

    import nexus_gpu

    job = nexus_gpu.submit("python train.py --lr 0.1", gpus=1)
    job.result()

The functions here use the service of `NEXUS_HOME`, or of `~/.nexus`; a `Client` has a home of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterable, Iterator, List, Optional

from ._spec import Command, Options
from .client import Client, default_client
from .errors import BadOption, CannotPickle, JobFailed, NexusError, NoService, Refused, RemoteError
from .executor import Executor, JobFuture
from .job import Job
from .sweep import Params, Sweep

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = [
    "BadOption",
    "CannotPickle",
    "Client",
    "Executor",
    "Job",
    "JobFailed",
    "JobFuture",
    "NexusError",
    "NoService",
    "Options",
    "Refused",
    "RemoteError",
    "Sweep",
    "as_completed",
    "client",
    "job",
    "jobs",
    "map",
    "submit",
    "wait",
]

def client() -> Client:
    """The client of the home that the environment names now."""
    return default_client()


def submit(command: Command, **options: "Unpack[Options]") -> Job:
    """Queues a job: `Client.submit`."""
    return client().submit(command, **options)


def map(command: Command, params: Params, **more: Any) -> Sweep:
    """Queues a job for each combination of values: `Client.map`."""
    return client().map(command, params, **more)


def job(id: str) -> Job:
    """A job that was queued before, by its id."""
    return client().job(id)


def jobs(*selectors: str, state: Optional[str] = None) -> List[Job]:
    """Jobs as selectors name them: `Client.jobs`."""
    return client().jobs(*selectors, state=state)


def wait(jobs: Iterable[Job], timeout: Optional[float] = None) -> List[Job]:
    """Returns the jobs when all have ended, however; TimeoutError where that takes longer."""
    jobs = list(jobs)
    return _client_of(jobs).wait(jobs, timeout)


def as_completed(jobs: Iterable[Job], timeout: Optional[float] = None) -> Iterator[Job]:
    """Each job when it has ended, however."""
    jobs = list(jobs)
    return _client_of(jobs).as_completed(jobs, timeout)


def _client_of(jobs: List[Job]) -> Client:
    """Jobs that are waited for together are of one home."""
    clients = {job.client for job in jobs}
    if len(clients) > 1:
        raise BadOption("jobs of several homes are waited for one home after the other")
    return clients.pop() if clients else client()
