"""What nexus is held against: a bare loop of fork, exec and wait, and a disk that is told to keep something."""

import shutil
import subprocess
import tempfile
import time

from measures import GPUS, JOB_MS, launched
from stage import Stamps

SYNCS = 200


def gap(bench, kind):
    """One at a time, jobs of 20 ms: from each end to the next start, ms."""
    stamps = Stamps(bench.root)
    loop(bench, kind, 1, bench.gap_jobs, [bench.stamp, stamps.path, "job", str(JOB_MS)])
    return stamps.gaps_ms()


def makespan(bench, kind):
    """Empty jobs, eight at once: jobs a second."""
    stamps = Stamps(bench.root)
    begin = time.monotonic_ns()
    loop(bench, kind, GPUS, bench.jobs, [bench.stamp, stamps.path, "job", "0"])
    return [bench.jobs / ((stamps.times("E")[-1] - begin) / 1e9)]


def loop(bench, kind, at_once, count, words):
    program, *rest = launched(kind, words)
    # A path, as the loop looks for nothing.
    words = [shutil.which(program), *rest]
    subprocess.run([bench.floors, "loop", str(at_once), str(count), *words], check=True)


def sync(bench, _):
    """4 KiB appended to a file and fdatasync, where the homes are, ms each."""
    path = tempfile.mktemp(prefix="sync-", dir=bench.root)
    told = subprocess.run([bench.floors, "sync", path, str(SYNCS)], capture_output=True, text=True, check=True)
    return [int(line) / 1e6 for line in told.stdout.split()]
