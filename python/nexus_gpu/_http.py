"""HTTP over the service's unix socket: one connection a request, patient while a service restarts.

Everything that is sent through here may be sent twice: reads, actions that change nothing the second time, and
submissions, which carry a key. So whatever breaks off is sent again until the service is back or patience ends.
"""

from __future__ import annotations

import http.client
import json
import logging
import os
import socket
import struct
import time
from pathlib import Path
from typing import Any, Callable, Dict, Optional, Tuple
from urllib.parse import urlencode

from . import _home
from .errors import NexusError, NoService, Refused

log = logging.getLogger("nexus_gpu")

# A service that has not begun to answer by then is told about, not waited for.
ANSWER_LIMIT_SECONDS = 60.0

# How long one waits between two looks for a service that is away.
FIRST_LOOK_SECONDS = 0.02
LAST_LOOK_SECONDS = 0.5

# So often a service is started for one submission.
STARTS = 3

# From then on whoever waits is told why.
SILENT_SECONDS = 3.0

# What a service says that goes down, or is too busy for now.
FOR_NOW = ("stopping", "busy")


class Absent(Exception):
    """Nobody listens: nothing was sent."""


class Foreign(OSError):
    """Another user listens: whoever starts a service makes a socket of his own."""


class Connection(http.client.HTTPConnection):
    """A connection to a service of one's own."""

    def __init__(self, home: Path, timeout: Optional[float]) -> None:
        super().__init__("nexus", timeout=timeout)
        self.home = home

    def connect(self) -> None:
        reason: Optional[OSError] = None
        for path in _home.sockets(self.home):
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            sock.settimeout(self.timeout)
            try:
                sock.connect(path)
                _check_owner(sock, path)
            except (FileNotFoundError, ConnectionError, NotADirectoryError, Foreign) as error:
                sock.close()
                reason = error
            except BaseException:
                sock.close()
                raise
            else:
                self.sock = sock
                return
        raise Absent(str(reason) if reason else "there is no socket")


def _check_owner(sock: socket.socket, path: str) -> None:
    """A job's environment is only for a service of one's own: in a shared folder anybody can make a socket."""
    told = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _pid, owner, _group = struct.unpack("3i", told)
    if owner != os.geteuid():
        raise Foreign(f"the socket {path} belongs to another user")


class Http:
    """Requests to the service of one home."""

    def __init__(self, home: Path, patience: float) -> None:
        self.home = home
        self.patience = patience
        # Whether a service was there before: only then is one that is away expected back.
        self.has_met = False

    def get(self, path: str, **query: Any) -> Any:
        return _read(self._patiently("GET", with_query(path, query)))

    def get_bytes(self, path: str, **query: Any) -> bytes:
        return self._patiently("GET", with_query(path, query))

    def post(self, path: str, body: Any, key: Optional[str] = None, start: bool = False) -> Any:
        """`start`: a service is started where there is none."""
        headers = {} if key is None else {"Idempotency-Key": key}
        return _read(self._patiently("POST", path, json.dumps(body).encode(), headers, start))

    def open(self, path: str, **query: Any) -> Tuple[Connection, http.client.HTTPResponse]:
        """An answer that is read as it comes, without a limit of time. Not patient: raises Absent."""
        connection = Connection(self.home, None)
        try:
            connection.request("GET", with_query(path, query))
            response = connection.getresponse()
            if response.status >= 300:
                raise _refusal(response.status, response.read())
        except Refused as refused:
            connection.close()
            if refused.code in FOR_NOW:
                raise Absent(refused.title) from None
            raise
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise Absent(str(error)) from error
        except BaseException:
            connection.close()
            raise
        self.has_met = True
        return connection, response

    def _patiently(
        self,
        method: str,
        path: str,
        body: Optional[bytes] = None,
        headers: Optional[Dict[str, str]] = None,
        start: bool = False,
    ) -> bytes:
        waiting = Patience(self.home, self.patience)
        starts = 0
        while True:
            try:
                answer = self._once(method, path, body, headers or {})
                self.has_met = True
                return answer
            except Absent as error:
                if start and starts < STARTS:
                    starts += 1
                    self._start(starts)
                elif not self.has_met:
                    raise NoService(str(self.home)) from None
                else:
                    waiting.wait(str(error))
            except Refused as refused:
                if refused.code not in FOR_NOW or not waiting.has_time():
                    raise
                waiting.wait(refused.title)
            except (OSError, http.client.HTTPException) as error:
                waiting.wait(f"{type(error).__name__}: {error}")

    def _start(self, number: int) -> None:
        """One that was well before may have been ended by somebody while it came up: that is tried again."""
        try:
            _home.start_service(self.home)
        except NoService:
            if not self.has_met or number == STARTS:
                raise

    def _once(self, method: str, path: str, body: Optional[bytes], headers: Dict[str, str]) -> bytes:
        connection = Connection(self.home, ANSWER_LIMIT_SECONDS)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json", **headers})
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        if response.status >= 300:
            raise _refusal(response.status, content)
        return content


class Patience:
    """Waits for a service to come back, a little longer each time, and says so when it takes long."""

    def __init__(self, home: Path, seconds: float, sleep: Callable[[float], Any] = time.sleep) -> None:
        self.home = home
        self.sleep = sleep
        self.begin = time.monotonic()
        self.deadline = self.begin + seconds
        self.pause = FIRST_LOOK_SECONDS
        self.has_told = False

    def has_time(self) -> bool:
        return time.monotonic() < self.deadline

    def wait(self, why: str) -> None:
        now = time.monotonic()
        if now >= self.deadline:
            raise NoService(str(self.home), f"waited {now - self.begin:.0f} seconds for one: {why}")
        if not self.has_told and now - self.begin > SILENT_SECONDS:
            self.has_told = True
            log.warning("no nexus service answers in %s; waiting for it to come back (nexus start)", self.home)
        self.sleep(min(self.pause, self.deadline - now))
        self.pause = min(self.pause * 2, LAST_LOOK_SECONDS)


def with_query(path: str, query: Dict[str, Any]) -> str:
    """Values that are None are left out."""
    said = {name: _word(value) for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(said)}" if said else path


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _read(content: bytes) -> Any:
    return json.loads(content) if content else None


def _refusal(status: int, content: bytes) -> Exception:
    try:
        problem = json.loads(content)
    except ValueError:
        problem = None
    if isinstance(problem, dict) and "problem" in problem:
        return Refused(problem, status)
    return NexusError(f"the service answered {status}: {content.decode(errors='replace')[:500]}")
