"""A long life: many short jobs in a row through one service, and what it costs then that it did not cost before."""

import os
import stat

from stage import Home, until

GPUS = 8

# A sample is taken when this share of all jobs has ended; what a service needs anyway it has by the time of SETTLED.
SAMPLES = 20
SETTLED = 0.2

# Between then and the end. Threads and connections to the database are kept for a while by whoever needed one more at once:
# a few come and go, while one lost in every ten thousand jobs would be seen.
MOST_MORE_MB = 8
MOST_MORE_DESCRIPTORS = 7
MOST_MORE_THREADS = 4
MOST_MORE_PROCESSES = 0

# For each job between then and the end, beside what it printed.
MOST_BYTES = 8192

OUTPUT = ("stdout.log", "stderr.log")


def soak(bench):
    """Samples of the service and its home, the first before any job."""
    with Home(bench.nexus, GPUS) as home:
        service = home.service()
        samples = [sample(home, service, 0)]
        chunk = max(1, bench.soak_jobs // SAMPLES)
        for first in range(0, bench.soak_jobs, chunk):
            last = min(first + chunk, bench.soak_jobs)
            jobs = os.path.join(home.root, "jobs.txt")
            with open(jobs, "w") as file:
                file.writelines(f"echo job {number}\n" for number in range(first, last))
            home.run("import", "--quiet", jobs)
            home.run("wait", "--all")
            samples.append(sample(home, service, last))
        assert home.service() == service, "the service was not the same all the time"
        return {"samples": samples}


def sample(home, service, jobs):
    """While nothing runs. Shims write down an end after they have told it: they may go on for a moment."""
    until("the last shim has gone", lambda: "nexus-shim" not in processes(home.env["NEXUS_HOME"]))
    with open(f"/proc/{service}/status") as file:
        status = dict(line.split(":", 1) for line in file)
    return {
        "jobs": jobs,
        "rss_kb": int(status["VmRSS"].split()[0]),
        "threads": int(status["Threads"]),
        "descriptors": len(os.listdir(f"/proc/{service}/fd")),
        "processes": len(processes(home.env["NEXUS_HOME"])),
        "bytes": used_bytes(home.env["NEXUS_HOME"]),
    }


def processes(folder):
    """The names of those that have something of a home open: the service, its launcher, shims."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if any(link(f"/proc/{pid}/fd/{number}").startswith(folder + "/") for number in os.listdir(f"/proc/{pid}/fd")):
                with open(f"/proc/{pid}/comm") as file:
                    found.append(file.read().strip())
        except OSError:
            # It has gone, or is none of ours.
            continue
    return found


def link(path):
    try:
        return os.readlink(path)
    except OSError:
        # It was closed meanwhile.
        return ""


def used_bytes(folder):
    """What a folder takes on its disk, by what it is for; `output` is what jobs have printed."""
    used = {"output": 0, "folders": 0, "run files": 0, "database": 0, "other": 0}
    for path, _, names in os.walk(folder):
        used["folders"] += on_disk(path)
        for name in names:
            used[kind(folder, path, name)] += on_disk(os.path.join(path, name))
    return used


def kind(folder, path, name):
    if path.startswith(os.path.join(folder, "logs")):
        return "output" if name in OUTPUT else "run files"
    return "database" if name.startswith("nexus.db") else "other"


def on_disk(path):
    try:
        about = os.lstat(path)
    except FileNotFoundError:
        # It was tidied meanwhile.
        return 0
    return 0 if stat.S_ISSOCK(about.st_mode) else about.st_blocks * 512


def rows(found, _):
    """The table: one line a sample."""
    head = ("jobs ended", "service", "descriptors, processes", "disk", "without output, a job")
    told = [head]
    for one in found["samples"]:
        each = f"{beside_output(one) / one['jobs'] / 1024:.2f} KB" if one["jobs"] else ""
        used = ", ".join(f"{what} {size / 2**20:.1f}" for what, size in one["bytes"].items())
        service = f"RSS {one['rss_kb'] / 1024:.1f} MB, {one['threads']} threads"
        told.append((str(one["jobs"]), service, f"{one['descriptors']}, {one['processes']}", f"{used} MB", each))
    return told


def beside_output(one):
    return sum(one["bytes"].values()) - one["bytes"]["output"]


def missed(found):
    """Limits that the service is over."""
    samples = found["samples"]
    last = samples[-1]
    settled = next(one for one in samples if one["jobs"] >= SETTLED * last["jobs"])
    span = f"from {settled['jobs']} to {last['jobs']} jobs"
    limits = [
        ("rss_kb", MOST_MORE_MB * 1024, "KB of memory"),
        ("descriptors", MOST_MORE_DESCRIPTORS, "descriptors"),
        ("processes", MOST_MORE_PROCESSES, "processes"),
        ("threads", MOST_MORE_THREADS, "threads"),
    ]
    for what, most, words in limits:
        more = last[what] - settled[what]
        if more > most:
            yield f"soak: {more} more {words} {span}, at most {most} are allowed"
    each = (beside_output(last) - beside_output(settled)) / (last["jobs"] - settled["jobs"])
    if each > MOST_BYTES:
        yield f"soak: {each:.0f} bytes on disk a job {span} beside what it printed, at most {MOST_BYTES} are allowed"
