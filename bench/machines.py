"""Measurements of machines over ssh: what many of them cost the service, and what one costs a job."""

import datetime
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import time

from hosts import Hosts
from rows import percentile
from stage import Home, Stamps, cpu_ms, memory_kb, until

# A machine has this many GPUs, which are made up.
GPUS = 2
CLASS = "far"

# The service by itself, of a core and as RSS. The processes of ssh are not in it.
MOST_CPU_PERCENT = 5
MOST_MB = 100

# Prints for as long as it lives: all of it is brought to the service's host.
JOB = 'for line in $(seq 20); do echo "line $line of a job"; done; sleep 1; echo done'


def machines(bench):
    """Many machines in one pool: how long it takes to add them, then what they cost while nothing happens, while jobs
    run through, and while GPUs are looked at whose figures change."""
    with Hosts(bench.machines, bench.nvml) as hosts, Home(bench.nexus, 1) as home:
        hosts.known_to(home)
        simulated = ["--simulate-gpus", str(GPUS)]
        sent_s = add_all(home, hosts, "first", simulated)
        remove_all(home, hosts)
        hosts.share_binary("home", "first")
        for name in hosts.names:
            shutil.rmtree(hosts.place(name, "first"))
        ssh_s = ssh_all(hosts)
        there_s = add_all(home, hosts, "home", simulated)
        idle = costs(home, hosts, bench.idle_s, lambda: None)
        busy = costs(home, hosts, bench.idle_s, lambda: run_through(home, bench.far_jobs))
        remove_all(home, hosts)
        hosts.set_gpus(GPUS)
        add_all(home, hosts, "home", [])
        until("all GPUs are seen", lambda: all(len(gpus) == GPUS for gpus in seen(home, hosts)), 0.25)
        before = seen(home, hosts)
        readings = costs(home, hosts, bench.idle_s, lambda: stir(hosts, bench.idle_s))
        assert all(old != new for old, new in zip(before, seen(home, hosts))), "a machine told nothing new of its GPUs"
        added = {"add_sent_s": sent_s, "add_there_s": there_s, "ssh_s": ssh_s}
        return added | {"idle": idle, "busy": busy, "readings": readings}


def add_all(home, hosts, kind, more):
    """Seconds from the first word to the moment the last machine was ready."""
    begin = time.time()
    for name in hosts.names:
        place = str(hosts.place(name, kind))
        home.run("machine", "add", name, "--home", place, "--class", CLASS, "--no-wait", *more)
    far = []

    def ready():
        far[:] = [machine["pool"] for machine in listed(home) if machine["name"] in hosts.names]
        if trouble := [pool["detail"] for pool in far if pool["state"] == "unreachable"]:
            raise SystemExit(f"a machine cannot be reached: {trouble[0]}")
        return all(pool["state"] == "ready" for pool in far)

    # Seldom: each look is work for the cores that are measured.
    until("all machines are ready", ready, 0.25)
    return max(seconds(pool["since"]) for pool in far) - begin


def ssh_all(hosts):
    """The same connections without nexus: seconds until `true` has ended on all."""
    begin = time.monotonic()
    words = ["ssh", "-F", f"{hosts.folder}/ssh_config", "-o", "BatchMode=yes"]
    calls = [subprocess.Popen([*words, name, "true"]) for name in hosts.names]
    if any([call.wait() for call in calls]):
        raise SystemExit("ssh to a machine failed")
    return time.monotonic() - begin


def remove_all(home, hosts):
    home.run("machine", "rm", *hosts.names)
    until("all nodes have ended", lambda: not nodes(hosts), 0.25)


def stir(hosts, span_s):
    """Every look at a GPU tells something else than the last."""
    end = time.monotonic() + span_s
    while time.monotonic() < end:
        hosts.set_gpus(GPUS)
        time.sleep(1)


def seen(home, hosts):
    """What is known of the GPUs of each."""
    return [machine["gpus"] for machine in listed(home) if machine["name"] in hosts.names]


def listed(home):
    return json.loads(home.run("machine", "ls", "--json"))


def seconds(text):
    return datetime.datetime.fromisoformat(text).timestamp()


def run_through(home, count):
    """Jobs that all have ended, and whose logs are here."""
    home.run("add", "-q", "-x", str(count), "--class", CLASS, JOB)
    home.run("wait", "--all")
    logs = pathlib.Path(home.env["NEXUS_HOME"], "logs")
    until("all logs were brought", lambda: sum("done" in log.read_text() for log in logs.glob("*/stdout.log")) >= count)


