"""Calls and what becomes of them as bytes: what one process writes and another reads. The job's own program is `_call`."""

from __future__ import annotations

import io
import pickle
import sys
from types import FunctionType
from typing import Any, Callable, Dict, Tuple

from .errors import CannotPickle, NexusError, RemoteError

# Of both files. A reader refuses what is newer than itself.
FORMAT = 1


class RemoteTraceback(Exception):
    """Stands behind an exception that was raised in a job: where, as text."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'


class _Strict(pickle.Pickler):
    """Refuses what only this program's own file defines: by its name a job would look for it in another program."""

    def reducer_override(self, thing: Any) -> Any:
        if isinstance(thing, (FunctionType, type)) and thing.__module__ == "__main__":
            raise CannotPickle(f"{thing.__qualname__} is defined in the program itself, where a job cannot find it")
        return NotImplemented


def dumps(thing: Any) -> bytes:
    """By cloudpickle where it is installed, which takes lambdas and functions of the program itself too."""
    try:
        import cloudpickle  # type: ignore[import-untyped,import-not-found,unused-ignore]
    except ImportError:
        return _strictly(thing)
    try:
        made: bytes = cloudpickle.dumps(thing)
        return made
    except Exception as error:
        raise CannotPickle(f"{_short(thing)} cannot be pickled: {error}") from error


def _strictly(thing: Any) -> bytes:
    into = io.BytesIO()
    try:
        _Strict(into, pickle.HIGHEST_PROTOCOL).dump(thing)
    except Exception as error:
        why = str(error) if isinstance(error, CannotPickle) else f"{_short(thing)} cannot be pickled: {error}"
        raise CannotPickle(f"{why}\nhint: put it into a module, or pip install cloudpickle") from error
    return into.getvalue()


def call(function: Callable[..., Any], args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> bytes:
    """A call, and where modules are found: the outer part can be read before any of them is."""
    payload = dumps((function, args, kwargs))
    return pickle.dumps({"format": FORMAT, "path": list(sys.path), "payload": payload}, protocol=4)


def outcome(content: bytes) -> Any:
    """What a call returned; raises what it raised, with the place in the job as its cause."""
    told = pickle.loads(content)
    if told["format"] > FORMAT:
        raise NexusError("the job wrote its outcome with a newer version of nexus_gpu than this one")
    try:
        thing = pickle.loads(told["payload"])
    except Exception as error:
        raise CannotPickle(f"what the job sent back cannot be read here: {error}\n{told['text']}") from error
    if told["returned"]:
        return thing
    if not isinstance(thing, BaseException):
        thing = RemoteError(told["text"])
    thing.__cause__ = RemoteTraceback(told["traceback"])
    raise thing


def told(returned: bool, thing: Any, traceback: str) -> bytes:
    """What a call returned or raised, for `outcome`. What cannot be sent is told in words, as something raised."""
    text = _short(thing)
    try:
        payload = dumps(thing)
        if not returned:
            # Many exceptions can be written and not be read again.
            pickle.loads(payload)
    except Exception as error:
        instead = CannotPickle(f"what the call returned, {error}") if returned else RemoteError(text)
        returned, payload = False, pickle.dumps(instead)
    made = {"format": FORMAT, "returned": returned, "payload": payload, "traceback": traceback, "text": text}
    return pickle.dumps(made, protocol=4)


def _short(thing: Any) -> str:
    """So much of it as a message can hold."""
    try:
        text = f"{type(thing).__name__}: {thing}" if isinstance(thing, BaseException) else repr(thing)
    except Exception:
        text = f"a {type(thing).__name__}"
    return text if len(text) <= 300 else f"{text[:300]}…"
