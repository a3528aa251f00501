"""One command, many values: the jobs of a sweep, and what became of each."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Union

from .errors import BadOption
from .job import Job

if TYPE_CHECKING:
    from .client import Client

Params = Union[Mapping[str, Iterable[Any]], Sequence[Mapping[str, Any]]]

# Columns of their own; a parameter of such a name stands there with its kind before it, as in `nexus sweep csv`.
COLUMNS = ("id", "state", "reason", "exit_code", "runtime_seconds", "results")


class Sweep:
    """Its jobs, in the order of their values."""

    def __init__(self, client: "Client", name: str, jobs: List[Job]) -> None:
        self.client = client
        self.name = name
        self.jobs = jobs

    def __repr__(self) -> str:
        return f"<nexus_gpu.Sweep {self.name}: {len(self.jobs)} jobs>"

    def __len__(self) -> int:
        return len(self.jobs)

    def __iter__(self) -> Iterator[Job]:
        return iter(self.jobs)

    def __getitem__(self, index: int) -> Job:
        return self.jobs[index]

    def wait(self, timeout: Optional[float] = None) -> "Sweep":
        """Returns when all have ended, however; TimeoutError where that takes longer."""
        self.client.wait(self.jobs, timeout)
        return self

    def results(self, timeout: Optional[float] = None) -> List[Dict[str, Any]]:
        """Waits for all of them. A row for each: its values, what `extract` took, and how it ended.

        Nothing is raised for a job that failed: `state` and `reason` tell.
        """
        self.wait(timeout)
        return [_row(job) for job in self.jobs]

    def cancel(self) -> None:
        """Ends those that run, takes out those that wait."""
        self.client.cancel(self.jobs)


def _row(job: Job) -> Dict[str, Any]:
    row: Dict[str, Any] = {"id": job.id}
    for name, value in job.params.items():
        row[f"param.{name}" if name in COLUMNS else name] = value
    for column in COLUMNS[1:]:
        row[column] = job.data.get(column)
    for name, value in job.extracted.items():
        row[f"value.{name}" if name in row else name] = value
    return row


def table(params: Params) -> Dict[str, Any]:
    """The points of a sweep, each value as the text it has: every combination, or those that were listed."""
    if isinstance(params, Mapping):
        names = [str(name) for name in params]
        axes = [[values] if isinstance(values, str) else list(values) for values in params.values()]
        rows = [list(point) for point in itertools.product(*axes)]
    else:
        points = list(params)
        names = [str(name) for name in points[0]] if points else []
        for point in points:
            if sorted(map(str, point)) != sorted(names):
                raise BadOption(f"each point has the same names: {', '.join(names)}, and not {', '.join(map(str, point))}")
        rows = [[point[name] for name in names] for point in points]
    if not names or not rows:
        raise BadOption("there is nothing to go through: a name and its values, as in {'lr': [0.1, 0.01]}")
    return {"names": names, "rows": [[str(value) for value in row] for row in rows]}
