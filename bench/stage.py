"""What the measurements need: a nexus in a home of its own, a gate that jobs wait at, and the stamps they leave."""

import json
import os
import pathlib
import sqlite3
import subprocess
import tempfile
import time

LIMIT_S = 300


class Stamps:
    """The file that stamp programs append to."""

    def __init__(self, folder):
        self.path = tempfile.mktemp(prefix="stamps-", dir=folder)
        open(self.path, "w").close()

    def lines(self):
        with open(self.path) as file:
            rows = [line.split() for line in file]
        return [(what, label, int(at)) for what, label, at, _ in rows]

    def wait(self, what, number):
        """Reads what has come since the last look, and no more: the processors it takes are those that are measured."""
        mark, seen = f"{what} ".encode(), 0
        with open(self.path, "rb") as file:

            def are_there():
                nonlocal seen
                while (line := file.readline()).endswith(b"\n"):
                    seen += line.startswith(mark)
                # The beginning of a line waits for the rest of it.
                file.seek(-len(line), os.SEEK_CUR)
                return seen >= number

            until(f"{number} stamps {what}", are_there)

    def times(self, what):
        """Of all but those at the gate."""
        return sorted(at for kind, label, at in self.lines() if kind == what and label != "gate")

    def gaps_ms(self):
        """From the end of each job to the start of the next, where one runs at a time."""
        starts, ends = self.times("S"), self.times("E")
        return [(start - end) / 1e6 for end, start in zip(ends, starts[1:])]


class Gate:
    """Jobs that wait here all go on at the same moment."""

    def __init__(self, folder):
        self.path = tempfile.mktemp(prefix="gate-", dir=folder)
        os.mkfifo(self.path)
        self.held = os.open(self.path, os.O_RDWR)

    def open(self):
        """When it was opened, in the stamps' time."""
        at = time.monotonic_ns()
        os.close(self.held)
        return at


class Home:
    """A home of nexus with simulated GPUs, and its service."""

    def __init__(self, nexus, gpus):
        self.nexus = nexus
        self.root = tempfile.mkdtemp(prefix="nxb-")
        self.env = dict(os.environ, NEXUS_HOME=self.root + "/home")
        for name in [name for name in self.env if name.startswith("NEXUS_") and name != "NEXUS_HOME"]:
            del self.env[name]
        self.run("start", "--simulate-gpus", str(gpus))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run([self.nexus, "stop", "-y"], env=self.env, capture_output=True)
        # Its files stay until all is measured: deleting them would make the next home's dearer.

    def run(self, *words):
        done = subprocess.run([self.nexus, *words], env=self.env, cwd=self.root, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"nexus {' '.join(words)}: exit {done.returncode}\n{done.stderr}")
        return done.stdout

    def timed_ms(self, *words):
        begin = time.monotonic_ns()
        self.run(*words)
        return (time.monotonic_ns() - begin) / 1e6

    def block(self, stamp, gpus):
        """Takes all GPUs with jobs that wait at a gate."""
        gate, stamps = Gate(self.root), Stamps(self.root)
        self.run("add", "-x", str(gpus), "--", stamp, stamps.path, "gate", "0", gate.path)
        stamps.wait("S", gpus)
        return gate

    def service(self):
        return json.loads(self.run("doctor", "--json"))["service"]["pid"]

    def socket(self):
        """Where the service says that it listens."""
        with open(self.env["NEXUS_HOME"] + "/service.lock") as file:
            return file.read().split("\n")[1]

    def processes(self, name):
        """Processes of this home that go by this name."""
        mark = b"NEXUS_HOME=" + self.env["NEXUS_HOME"].encode()
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/comm") as comm, open(f"/proc/{pid}/environ", "rb") as environment:
                    if comm.read().strip() == name and mark in environment.read().split(b"\0"):
                        found.append(int(pid))
            except OSError:
                continue
        return found

    def rest(self):
        """Waits until what ended runs needed is tidied away, which is done slowly on purpose: ten a second."""
        logs = pathlib.Path(self.env["NEXUS_HOME"], "logs")
        until("all runs are tidied", lambda: not any(logs.glob("*/started")), 0.5)

    def fill(self, count):
        """Puts ended jobs into the database, as copies of one that ran."""
        self.run("add", "--quiet", "true")
        self.run("wait", "--all")
        self.run("stop")
        database = sqlite3.connect(self.env["NEXUS_HOME"] + "/nexus.db")
        database.row_factory = sqlite3.Row
        job = dict(database.execute("SELECT * FROM jobs").fetchone())
        run = dict(database.execute("SELECT * FROM runs").fetchone())
        jobs, runs = [], []
        for number in range(1, count + 1):
            n = job["n"] + number
            later = {"n": n, "ended_at": job["ended_at"] + number}
            jobs.append({**job, **later, "id": letters(number), "turn": n, "command": f"true {number}"})
            runs.append({**run, **later, "tidied": 1})
        with database:
            insert(database, "jobs", jobs)
            insert(database, "runs", runs)
            database.execute("UPDATE totals SET count = count + ? WHERE state = 'completed'", [count])
        database.close()
        self.run("start")


def insert(database, table, rows):
    names = list(rows[0])
    marks = ", ".join(f":{name}" for name in names)
    database.executemany(f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks})", rows)


def letters(number):
    """An id that nexus would not give to one of the first jobs."""
    alphabet, text = "abcdefghijkmnopqrstuvwxyz", ""
    for _ in range(6):
        number, digit = divmod(number, len(alphabet))
        text += alphabet[digit]
    return text


def until(what, holds, pause_s=0.01):
    begin = time.monotonic()
    while not holds():
        if time.monotonic() - begin > LIMIT_S:
            raise SystemExit(f"not within {LIMIT_S} s: {what}")
        time.sleep(pause_s)


def cpu_ms(pid):
    """CPU time of a process so far, threads that have ended included: its clock, as clock_getcpuclockid(3) names it."""
    return time.clock_gettime_ns((~pid << 3) | 2) / 1e6


def memory_kb(pid, what):
    with open(f"/proc/{pid}/smaps_rollup") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(what + ":"))
