"""Each measurement by itself. A measurement returns its samples; what to make of them is the caller's."""

import http.client
import json
import os
import random
import shlex
import subprocess
import time

import exported
from stage import Home, Stamps, cpu_ms, memory_kb, until

GPUS = 8
JOB_MS = 20


def command(kind, words):
    """What is handed to `nexus add`: exact words, or one text for the shell."""
    return ["--", *words] if kind == "argv" else [shlex.join(words)]


def nexus_gap(bench, kind):
    """One GPU, jobs of 20 ms: from each end to the next start, ms."""
    with Home(bench.nexus, 1) as home:
        gate, stamps = home.block(bench.stamp, 1), Stamps(home.root)
        home.run("add", "-x", str(bench.gap_jobs), *command(kind, [bench.stamp, stamps.path, "job", str(JOB_MS)]))
        gate.open()
        stamps.wait("E", bench.gap_jobs)
        return stamps.gaps_ms()


def xargs_gap(bench, kind):
    stamps = Stamps(bench.root)
    xargs(bench, kind, 1, bench.gap_jobs, [bench.stamp, stamps.path, "job", str(JOB_MS)])
    return stamps.gaps_ms()


def nexus_makespan(bench, kind):
    """Empty jobs on eight GPUs, all queued before: jobs a second from the moment the GPUs are free."""
    with Home(bench.nexus, GPUS) as home:
        gate, stamps = home.block(bench.stamp, GPUS), Stamps(home.root)
        home.run("add", "-x", str(bench.jobs), *command(kind, [bench.stamp, stamps.path, "job", "0"]))
        begin = gate.open()
        stamps.wait("E", bench.jobs)
        return [bench.jobs / ((stamps.times("E")[-1] - begin) / 1e9)]


def xargs_makespan(bench, kind):
    stamps = Stamps(bench.root)
    begin = time.monotonic_ns()
    xargs(bench, kind, GPUS, bench.jobs, [bench.stamp, stamps.path, "job", "0"])
    return [bench.jobs / ((stamps.times("E")[-1] - begin) / 1e9)]


def launched(kind, words):
    """What is run where nexus would run it; the shell is the same that nexus takes."""
    return words if kind == "argv" else ["bash", "-c", shlex.join(words)]


def xargs(bench, kind, at_once, count, words):
    """A line of input a job, as nexus has an entry a job."""
    lines = "".join(f"{number}\n" for number in range(count))
    # The line replaces nothing: {} does not occur.
    subprocess.run(["xargs", f"-P{at_once}", "-I{}", *launched(kind, words)], input=lines, text=True, check=True)


def nexus_submit(bench, _):
    """`nexus add` in a shell loop while all GPUs are taken, ms each."""
    with Home(bench.nexus, GPUS) as home:
        gate = home.block(bench.stamp, GPUS)
        each = loop_ms(bench.jobs, [bench.nexus, "add", "--", "true"], home.env, home.root)
        gate.open()
        return [each]


def floor_submit(bench, _):
    """The same loop around a program that does nothing."""
    return [loop_ms(bench.jobs, ["/bin/true"], None, bench.root)]


def loop_ms(count, words, env, cwd):
    script = f"for i in $(seq {count}); do {shlex.join(words)} || exit 1; done >/dev/null"
    begin = time.monotonic_ns()
    subprocess.run(["bash", "-c", script], env=env, cwd=cwd, check=True)
    return (time.monotonic_ns() - begin) / 1e6 / count


def submit_to_start(bench, kind):
    """From the moment `nexus add` is typed, GPUs free, to the job's first act, ms."""
    chance, samples = random.Random(7), []
    with Home(bench.nexus, GPUS) as home:
        stamps = Stamps(home.root)
        for number in range(bench.starts):
            begin = time.monotonic_ns()
            home.run("add", *command(kind, [bench.stamp, stamps.path, "job", "0"]))
            stamps.wait("E", number + 1)
            samples.append((stamps.times("S")[-1] - begin) / 1e6)
            # Not in step with anything that happens at fixed times.
            time.sleep(chance.uniform(0.01, 0.1))
    return samples


PAGE = [
    "/v1/status",
    "/v1/jobs?state=pending&cursor=&limit=200&expected=true",
    "/v1/jobs?state=ended&cursor=&limit=200",
    "/v1/jobs?state=ended&cursor=&limit=200&contains=nothing%20like%20it",
]
READS = [["status"], ["queue"], ["history"]]


def history(bench):
    """Reads with nothing and with many ended jobs, in turn; then both services left alone, and their memory."""
    with Home(bench.nexus, GPUS) as empty, Home(bench.nexus, GPUS) as full:
        full.fill(bench.ended)
        samples = {}
        for _ in range(bench.reads):
            for words in READS:
                for home, name in [(empty, "0"), (full, f"{bench.ended}")]:
                    samples.setdefault(f"{words[0]} at {name}", []).append(home.timed_ms(*words))
        for _ in range(bench.reads):
            for home, name in [(empty, "0"), (full, f"{bench.ended}")]:
                samples.setdefault(f"add at {name}", []).append(home.timed_ms("add", "--hold", "true"))
        samples["whole history, JSON"] = [full.timed_ms("history", "--all", "--json") for _ in range(3)]
        restarts = [full.timed_ms("restart") for _ in range(3)]
        idle = idle_cpu([("0", empty), (f"{bench.ended}", full)], bench.idle_s)
        for _ in range(bench.reads):
            for words in READS:
                full.run(*words)
        memory = {
            "0": memory_kb(empty.service(), "Pss"),
            f"{bench.ended}": memory_kb(full.service(), "Pss"),
        }
    return {"reads_ms": samples, "restart_ms": restarts, "idle_cpu_ms_per_minute": idle, "service_pss_kb": memory}


