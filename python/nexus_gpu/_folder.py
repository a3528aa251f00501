"""The folder of an Executor's calls: private, held while its process lives, and cleared away by the next one if that died."""

from __future__ import annotations

import fcntl
import os
import shutil
import uuid
from pathlib import Path
from typing import Callable, Optional

OWNER = "owner"

# A folder that is being made: not looked at by others.
NEW = "new-"


class Folder:
    """`HOME/calls/TOKEN`, 0700: a call may hold anything."""

    def __init__(self, home: Path) -> None:
        self.token = uuid.uuid4().hex[:10]
        self.path = home / "calls" / self.token
        self._held: Optional[int] = None

    def make(self) -> None:
        # The home may not be there yet, and a service takes none that is open to others.
        for folder in (self.path.parents[1], self.path.parent):
            folder.parent.mkdir(parents=True, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)
        new = self.path.with_name(NEW + self.token)
        new.mkdir(mode=0o700)
        # The lock goes with this process, however it ends.
        self._held = os.open(str(new / OWNER), os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._held, fcntl.LOCK_EX)
        new.rename(self.path)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        if self._held is not None:
            os.close(self._held)
            self._held = None

    def leave(self) -> None:
        """For jobs that still need it; the next one clears it away."""
        if self._held is not None:
            os.close(self._held)
            self._held = None

    def clear_others(self, is_needed: Callable[[str], bool]) -> None:
        """Takes away what processes left that are gone. `is_needed(token)`: whether jobs of it are alive."""
        for other in sorted(self.path.parent.iterdir()):
            if other == self.path or other.name.startswith(NEW) or not _is_free(other / OWNER):
                continue
            if not is_needed(other.name):
                shutil.rmtree(other, ignore_errors=True)


def _is_free(file: Path) -> bool:
    try:
        opened = os.open(str(file), os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except OSError:
        return False
    finally:
        os.close(opened)
