#!/usr/bin/env python3
"""Several users of one machine, each with a service and as many short jobs, on made-up GPUs: who gets how much of them, how long
a GPU is idle between two jobs, and whether a job fails.

    bench/users.py NEXUS LIBNVIDIA_ML [--users 3] [--jobs 200] [--gpus 1] [--sleep 0.5]

NEXUS is a binary, LIBNVIDIA_ML the libnvidia_ml.so of crates/fake-nvml. Needs root, and setpriv: users 61001 and on need no
account. Run it by turns with another binary, since a busy machine is another one an hour later. Shares are those of the time in
which all users still had jobs. Prints one line of JSON.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

FIRST_USER = 61001


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nexus")
    parser.add_argument("library")
    parser.add_argument("--users", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--sleep", default="0.5")
    parser.add_argument("--limit", type=float, default=1800, help="seconds after which it gives up")
    return parser.parse_args()


class User:
    """A home with its service."""

    def __init__(self, number, place, stage):
        self.number, self.stage = number, stage
        self.home = place / f"u{number}"
        self.home.mkdir()
        os.chown(self.home, number, number)
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "NEXUS_HOME": str(self.home / "nexus"),
            "NEXUS_NVML": str(stage / "libnvidia-ml.so.1"),
            "FAKE_NVML": str(stage / "gpus.json"),
            "NEXUS_GPU_LOCKS": str(stage / "locks"),
        }

    def run(self, *words, text=None):
        user = ["setpriv", f"--reuid={self.number}", f"--regid={self.number}", "--clear-groups"]
        command = [*user, str(self.stage / "nexus"), *words]
        done = subprocess.run(command, env=self.env, cwd=self.home, input=text, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{words} of {self.number}: {done.stdout}{done.stderr}")
        return done.stdout


def quantile(values, part):
    return sorted(values)[min(len(values) - 1, int(len(values) * part))] if values else 0


def figures(stamps, users):
    """Shares while all still had jobs, and what lay between two jobs on one GPU."""
    runs = sorted((int(begin), int(end), int(user), gpu) for user, gpu, begin, end in stamps)
    last_begin = {user.number: max(run[0] for run in runs if run[2] == user.number) for user in users}
    until = min(last_begin.values())
    busy = {user.number: sum(min(run[1], until) - run[0] for run in runs if run[2] == user.number and run[0] < until) for user in users}
    part = sum(busy.values()) / len(users)
    gaps = []
    for gpu in {run[3] for run in runs}:
        there = [run for run in runs if run[3] == gpu and run[0] <= until]
        gaps += [(after[0] - before[1]) / 1e6 for before, after in zip(there, there[1:])]
    overlaps = sum(gap < 0 for gap in gaps)
    changes = sum(before[2] != after[2] for before, after in zip(runs, runs[1:]))
    return {
        "shares_percent": [round(100 * busy[user.number] / part, 1) for user in users],
        "idle_ms_p50": round(quantile(gaps, 0.5), 1),
        "idle_ms_p99": round(quantile(gaps, 0.99), 1),
        "idle_ms_max": round(max(gaps), 1),
        "two_on_a_gpu": overlaps,
        "changes_of_user": changes,
        "runs": len(runs),
    }


def main():
    asked = parsed()
    place = pathlib.Path(tempfile.mkdtemp(prefix="nexus-users-"))
    place.chmod(0o755)
    stage = place / "stage"
    stage.mkdir()
    shutil.copy(asked.nexus, stage / "nexus")
    shutil.copy(asked.library, stage / "libnvidia-ml.so.1")
    (stage / "locks").mkdir()
    (stage / "locks").chmod(0o1777)
    gpus = [{"uuid": f"GPU-{chr(97 + index) * 8}-0000-0000-0000-000000000000"} for index in range(asked.gpus)]
    (stage / "gpus.json").write_text(json.dumps({"gpus": gpus}))
    stamps = stage / "stamps"
    stamps.write_text("")
    stamps.chmod(0o666)
    users = [User(FIRST_USER + number, place, stage) for number in range(asked.users)]
    command = f"b=$(date +%s%N); sleep {asked.sleep}; echo $(id -u) $NEXUS_GPU_ID $b $(date +%s%N) >> {stamps}\n"
    try:
        for user in users:
            user.run("start")
            user.run("pause")
            user.run("import", "-", "--format", "lines", "--again", text=command * asked.jobs)
        begin = time.monotonic()
        for user in users:
            user.run("resume")
        while True:
            states = [json.loads(user.run("status", "--json")) for user in users]
            if all(state["pending"] == 0 and not state["active"] for state in states):
                break
            if time.monotonic() - begin > asked.limit:
                raise SystemExit(f"not done after {asked.limit} s")
            time.sleep(2)
        seconds = time.monotonic() - begin
        found = figures([line.split() for line in stamps.read_text().splitlines()], users)
        found["failed"] = sum(state["failed"] for state in states)
        found["completed"] = sum(state["completed"] for state in states)
        logs = [(user.home / "nexus/service.log").read_text() for user in users]
        found["lost_races"] = sum(log.count("did not start on GPU") for log in logs)
        found["seconds"] = round(seconds, 1)
        print(json.dumps(found))
    finally:
        for user in users:
            user.run("stop", "-y")
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