def bulk(bench):
    """Many lines imported while all GPUs are taken, s, in homes of their own; and the most memory that the service had when
    they were queued."""
    spent, memory = [], []
    for _ in range(bench.repetitions):
        with Home(bench.nexus, GPUS) as home:
            gate = home.block(bench.stamp, GPUS)
            path = f"{home.root}/bulk.jsonl"
            with open(path, "w") as file:
                file.write(json.dumps({"argv": ["true"]}) + "\n")
                file.writelines(json.dumps({"argv": ["true", str(number)]}) + "\n" for number in range(1, bench.bulk))
            spent.append(home.timed_ms("import", "--format", "jsonl", path) / 1000)
            memory.append(memory_kb(home.service(), "Pss"))
            gate.open()
    return {"import_s": spent, "service_pss_kb": max(memory)}


def sweep(bench):
    """A sweep into an empty queue, s, three times; and how long its row takes then, ms."""
    spent, shown = [], []
    for _ in range(3):
        with Home(bench.nexus, GPUS) as home:
            home.run("pause")
            seeds = f"seed=1..{bench.bulk // 4}"
            command = "python train.py --lr {lr} --seed {seed}"
            spent.append(home.timed_ms("sweep", "-q", "--name", "big", command, "lr=0.1,0.01,0.001,0.0001", seeds) / 1000)
            shown += [home.timed_ms("sweep", "show", "big") for _ in range(5)]
    return {"queued_s": spent, "shown_ms": shown}


def page(bench):
    """What a page asks for first, ms, where many jobs wait and have ended; and what many open pages cost while nothing
    happens: each has a stream of events, with readings of GPUs."""
    with Home(bench.nexus, GPUS) as home:
        home.fill(bench.ended)
        home.run("pause")
        home.run("add", "-q", "-x", str(bench.waiting), "true")
        web = json.loads(home.run("web", "--no-open", "--port", "0", "--json"))
        with open(web["token_file"]) as file:
            token = {"Authorization": f"Bearer {file.read().strip()}"}
        connect = lambda: http.client.HTTPConnection(web["address"])
        lists = {}
        for path in PAGE:
            connection = connect()
            for _ in range(bench.reads):
                begin = time.monotonic_ns()
                connection.request("GET", path, headers=token)
                answer = connection.getresponse()
                answer.read()
                assert answer.status == 200, path
                lists.setdefault(path, []).append((time.monotonic_ns() - begin) / 1e6)
        alone = idle_cpu([("no page open", home)], bench.idle_s)
        streams = [connect() for _ in range(bench.streams)]
        for stream in streams:
            stream.request("GET", "/v1/events?readings=true", headers=token)
        return {"lists_ms": lists, "cpu_ms_per_minute": alone | idle_cpu([(f"{bench.streams} streams", home)], bench.idle_s)}


def as_history(bench):
    """Ended jobs taken over, s, and an export of them all; memory of the service then, and what they take on disk."""
    with Home(bench.nexus, GPUS) as home:
        path = f"{home.root}/old.jsonl"
        exported.write(bench.taken_over, path)
        spent = home.timed_ms("import", "--as-history", path) / 1000
        out = home.timed_ms("export", "-o", f"{home.root}/new.jsonl") / 1000
        return {
            "import_s": spent,
            "export_s": out,
            "service_pss_kb": memory_kb(home.service(), "Pss"),
            "database_bytes": os.path.getsize(home.env["NEXUS_HOME"] + "/nexus.db"),
            "file_bytes": os.path.getsize(path),
        }


def idle_cpu(homes, seconds):
    """CPU of service and launcher together while nothing happens, ms a minute."""
    pids = {name: [home.service(), *home.processes("nexus-launcher")] for name, home in homes}
    for _, home in homes:
        home.rest()
    # What the last question set in motion has come to rest.
    time.sleep(5)
    used = lambda: {name: sum(map(cpu_ms, own)) for name, own in pids.items()}
    before = used()
    time.sleep(seconds)
    after = used()
    return {name: (after[name] - before[name]) * 60 / seconds for name in pids}


def shims(bench):
    """A hundred jobs that run: memory of each one's shim, kB."""
    with Home(bench.nexus, bench.shims) as home:
        home.run("add", "-x", str(bench.shims), "--", "sleep", "1000")
        until("all shims are there", lambda: len(home.processes("nexus-shim")) == bench.shims)
        until("all jobs run", lambda: home.run("ls", "--json").count('"running"') >= bench.shims)
        pids = home.processes("nexus-shim")
        return {what: [memory_kb(pid, what) for pid in pids] for what in ("Pss", "Rss", "Private_Dirty")}
