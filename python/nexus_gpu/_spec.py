"""From options as a caller says them to the body of a submission. Reads nothing but its arguments."""

from __future__ import annotations

import os
import re
import signal as signals
from datetime import timedelta
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Union

# As a type of other modules too, so that 3.8 can read it.
from typing import TypedDict

from ._home import is_reserved
from .errors import BadOption

Command = Union[str, Sequence[str]]
Duration = Union[str, int, float, timedelta]
Path = Union[str, "os.PathLike[str]"]

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_LONGEST_SECONDS = 36_500 * 86_400
_SIZES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class Options(TypedDict, total=False):
    """What may be said of a job, as `nexus help add` explains it. Nothing is asked for that is not said."""

    name: Optional[str]
    project: Optional[str]
    tags: Union[str, Sequence[str]]
    gpus: Union[int, float]
    vram: Union[str, int, None]
    cpus: Optional[int]
    ram: Union[str, int, None]
    gpu_model: Optional[str]
    on: Union[str, Sequence[int], None]
    machine: Optional[str]
    machine_class: Optional[str]
    priority: int
    time: Optional[Duration]
    signal: Optional[str]
    grace: Optional[Duration]
    retries: int
    retry_on: Union[str, Sequence[str], None]
    after: Any
    after_any: Any
    env: Mapping[str, str]
    conda: Optional[str]
    venv: Optional[Path]
    cwd: Optional[Path]
    out: Optional[Path]
    results: Optional[Path]
    extract: Mapping[str, str]
    unique: bool
    hold: bool
    notify: bool
    force: bool
    tty: Optional[bool]
    gpu_arg: Optional[str]
    export_env: bool


def spec(command: Command, options: Mapping[str, Any], caller: Mapping[str, str]) -> Dict[str, Any]:
    """The body for one job. `caller`: the variables it has from whoever submits it."""
    unknown = sorted(set(options) - set(Options.__annotations__))
    if unknown:
        raise BadOption(f"there is no option {unknown[0]}: {', '.join(sorted(Options.__annotations__))}")
    env, given = _environment(options.get("env") or {}, caller)
    made: Dict[str, Any] = {
        "command": _command(command),
        "cwd": _folder(options.get("cwd")),
        "env": env,
        "env_given": given,
        "request": _request(options),
        "tags": _words(options.get("tags")),
        "after": _ids(options.get("after")),
        "after_any": _ids(options.get("after_any")),
        "retry_on": _words(options.get("retry_on")),
        "extract": [{"name": name, "pattern": pattern} for name, pattern in (options.get("extract") or {}).items()],
    }
    for name in ("name", "project", "conda", "gpu_arg", "tty"):
        made[name] = options.get(name)
    for name in ("out", "results"):
        made[name] = None if options.get(name) is None else os.path.abspath(options[name])
    made["venv"] = None if options.get("venv") is None else os.fspath(options["venv"])
    for name in ("priority", "retries", "unique", "hold", "notify", "export_env"):
        if options.get(name):
            made[name] = options[name]
    return {name: value for name, value in made.items() if value not in (None, [], {})}


def _command(command: Command) -> Dict[str, Any]:
    if isinstance(command, str):
        return {"shell": command}
    words = [os.fspath(word) if isinstance(word, os.PathLike) else word for word in command]
    for word in words:
        if not isinstance(word, str):
            raise BadOption(f"a command is a text, or a list of texts: {word!r} is none")
    return {"argv": words}


def _request(options: Mapping[str, Any]) -> Dict[str, Any]:
    gpus = options.get("gpus")
    request = {
        "gpus": int(gpus) if isinstance(gpus, float) and gpus.is_integer() else gpus,
        "vram_mib": "auto" if options.get("vram") == "auto" else _said(options, "vram", mebibytes),
        "cpus": options.get("cpus"),
        "ram_mib": _said(options, "ram", mebibytes),
        "gpu_model": options.get("gpu_model"),
        "on": _said(options, "on", gpu_list),
        "machine": options.get("machine"),
        "class": options.get("machine_class"),
        "time_seconds": _said(options, "time", seconds),
        "signal": _said(options, "signal", signal_before),
        "grace_seconds": _said(options, "grace", seconds),
        "force": options.get("force") or None,
    }
    return {name: value for name, value in request.items() if value is not None}


def _said(options: Mapping[str, Any], name: str, read: Callable[[str, Any], Any]) -> Any:
    value = options.get(name)
    return None if value is None else read(name, value)


