"""What can go wrong, as types: match these, and the code of a refusal, never the text of a message."""

from __future__ import annotations

from typing import Any, List, Mapping, Optional


class NexusError(Exception):
    """Anything that this package raises of its own."""


class Refused(NexusError):
    """The service said no. `code` stays from version to version; `title`, `why` and `hint` are for people."""

    def __init__(self, problem: Mapping[str, Any], status: int) -> None:
        self.code: str = str(problem.get("problem", "unknown"))
        self.title: str = str(problem.get("title") or self.code)
        self.why: Optional[str] = problem.get("why")
        self.hint: Optional[str] = problem.get("hint")
        self.status = status
        self.facts = dict(problem)
        super().__init__(problem, status)

    def __str__(self) -> str:
        return _told(self.title, self.why, self.hint)


class NoService(NexusError):
    """No service answers in the home, and none came back in time."""

    def __init__(self, home: str, why: Optional[str] = None, hint: Optional[str] = "nexus start") -> None:
        self.home = home
        self.why = why
        self.hint = hint
        super().__init__(home, why, hint)

    def __str__(self) -> str:
        return _told(f"no nexus service answers in {self.home}", self.why, self.hint)


class BadOption(NexusError, ValueError):
    """An option that cannot be, seen before anything was sent."""


class CannotPickle(NexusError, TypeError):
    """A call, or what it returned, cannot be taken from one process to another."""


class RemoteError(NexusError):
    """What a call raised, where the exception itself could not be brought back: its text stands for it."""


class JobFailed(NexusError):
    """A job that did not complete: how it ended, and the last lines of its standard error."""

    def __init__(self, job: Mapping[str, Any], last_lines: Optional[List[str]] = None) -> None:
        self.job = dict(job)
        self.id: str = str(job.get("id"))
        self.state: str = str(job.get("state"))
        self.reason: Optional[str] = job.get("reason")
        self.detail: Optional[str] = job.get("detail")
        self.exit_code: Optional[int] = job.get("exit_code")
        self.last_lines = list(last_lines or [])
        super().__init__(job, last_lines)

    def __str__(self) -> str:
        how = self.detail or self.reason or "it did not complete"
        lines = [f"job {self.id} {self.state}: {how}"]
        lines += [f"  | {line}" for line in self.last_lines]
        lines.append(f"hint: nexus why {self.id}")
        return "\n".join(lines)


def _told(title: str, why: Optional[str], hint: Optional[str]) -> str:
    lines = [title]
    if why:
        lines.append(f"  {why}")
    if hint:
        lines.append(f"hint: {hint}")
    return "\n".join(lines)
