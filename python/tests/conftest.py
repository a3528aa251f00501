"""A home of its own for each test, with the real binary and a service that has simulated GPUs."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any

import pytest

# The packages as they stand beside the tests, for this process and for those that it starts.
SOURCES = str(pathlib.Path(__file__).parents[1])
sys.path.insert(0, SOURCES)

BINARY = os.environ.get("NEXUS_BIN") or str(pathlib.Path(__file__).parents[2] / "target/debug/nexus")


class Nexus:
    """nexus as somebody would type it, in a home of its own."""

    def __init__(self, home: pathlib.Path) -> None:
        self.binary = BINARY
        self.home = home
        self.env = {
            **os.environ,
            "NEXUS_HOME": str(home),
            "NEXUS_NVML": "/dev/null",
            "NEXUS_NVIDIA_SMI": "/dev/null",
            "NEXUS_GPU_LOCKS": str(home / "locks"),
            "NO_COLOR": "1",
            "NEXUS_BIN": self.binary,
            "PYTHONPATH": SOURCES,
            "PATH": f"{pathlib.Path(BINARY).parent}{os.pathsep}{os.environ['PATH']}",
        }

    def run(self, *words: str, code: "int | None" = 0) -> str:
        """What it prints; another exit code than this one is a failure of the test, None takes any."""
        done = subprocess.run([self.binary, *words], env=self.env, capture_output=True, text=True, timeout=120)
        assert code is None or done.returncode == code, f"nexus {' '.join(words)}: {done}"
        return done.stdout

    def ask(self, *words: str):
        """The same with --json, read."""
        return json.loads(self.run(*words, "--json"))

    def alive(self) -> list:
        """Ids of the jobs that wait or run."""
        return [job["id"] for job in self.ask("ls")]

    def kill_service(self) -> None:
        """As a crash would: without a word to anybody."""
        pid = int((self.home / "service.lock").read_text().split()[0])
        os.kill(pid, 9)
        until(lambda: not pathlib.Path(f"/proc/{pid}").exists() or _is_zombie(pid), "the service is gone")


def _is_zombie(pid: int) -> bool:
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


def until(holds, what: str, seconds: float = 60.0):
    """Waits for a condition; what it gave when it held."""
    deadline = time.monotonic() + seconds
    while True:
        found = holds()
        if found:
            return found
        assert time.monotonic() < deadline, f"not in {seconds} seconds: {what}"
        time.sleep(0.02)


def interrupt_twice(nexus: Nexus, program: "subprocess.Popen[Any]") -> None:
    """A program with four stubborn jobs leaves at the second Ctrl-C, with their end asked for; they are shot then."""
    program.send_signal(signal.SIGINT)
    until(lambda: len(nexus.alive()) == 4, "those that waited are taken out")
    assert program.poll() is None, "it waits for those that run"
    program.send_signal(signal.SIGINT)
    program.communicate(timeout=60)
    left = nexus.ask("ls")
    assert len(left) == 4, "they have five minutes"
    for job in left:
        os.kill(job["pid"], signal.SIGKILL)
    until(lambda: nexus.alive() == [], "they are gone")


@pytest.fixture
def nexus(monkeypatch):
    """A service with four simulated GPUs; this process has its environment, so a client finds it without a word."""
    home = pathlib.Path(tempfile.mkdtemp(prefix="nexus-py-"))
    made = Nexus(home)
    for name in ("NEXUS_HOME", "NEXUS_NVML", "NEXUS_NVIDIA_SMI", "NEXUS_GPU_LOCKS", "NEXUS_BIN", "PYTHONPATH", "PATH"):
        monkeypatch.setenv(name, made.env[name])
    made.run("start", "--simulate-gpus", "4")
    yield made
    made.run("stop", "-y", code=None)
    shutil.rmtree(home, ignore_errors=True)