def seconds(option: str, value: Duration) -> int:
    """`4h`, `1.5h`, `2:30:00`, `timedelta(hours=4)`, or a number of seconds; rounded up, so that none becomes nothing."""
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if value < 0:
            raise BadOption(f"{option}={value} is no time")
        return int(-(-value // 1))
    try:
        return duration(str(value))
    except ValueError as instead:
        raise BadOption(f"{option}={value!r} is no time: {instead}") from None


def duration(text: str) -> int:
    """What a text says in seconds; a ValueError says what to write instead. crates/api/cases/values.json is what this reader and
    the service's are tested with."""
    two = re.fullmatch(r"([0-9]+):([0-5][0-9])", text)
    if two:
        first, second = map(int, two.groups())
        raise ValueError(f"{first}h{second}m or {first}m{second}s")
    if re.fullmatch(r"[0-9]+", text):
        raise ValueError(f"{text}s, {text}m, {text}h or {text}d")
    found = _of_clock(text)
    if found is None:
        found = _with_units(text)
    if found is None:
        raise ValueError("90s, 30m, 4h or 1h30m")
    if found > _LONGEST_SECONDS:
        raise ValueError("36500d at most")
    return found


def _of_clock(text: str) -> Optional[int]:
    parts = re.fullmatch(r"(?:([0-9]+)-(?=(?:[01][0-9]|2[0-3]):))?([0-9]+):([0-5][0-9]):([0-5][0-9])", text)
    if not parts:
        return None
    days, hours, minutes, seconds_ = (int(part or 0) for part in parts.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds_


def _with_units(text: str) -> Optional[int]:
    if not re.fullmatch(r"(?:[0-9]+(?:\.[0-9]{1,6})?[smhd])+", text):
        return None
    total = 0
    for number, unit in re.findall(r"([0-9.]+)([smhd])", text):
        millionths = _millionths(number) * _UNITS[unit]
        if millionths % 1_000_000:
            return None
        total += millionths // 1_000_000
    return total


def _millionths(number: str) -> int:
    whole, _, part = number.partition(".")
    return int(whole) * 1_000_000 + int(part.ljust(6, "0"))


def mebibytes(option: str, value: Union[str, int]) -> int:
    """`8G`, `512M`, or a number of MiB; rounded up."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]{1,6})?)\s*(?:([KMGT])(?:i?B)?|B)", str(value), re.IGNORECASE)
    size = _millionths(found.group(1)) * _SIZES[(found.group(2) or "").upper()] // 1_000_000 if found else 1 << 60
    if size >= 1 << 60:
        raise BadOption(f"{option}={value!r} is no size: a number and its unit, as in 512M or 8G")
    return -(-size // (1 << 20))


def gpu_list(option: str, value: Union[str, Iterable[int]]) -> List[int]:
    """`0-3,5`, or the numbers themselves."""
    if not isinstance(value, str):
        return sorted(set(value))
    found: List[int] = []
    for part in value.split(","):
        ends = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
        if not ends:
            raise BadOption(f"{option}={value!r} is no list of GPUs, as in 0-3,5")
        found += range(int(ends.group(1)), int(ends.group(2) or ends.group(1)) + 1)
    return sorted(set(found))


def signal_before(option: str, value: str) -> Dict[str, int]:
    """`USR1@120s`"""
    name, at, before = value.partition("@")
    number = getattr(signals, f"SIG{name.upper()[3:] if name.upper().startswith('SIG') else name.upper()}", None)
    if not at or number is None:
        raise BadOption(f"{option}={value!r} is no signal and the time before the end, as in USR1@120s")
    return {"signal": int(number), "before_seconds": seconds(option, before)}


def _environment(given: Mapping[str, str], caller: Mapping[str, str]) -> "tuple[Dict[str, str], List[str]]":
    for name, value in given.items():
        if is_reserved(name):
            raise BadOption(f"env: {name} is set by nexus itself; gpus=N and on='0-3' choose GPUs")
        if not isinstance(value, str):
            raise BadOption(f"env: the value of {name} is no text: {value!r}")
    return {**caller, **given}, sorted(given)


def _folder(cwd: Optional[Path]) -> str:
    """The caller's own where nothing is said; `~` is that of the machine the job runs on."""
    if cwd is not None and os.fspath(cwd).startswith("~"):
        return os.fspath(cwd)
    return os.path.abspath(cwd) if cwd is not None else os.getcwd()


def _words(said: Union[str, Sequence[str], None]) -> List[str]:
    return [said] if isinstance(said, str) else list(said or [])


def _ids(jobs: Any) -> List[str]:
    """A job, an id, or several of them."""
    if jobs is None:
        return []
    several = [jobs] if isinstance(jobs, str) or hasattr(jobs, "id") else list(jobs)
    return [job if isinstance(job, str) else str(job.id) for job in several]
