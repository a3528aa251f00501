"""Hears of jobs' changes for everybody in this process who waits for some: one connection, one thread.

    no watch ──watch──> listening ──the service goes──> looking ──it is back──> listening
       ^                   │                               │
       └──the last watch───┘                               └──patience ends──> every watch is told

To miss nothing it listens first and then reads the state, anew with every connection, so that the number of the last
event need not be kept. Who begins to watch while it listens reads the state of its jobs by itself.
"""

from __future__ import annotations

import http.client
import json
import socket
import threading
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Set

from ._http import Absent, Connection, Http, Patience, log
from .errors import NexusError, NoService, Refused

ENDS = ("completed", "failed", "killed")

# Ids in one request: its path has a limit.
IDS_AT_ONCE = 200

Job = Mapping[str, Any]


class Watch:
    """Somebody who waits for jobs. Its functions are called by the listening thread, or by the one that began it."""

    def __init__(self, changed: Callable[[str, str, Optional[Job]], None], broke: Callable[[str, Exception], None]) -> None:
        """`changed(id, state, job)`: the job comes with its end. `broke(id, error)`: nothing more will be heard."""
        self.changed = changed
        self.broke = broke
        self.ids: Set[str] = set()


class Listener:
    """The one connection, while anybody watches."""

    def __init__(self, http_: Http) -> None:
        self.http = http_
        self.lock = threading.Lock()
        self.watches: Set[Watch] = set()
        self.thread: Optional[threading.Thread] = None
        self.connection: Optional[Connection] = None
        self.is_listening = False
        # Whoever leaves wakes a thread that waits for the service to come back.
        self.nobody = threading.Event()

    def add(self, watch: Watch, ids: Iterable[str]) -> None:
        """Begins to watch; what has happened already is told before this returns, if a service is there."""
        ids = list(ids)
        with self.lock:
            watch.ids.update(ids)
            self.watches.add(watch)
            self.nobody.clear()
            is_listening = self.is_listening
            if self.thread is None:
                self.thread = threading.Thread(target=self._run, name="nexus_gpu events", daemon=True)
                self.thread.start()
        if is_listening:
            self._tell_state(ids)

    def remove(self, watch: Watch) -> None:
        with self.lock:
            self.watches.discard(watch)
            if self.watches:
                return
            self.nobody.set()
            connection = self.connection
        if connection is not None:
            _hang_up(connection)

    def _run(self) -> None:
        waiting = Patience(self.http.home, self.http.patience, self.nobody.wait)
        while True:
            with self.lock:
                if not self.watches:
                    self.thread = None
                    return
            try:
                self._listen()
                waiting = Patience(self.http.home, self.http.patience, self.nobody.wait)
                waiting.wait("the connection ended")
            except Absent as error:
                try:
                    waiting.wait(str(error))
                except NoService as gone:
                    self._give_up(gone)
            except NexusError as error:
                self._give_up(error)
            except Exception as error:
                # A bug must not leave others waiting for ever.
                log.exception("the listening thread broke")
                self._give_up(error)

    def _listen(self) -> None:
        """Returns when the connection ends; raises Absent where there is none to be had."""
        connection, response = self.http.open("/v1/events")
        try:
            with self.lock:
                self.connection = connection
                self.is_listening = True
                ids = {id for watch in self.watches for id in watch.ids}
            self._tell_state(sorted(ids))
            for event in _events(response):
                self._hear(event)
        except (OSError, http.client.HTTPException):
            # A connection that breaks off says the same as one that ends.
            pass
        finally:
            with self.lock:
                self.is_listening = False
                self.connection = None
            connection.close()

    def _hear(self, event: Dict[str, Any]) -> None:
        if event.get("kind") == "missed":
            with self.lock:
                ids = {id for watch in self.watches for id in watch.ids}
            self._tell_state(sorted(ids))
        elif event.get("kind") == "job" and self._watching(event["id"]):
            if event["state"] in ENDS:
                self._tell_state([event["id"]])
            else:
                self._tell(event["id"], event["state"], None)

    def _watching(self, id: str) -> List[Watch]:
        with self.lock:
            return [watch for watch in self.watches if id in watch.ids]

    def _tell_state(self, ids: List[str]) -> None:
        """Reads how jobs stand and tells it."""
        ids = list(ids)
        while ids:
            some = ids[:IDS_AT_ONCE]
            try:
                jobs = self.http.get("/v1/jobs", select="\n".join(some))
            except Refused as refused:
                gone = refused.facts.get("id")
                if refused.code != "no_such_job" or gone not in ids:
                    raise
                # Forgotten while somebody waited for it.
                ids.remove(gone)
                self._break([gone], refused)
                continue
            for job in jobs:
                self._tell(job["id"], job["state"], job if job["state"] in ENDS else None)
            ids = ids[IDS_AT_ONCE:]

    def _tell(self, id: str, state: str, job: Optional[Job]) -> None:
        for watch in self._watching(id):
            if job is not None:
                with self.lock:
                    if id not in watch.ids:
                        continue
                    watch.ids.discard(id)
            watch.changed(id, state, job)

    def _break(self, ids: Iterable[str], error: Exception) -> None:
        for id in ids:
            for watch in self._watching(id):
                with self.lock:
                    watch.ids.discard(id)
                watch.broke(id, error)

    def _give_up(self, error: Exception) -> None:
        with self.lock:
            ids = {id for watch in self.watches for id in watch.ids}
            watches, self.watches = self.watches, set()
        for watch in watches:
            for id in sorted(ids & watch.ids):
                watch.broke(id, error)


def _events(response: http.client.HTTPResponse) -> Iterator[Dict[str, Any]]:
    """Events as they come, to the end of the connection. Those that cannot be read are passed over."""
    data: List[str] = []
    while True:
        line = response.readline()
        if not line:
            return
        text = line.decode(errors="replace").rstrip("\r\n")
        if text.startswith("data:"):
            data.append(text[5:].lstrip(" "))
        elif not text and data:
            try:
                event = json.loads("\n".join(data))
            except ValueError:
                event = None
            data = []
            if isinstance(event, dict):
                yield event


def _hang_up(connection: Connection) -> None:
    """Wakes whoever reads from it."""
    try:
        if connection.sock is not None:
            connection.sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        # It is gone already.
        pass
