#!/usr/bin/env python3
"""exported.py COUNT FILE: ended jobs as `nexus export` writes them, for measurements of those who read them."""

import json
import sys
import time

from stage import letters

BEGIN = 1_700_000_000


def at(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%S.", time.gmtime(BEGIN + seconds)) + "000Z"


def run(number, code):
    outcome = {"word": "exit" if code else "completed", "exit_code": code, "signal": None, "error": None}
    times = {"planned_at": at(number), "started_at": at(number), "ended_at": at(number + 60)}
    place = {"machine": "local", "gpus": [number % 8], "pid": 1000 + number % 30000}
    held = {"part": None, "vram_mib": None, "peak_vram_mib": 4096 + number % 100}
    log_dir = f"/home/ann/.nexus/logs/job_{letters(number)}"
    return {"attempt": 1, **place, **times, "outcome": outcome, "log_dir": log_dir, **held}


def job(number):
    """A training of a sweep: the command differs in its numbers; every tenth failed."""
    code = 1 if number % 10 == 0 else 0
    one = run(number, code)
    request = {"gpus": 1, "cpus": None, "on": None, "time_seconds": None, "signal": None, "grace_seconds": None}
    return {
        "format": 1,
        "id": letters(number),
        "name": None,
        "project": "vision",
        "command": f"python train.py --model resnet50 --lr {number % 97 / 1000} --seed {number}",
        "argv": None,
        "state": "failed" if code else "completed",
        "reason": "exit" if code else None,
        "detail": "it exited with code 1" if code else None,
        "waiting": None,
        "exit_code": code,
        "signal": None,
        "request": {**request, "force": False},
        "machine": "local",
        "class": None,
        "gpus": one["gpus"],
        "pid": one["pid"],
        "priority": 0,
        "attempt": 1,
        "retries": 0,
        "tags": ["night"],
        "sweep": None,
        "params": None,
        "submitted_at": at(number - 5),
        "started_at": one["started_at"],
        "ended_at": one["ended_at"],
        "runtime_seconds": 60.0,
        "cwd": "/home/ann/vision",
        "log_dir": one["log_dir"],
        "stdout_path": one["log_dir"] + "/stdout.log",
        "stderr_path": one["log_dir"] + "/stderr.log",
        "results": None,
        "results_state": "none",
        "links": [],
        "simulated": False,
        "position": None,
        "rerun_of": None,
        "runs": [one],
        "env": {"SEED": "3"},
    }


def write(count, path):
    with open(path, "w") as file:
        for number in range(count):
            file.write(json.dumps(job(number), separators=(",", ":")) + "\n")


if __name__ == "__main__":
    write(int(sys.argv[1]), sys.argv[2])
