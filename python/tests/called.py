"""Functions that tests call in jobs: in a module of their own, so that a job finds them by name."""
import os
import pathlib
import signal
import sys
import threading
import time


def square(number):
    return number * number


def keywords(*args, **kwargs):
    return args, kwargs


def surroundings():
    return {"gpus": os.environ["CUDA_VISIBLE_DEVICES"], "cwd": os.getcwd(), "id": os.environ["NEXUS_JOB_ID"]}


def fail(number):
    raise ValueError(f"{number} is too many")


class Odd(Exception):
    """Can be written by pickle, and not be read again."""

    def __init__(self, one, other):
        super().__init__(one)


def fail_oddly():
    raise Odd("first", "second")


def vanish():
    print("going down", file=sys.stderr, flush=True)
    os._exit(7)


def locked():
    """What no pickle can hold."""
    return threading.Lock()


def gated(gate, value):
    """Says that it runs, and goes on when somebody makes the gate."""
    pathlib.Path(f"{gate}.{value}.begun").touch()
    deadline = time.monotonic() + 60
    while not os.path.exists(gate):
        assert time.monotonic() < deadline, "nobody opened the gate"
        time.sleep(0.01)
    return value


def stubborn(gate, value):
    """Does not heed a polite request to end."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return gated(gate, value)


def second_time(mark):
    """Fails once."""
    if not os.path.exists(mark):
        pathlib.Path(mark).touch()
        raise RuntimeError("not the first time")
    return int(os.environ["NEXUS_ATTEMPT"])
