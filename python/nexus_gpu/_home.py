"""Where a service is: its home, its socket, and the binary that starts one. Asks nothing of the service itself."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Dict, List, Union

from .errors import NexusError, NoService

# A socket's path has 108 bytes, the last of them a zero.
LONGEST_SOCKET_PATH = 107

# `nexus start` waits for a service that comes up or goes down for 60 seconds at most, and then says so.
START_LIMIT_SECONDS = 120

# Names that only nexus sets in a job: nobody passes them on.
RESERVED = frozenset(
    [
        "CUDA_VISIBLE_DEVICES",
        "CUDA_DEVICE_ORDER",
        "NEXUS_JOB_ID",
        "NEXUS_GPU_ID",
        "NEXUS_ATTEMPT",
        "NEXUS_LAST_FAILURE",
        "NEXUS_RESULTS_DIR",
        "NEXUS_CHECKPOINT_DIR",
        "NEXUS_RUN_DIR",
    ]
)


def is_reserved(name: str) -> bool:
    return name in RESERVED or name.startswith("NEXUS_PARAM_")


def find_home(home: Union[str, "os.PathLike[str]", None]) -> Path:
    """The folder that was named, or that the environment names."""
    named = os.fspath(home) if home is not None else os.environ.get("NEXUS_HOME")
    return Path(os.path.abspath(named)) if named else Path(os.path.expanduser("~")) / ".nexus"


def sockets(home: Path) -> List[str]:
    """Where its service may listen, the likeliest first.

    A home on a network file system has a folder for each host, and its socket elsewhere: the lock file says where.
    """
    folders = [home, home / "hosts" / _hostname()]
    found = [str(home / "nexus.sock")]
    for folder in folders:
        try:
            lines = (folder / "service.lock").read_text().splitlines()
        except (OSError, UnicodeDecodeError):
            continue
        found += lines[1:2]
    return [path for path in dict.fromkeys(found) if len(os.fsencode(path)) <= LONGEST_SOCKET_PATH]


def find_binary() -> str:
    """The binary of this environment, or of the path; `NEXUS_BIN` names another."""
    named = os.environ.get("NEXUS_BIN")
    if named:
        return named
    beside = os.path.join(sysconfig.get_path("scripts"), "nexus")
    if os.access(beside, os.X_OK):
        return beside
    found = shutil.which("nexus")
    if found is None:
        raise NexusError("there is no program nexus here\nhint: pip install nexus-gpu, or set NEXUS_BIN to its path")
    return found


def start_service(home: Path) -> None:
    """Returns when a service answers there, one that ran already included."""
    env = dict(os.environ, NEXUS_HOME=str(home))
    try:
        done = subprocess.run(
            [find_binary(), "start"],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=START_LIMIT_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise NoService(str(home), f"nexus start said nothing for {START_LIMIT_SECONDS} seconds") from None
    except OSError as error:
        raise NoService(str(home), f"{error.filename} cannot be run: {error.strerror}") from error
    if done.returncode != 0:
        # It says itself what to do.
        raise NoService(str(home), done.stdout.decode(errors="replace").strip(), None)


def caller_environment() -> Dict[str, str]:
    """This process's variables as `nexus add` would take them: not those of nexus itself, and only valid text."""
    env = {name: value for name, value in os.environ.items() if _is_text(name + value) and not is_reserved(name)}
    # A pager would wait for a key for ever.
    env.update(PAGER="cat", GIT_PAGER="cat")
    return env


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _hostname() -> str:
    try:
        text = Path("/proc/sys/kernel/hostname").read_text().strip()
    except (OSError, UnicodeDecodeError):
        text = ""
    return text or "localhost"