def costs(home, hosts, span_s, work):
    """CPU over the span, in which the work is done, and memory at its end; by whose they are."""
    # What happened before has come to rest.
    time.sleep(5)
    service = home.service()
    groups = {"service": [service], "ssh": children(service, "ssh"), "nodes": nodes(hosts)}
    assert len(groups["ssh"]) == len(hosts.names), f"{len(groups['ssh'])} processes of ssh"
    used = lambda: {name: sum(map(cpu_ms, pids)) for name, pids in groups.items()}
    before, begin = used(), time.monotonic()
    work()
    worked_s = time.monotonic() - begin
    time.sleep(max(0, span_s - worked_s))
    spent_s, after = time.monotonic() - begin, used()
    memory = lambda pids, what: sum(memory_kb(pid, what) for pid in pids)
    found = {
        name: {
            "processes": len(pids),
            "cpu_ms": after[name] - before[name],
            "cpu_percent": (after[name] - before[name]) / spent_s / 10,
            "rss_kb": memory(pids, "Rss"),
            "pss_kb": memory(pids, "Pss"),
        }
        for name, pids in groups.items()
    }
    return found | {"span_s": spent_s, "worked_s": worked_s, "threads": len(os.listdir(f"/proc/{service}/task"))}


def children(parent, name):
    """Processes of this name that were started by another."""
    return [pid for pid, comm, above in processes() if above == parent and comm == name]


def nodes(hosts):
    """`nexus node` of these hosts, and the launcher of each."""
    mark = str(hosts.folder).encode()
    running = list(processes())
    is_node = lambda words: words[1:2] == [b"node"] and mark in b" ".join(words)
    serving = {pid for pid, *_ in running if is_node(cmdline(pid))}
    return [pid for pid, comm, above in running if pid in serving or above in serving and comm == "nexus-launcher"]


def processes():
    """Pid, name and parent of all that run."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as file:
                text = file.read()
        except OSError:
            continue
        yield int(pid), text[text.index("(") + 1 : text.rindex(")")], int(text[text.rindex(")") :].split()[2])


def cmdline(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []


def rows(found, bench):
    added = f"{bench.machines} machines added at once"
    told = [
        (added, "nexus is sent to each", f"{found['add_sent_s']:.1f} s", "", ""),
        (added, "nexus is there", f"{found['add_there_s']:.1f} s", "", ""),
        (added, "ssh HOST true, without nexus", f"{found['ssh_s']:.1f} s", "", ""),
    ]
    titles = {
        "idle": "nothing happens",
        "busy": f"{bench.far_jobs} jobs of 1 s run through",
        "readings": "2 GPUs of each are looked at",
    }
    for when, title in titles.items():
        costs = found[when]
        whose = [
            (f"the service, {costs['threads']} threads", "service", 1),
            ("its processes of ssh together", "ssh", 1),
            ("node and launcher of one machine", "nodes", bench.machines),
        ]
        for tool, group, among in whose:
            used = {what: figure / among for what, figure in costs[group].items()}
            memory = (f"RSS {used['rss_kb'] / 1024:.1f} MB", f"PSS {used['pss_kb'] / 1024:.1f} MB")
            cpu = f"{used['cpu_percent']:.3f} % of a core"
            told.append((f"{bench.machines} machines, {costs['span_s']:.0f} s, {title}", tool, cpu, *memory))
    return told


def missed(found):
    """Limits that the service is over."""
    for when in ("idle", "busy", "readings"):
        service = found[when]["service"]
        if service["cpu_percent"] > MOST_CPU_PERCENT:
            yield f"{when}: {service['cpu_percent']:.2f} % of a core, at most {MOST_CPU_PERCENT} are allowed"
        if service["rss_kb"] > MOST_MB * 1024:
            yield f"{when}: {service['rss_kb'] / 1024:.1f} MB, at most {MOST_MB} are allowed"


def far_gap(bench):
    """One GPU of one machine: from each end there to the next start there, ms, by the jobs' own stamps and by the
    history; and the round trip of the line."""
    with Hosts(1, bench.nvml) as hosts, Home(bench.nexus, 1) as home:
        hosts.known_to(home)
        add = ["machine", "add", "host1", "--home", str(hosts.place("host1", "home")), "--class", CLASS]
        home.run(*add, "--simulate-gpus", "1")
        stamps = Stamps(home.root)
        home.run("pause")
        home.run("add", "-q", "-x", str(bench.far_gap_jobs), "--class", CLASS, "--", bench.stamp, stamps.path, "job", "0")
        home.run("resume")
        home.run("wait", "--all")
        trips = [machine["pool"]["round_trip_ms"] for machine in listed(home) if machine["name"] == "host1"]
        jobs = sorted(json.loads(home.run("history", "--all", "--json")), key=lambda job: job["started_at"])
        told = [
            (seconds(after["started_at"]) - seconds(before["ended_at"])) * 1000 for before, after in zip(jobs, jobs[1:])
        ]
        return {"stamps_ms": stamps.gaps_ms(), "history_ms": told, "round_trip_ms": trips[0]}


def far_gap_rows(found, bench):
    title = f"exit there to next start there, {bench.far_gap_jobs} jobs"
    rows = []
    for name, samples in [("by their stamps", found["stamps_ms"]), ("by history --json", found["history_ms"])]:
        cells = (f"median {statistics.median(samples):.2f} ms", f"p95 {percentile(samples, 0.95):.2f}")
        rows.append((title, name, *cells, f"round trip {found['round_trip_ms']:.2f} ms"))
    return rows
