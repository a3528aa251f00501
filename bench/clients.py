"""Many at once: clients that submit, and readers of what happens. Who talks to the service is in C, so that the service
is what is measured."""

import contextlib
import json
import shlex
import subprocess
import time

from measures import GPUS, idle_cpu
from stage import Home, cpu_ms, memory_kb, until


def keep_alive(bench, _):
    """Clients with a connection each that submit job after job while all GPUs are taken: submissions a second."""
    with Home(bench.nexus, GPUS) as home:
        gate = home.block(bench.stamp, GPUS)
        path = f"{home.root}/request"
        with open(path, "wb") as file:
            file.write(request(home))
        words = [bench.clients, "submit", home.socket(), str(bench.at_once), str(bench.clients_s), path]
        *ids, spent_ns = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout.split()
        if len(set(ids)) < len(ids) or not set(ids) <= queued(home):
            raise SystemExit("a job that was submitted has the id of another, or is not in the queue")
        gate.open()
        return [len(ids) / (int(spent_ns) / 1e9)]


def shells(bench, _):
    """As many shells that type `nexus add` again and again: submissions a second."""
    with Home(bench.nexus, GPUS) as home:
        gate = home.block(bench.stamp, GPUS)
        add = shlex.join([bench.nexus, "add", "--", "true"])
        script = f"for i in $(seq {bench.clients_adds}); do {add} || exit 1; done >/dev/null"
        begin = time.monotonic()
        # All have gone before the home does, however this ends.
        with contextlib.ExitStack() as stack:
            shell = lambda: subprocess.Popen(["bash", "-c", script], env=home.env, cwd=home.root)
            running = [stack.enter_context(shell()) for _ in range(bench.at_once)]
        spent_s, count = time.monotonic() - begin, bench.at_once * bench.clients_adds
        if any(shell.returncode for shell in running):
            raise SystemExit("nexus add failed in one of many shells")
        if len(queued(home)) != count:
            raise SystemExit(f"{len(queued(home))} jobs are in the queue, {count} were submitted")
        gate.open()
        return [count / spent_s]


def request(home):
    """What `nexus add -- true` sends, the environment with it."""
    spec = {"command": {"argv": ["true"]}, "cwd": home.root, "env": home.env, "request": {"gpus": None}}
    body = json.dumps([spec]).encode()
    head = ["POST /v1/jobs HTTP/1.1", "host: nexus", "content-type: application/json", f"content-length: {len(body)}"]
    return "\r\n".join([*head, "", ""]).encode() + body


def queued(home):
    return {job["id"] for job in json.loads(home.run("queue", "--json"))}


def readers(bench):
    """Jobs that run while nobody and while many read the stream of events: what the service spends on it, and on its
    readers while nothing happens. Each reader has to hear of everything."""
    with Home(bench.nexus, GPUS) as home:
        run_through(home, bench.reader_jobs)
        found = {"0": costs(bench, home, lambda: None)}
        words = [bench.clients, "listen", home.socket(), str(bench.readers)]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as listening:
            if listening.stdout.readline() != "ready\n":
                raise SystemExit("the events cannot be read")
            found[f"{bench.readers}"] = costs(bench, home, lambda: all_heard(listening, bench.reader_jobs))
            events, _, _, missing = heard(listening)
            listening.stdin.close()
        if missing:
            raise SystemExit(f"readers missed events {missing} times")
        return {"events": events, "costs": found}


def costs(bench, home, all_told):
    """CPU of the service for jobs that run through until all is told, and while nothing happens; memory then."""
    service = home.service()
    idle = idle_cpu([("service", home)], bench.idle_s)["service"]
    before, begin = cpu_ms(service), time.monotonic()
    run_through(home, bench.reader_jobs)
    all_told()
    spent = {"cpu_ms": cpu_ms(service) - before, "spent_s": time.monotonic() - begin}
    return spent | {"idle_cpu_ms_per_minute": idle, "pss_kb": memory_kb(service, "Pss")}


def run_through(home, count):
    home.run("add", "-q", "-x", str(count), "--", "true")
    home.run("wait", "--all")


def heard(listening):
    """The fewest and the most events of a reader, the fewest ends, and how often some were missing."""
    listening.stdin.write("\n")
    listening.stdin.flush()
    return [int(word) for word in listening.stdout.readline().split()]


def all_heard(listening, count):
    def alike():
        fewest, most, ends, _ = heard(listening)
        return fewest == most and ends >= count

    until("each reader has heard of everything", alike)


def readers_rows(found, bench):
    title = f"{bench.reader_jobs} jobs, {found['events']} events for each reader"
    rows = []
    for name, used in found["costs"].items():
        told = (f"{used['cpu_ms']:.0f} ms of CPU", f"{used['spent_s']:.2f} s", f"PSS {used['pss_kb'] / 1024:.1f} MB")
        rows.append((title, f"{name} readers", *told))
    for name, used in found["costs"].items():
        idle = used["idle_cpu_ms_per_minute"]
        told = (f"{idle:.2f} ms a minute", f"{idle / 600:.4f} %", "")
        rows.append((f"idle CPU over {bench.idle_s} s", f"{name} readers", *told))
    return rows
