"""A job as its submitter holds it: how it stands, what it printed, what it left, and its end."""

from __future__ import annotations

import http.client
import os
import struct
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Mapping, Optional, Tuple, Union
from urllib.parse import quote

from ._events import ENDS
from ._http import Absent, Patience
from ._spec import Path
from .errors import JobFailed, NexusError, Refused

if TYPE_CHECKING:
    from .client import Client

# Lines of standard error that a failure shows.
LAST_LINES = 10

# Kind and length of a frame of a followed log.
_HEAD = struct.Struct("<cI")


class Job:
    """One job. Its properties are as it stood when it was last read: `refresh()` and all that waits read it anew."""

    def __init__(self, client: "Client", data: Mapping[str, Any]) -> None:
        self.client = client
        self.data: Dict[str, Any] = dict(data)

    def __repr__(self) -> str:
        return f"<nexus_gpu.Job {self.id} {self.state}: {self.command}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Job) and (self.id, self.client.home) == (other.id, other.client.home)

    def __hash__(self) -> int:
        return hash((self.id, self.client.home))

    @property
    def id(self) -> str:
        return str(self.data["id"])

    @property
    def state(self) -> str:
        """held, queued, starting, running, copying; and for ever: completed, failed, killed."""
        return str(self.data["state"])

    @property
    def has_ended(self) -> bool:
        return self.state in ENDS

    @property
    def command(self) -> str:
        return str(self.data["command"])

    @property
    def name(self) -> Optional[str]:
        return self.data.get("name")

    @property
    def reason(self) -> Optional[str]:
        """One word: how it failed, or who ended it."""
        return self.data.get("reason")

    @property
    def exit_code(self) -> Optional[int]:
        return self.data.get("exit_code")

    @property
    def gpus(self) -> List[int]:
        """The GPUs that it holds, or that its last run held."""
        return list(self.data.get("gpus") or [])

    @property
    def params(self) -> Dict[str, str]:
        """Its values of the sweep's parameters."""
        return dict(self.data.get("params") or {})

    @property
    def extracted(self) -> Dict[str, str]:
        """The values that `extract` took from its output."""
        return dict(self.data.get("extracted") or {})

    @property
    def links(self) -> List[str]:
        """Addresses that it printed, of wandb, TensorBoard or MLflow."""
        return list(self.data.get("links") or [])

    def refresh(self) -> "Job":
        self.data = self.client.http.get(self._path())
        return self

    def wait(self, timeout: Optional[float] = None) -> "Job":
        """Returns when it has ended, however; TimeoutError where that takes longer."""
        self.client.wait([self], timeout)
        return self

    def result(self, timeout: Optional[float] = None) -> Dict[str, str]:
        """Waits for its end. The values that `extract` took, if it completed; JobFailed if it did not."""
        self.wait(timeout)
        if self.state != "completed":
            raise self.failure()
        return self.extracted

    def failure(self) -> JobFailed:
        """What its end says to whoever needed it."""
        return JobFailed(self.data, self._last_lines())

    def log(self, stream: Optional[str] = None, tail: Optional[int] = None, attempt: Optional[int] = None) -> str:
        """What it printed so far. `stream`: "stdout" or "stderr" alone; `tail`: its last lines."""
        try:
            content = self.client.http.get_bytes(self._path("log"), stream=stream, tail=tail, attempt=attempt)
        except Refused as refused:
            if refused.code == "no_log" and attempt is None:
                return ""
            raise
        return content.decode(errors="replace")

    def follow(self) -> Iterator[str]:
        """Its lines as they come, of both streams and all attempts, until it has ended. A restart is not noticed."""
        lines = {b"o": b"", b"e": b""}
        for kind, content in self._frames():
            if kind == b"j":
                break
            *whole, lines[kind] = (lines[kind] + content).split(b"\n")
            for line in whole:
                yield line.decode(errors="replace")
        for rest in filter(None, lines.values()):
            yield rest.decode(errors="replace")
        self.refresh()

    def cancel(self) -> "Job":
        """Ends it if it runs, takes it out if it waits; nothing if it has ended. `wait()` returns when it is gone."""
        self.client.cancel([self])
        return self.refresh()

    def kill(self) -> "Job":
        """Ends it; Refused (`wrong_state`) if it does not run."""
        return self._act("kill")

    def hold(self) -> "Job":
        """Keeps it from starting."""
        return self._act("hold")

    def release(self) -> "Job":
        return self._act("release")

    def why(self) -> Dict[str, Any]:
        """The facts on why it waits, or on how it ended: what `nexus why` tells in words."""
        facts: Dict[str, Any] = self.client.http.get(self._path("why"))
        return facts

    def results(self) -> Dict[str, Any]:
        """What it left behind: `folder`, `named`, `results`, `extracted` and what became of the copy."""
        facts: Dict[str, Any] = self.client.http.get(self._path("results"))
        return facts

    def copy_results(self, to: Union[Path, None] = None) -> Dict[str, Any]:
        """Begins a copy of that; `results()` tells how it goes."""
        wish = {} if to is None else {"to": os.path.abspath(to)}
        facts: Dict[str, Any] = self.client.http.post(self._path("results"), wish)
        return facts

    def _act(self, verb: str) -> "Job":
        self.client.http.post(f"/v1/jobs/{verb}", {"ids": [self.id]})
        return self.refresh()

    def _path(self, *more: str) -> str:
        return "/".join(["/v1/jobs", quote(self.id, safe=""), *more])

    def _last_lines(self) -> List[str]:
        try:
            lines = self.log("stderr", LAST_LINES).splitlines() or self.log("stdout", 1).splitlines()
        except NexusError:
            # Its log is gone, or elsewhere: its end is told all the same.
            return []
        return [line.rstrip() for line in lines[-LAST_LINES:]]

    def _frames(self) -> Iterator[Tuple[bytes, bytes]]:
        """Output and end, each once, through restarts: who comes back says how much it has had."""
        attempt, had = 1, {b"o": 0, b"e": 0}
        http_ = self.client.http
        waiting = Patience(http_.home, http_.patience)
        while True:
            place = f"{attempt}.{had[b'o']}.{had[b'e']}"
            try:
                connection, response = http_.open(self._path("log"), **{"from": place})
            except Absent as error:
                waiting.wait(str(error))
                continue
            try:
                for kind, content in _read_frames(response):
                    if kind == b"a" and int.from_bytes(content, "little") != attempt:
                        attempt, had = int.from_bytes(content, "little"), {b"o": 0, b"e": 0}
                    elif kind in had:
                        had[kind] += len(content)
                        yield kind, content
                    elif kind == b"j":
                        yield kind, content
                        return
            except (OSError, http.client.HTTPException):
                pass
            finally:
                connection.close()
            waiting = Patience(http_.home, http_.patience)
            waiting.wait("the connection ended")


def _read_frames(response: http.client.HTTPResponse) -> Iterator[Tuple[bytes, bytes]]:
    while True:
        head = response.read(_HEAD.size)
        if len(head) < _HEAD.size:
            return
        kind, length = _HEAD.unpack(head)
        content = response.read(length)
        if len(content) < length:
            return
        yield kind, content
