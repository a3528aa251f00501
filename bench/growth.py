"""What a history costs: the same done in homes with none and with ever more ended jobs, in turn, so that the machine's
moods fall on all alike. Reads come before all that ends jobs or queues them; memory is that of a service alone."""

import contextlib
import json
import os
import random
import statistics
import subprocess
import tempfile
import time

import exported
from measures import GPUS, JOB_MS, idle_cpu
from stage import Home, Stamps, memory_kb

READS = {"nexus": [], "queue": ["queue"], "history": ["history"]}

# What is measured, in words, and its unit. The less the better, for all.
MEASURES = {
    "nexus": ("nexus", "ms"),
    "queue": ("nexus queue", "ms"),
    "history": ("nexus history", "ms"),
    "submit": ("nexus add --hold", "ms"),
    "start": ("submit to start", "ms"),
    "gap": ("end to next start", "ms"),
    "restart": ("nexus restart", "s"),
    "import": ("import of {0.growth_bulk} lines", "s"),
    "memory": ("memory of the service (PSS)", "MB"),
    "idle": ("idle CPU over {0.idle_s} s, of a core", "%"),
}


class Homes:
    """Homes by the name of what they hold, and what was measured in each, by measure."""

    def __init__(self, bench, homes):
        self.bench = bench
        self.homes = homes
        self.samples = {}

    def in_turn(self, rounds, takes):
        """Each measure in each home, then all of it again."""
        for _ in range(rounds):
            for measure, take in takes.items():
                for name, home in self.homes.items():
                    self.samples.setdefault(measure, {}).setdefault(name, []).extend(take(home))

    def ran_ms(self, *words):
        """A command that takes so long; the clock is stopped in C, since Python takes longer to start one."""
        def take(home):
            begin, end = spawned(self.bench, home, words)
            return [(end - begin) / 1e6]

        return take


def spawned(bench, home, words):
    """When a command was started, and when it had ended, in the stamps' time."""
    told = subprocess.run(
        [bench.floors, "spent", bench.nexus, *words], env=home.env, cwd=home.root, capture_output=True, text=True
    )
    if told.returncode:
        raise SystemExit(f"nexus {' '.join(words)} failed\n{told.stderr}")
    return map(int, told.stdout.split())


def growth(bench):
    """Samples by measure and by how many jobs have ended."""
    with contextlib.ExitStack() as stack:
        sizes = [0, *bench.growth_sizes]
        homes = Homes(bench, {f"{size}": stack.enter_context(Home(bench.nexus, 1)) for size in sizes})
        for size, home in homes.homes.items():
            take_over(home, int(size))
        read(homes)
        homes.in_turn(bench.starts, {"start": lambda home: [started_ms(bench, home)]})
        homes.in_turn(bench.repetitions, {"gap": lambda home: gaps_ms(bench, home)})
        restart(homes)
        idle(homes)
        memory(homes)
        homes.in_turn(bench.repetitions, {"import": lambda home: [imported_s(bench, home)]})
    return {"sizes": sizes, "samples": homes.samples, "checked": checked(bench)}


def checked(bench):
    """The same reads where as many jobs really ran as were taken over elsewhere."""
    with Home(bench.nexus, GPUS) as ran, Home(bench.nexus, GPUS) as taken_over:
        ran.run("add", "-q", "-x", str(bench.growth_ran), "--", "true")
        ran.run("wait", "--all")
        take_over(taken_over, bench.growth_ran)
        homes = Homes(bench, {"really ran": ran, "taken over": taken_over})
        read(homes)
        restart(homes)
        memory(homes)
        return homes.samples


def take_over(home, count):
    if count:
        path = f"{home.root}/old.jsonl"
        exported.write(count, path)
        home.run("import", "--as-history", path)
        os.remove(path)


def read(homes):
    rounds = homes.bench.reads * homes.bench.repetitions
    homes.in_turn(rounds, {measure: homes.ran_ms(*words) for measure, words in READS.items()})
    homes.in_turn(rounds, {"submit": homes.ran_ms("add", "--hold", "true")})


def restart(homes):
    ran_ms = homes.ran_ms("restart")
    homes.in_turn(homes.bench.restarts, {"restart": lambda home: [spent / 1000 for spent in ran_ms(home)]})


def idle(homes):
    """What the services spend while nothing happens, all of them over the same time."""
    used = idle_cpu(list(homes.homes.items()), homes.bench.idle_s)
    homes.samples["idle"] = {name: [spent / 600] for name, spent in used.items()}


def memory(homes):
    """Of each by itself: PSS shares out what services of the same binary have in common."""
    for home in homes.homes.values():
        home.run("stop", "-y")
    homes.in_turn(1, {"memory": lambda home: [memory_mb(homes.bench, home)]})
    for home in homes.homes.values():
        home.run("start")


def memory_mb(bench, home):
    home.run("start")
    for words in list(READS.values()) * bench.reads:
        home.run(*words)
    used = memory_kb(home.service(), "Pss") / 1024
    home.run("stop", "-y")
    return used


def started_ms(bench, home):
    """From the moment `nexus add` is started, a GPU free, to the job's first act."""
    stamps = Stamps(home.root)
    begin, _ = spawned(bench, home, ["add", "--", bench.stamp, stamps.path, "job", "0"])
    stamps.wait("E", 1)
    # Not in step with anything that happens at fixed times.
    time.sleep(random.uniform(0.01, 0.05))
    return (stamps.times("S")[0] - begin) / 1e6


def gaps_ms(bench, home):
    """One GPU, jobs of 20 ms: from each end to the next start."""
    gate, stamps = home.block(bench.stamp, 1), Stamps(home.root)
    home.run("add", "-q", "-x", str(bench.growth_gaps), "--", bench.stamp, stamps.path, "job", str(JOB_MS))
    gate.open()
    stamps.wait("E", bench.growth_gaps)
    return stamps.gaps_ms()


def imported_s(bench, home):
    """Lines that no import brought before, into a queue that is paused."""
    home.run("pause")
    path = tempfile.mktemp(prefix="bulk-", suffix=".jsonl", dir=home.root)
    with open(path, "w") as file:
        file.writelines(json.dumps({"argv": ["true", path, str(number)]}) + "\n" for number in range(bench.growth_bulk))
    begin, end = spawned(bench, home, ["import", "--format", "jsonl", path])
    return (end - begin) / 1e9


def figure(found, measure, name):
    return statistics.median(found["samples"][measure][name])


def ratio(found, measure, name):
    """To the home with none; none where that is nothing."""
    base = figure(found, measure, "0")
    return figure(found, measure, name) / base if base else None


def in_words(amount, unit):
    return f"{amount:.4f} {unit}" if unit in ("s", "%") else f"{amount:.2f} {unit}"


def times(amount):
    return "" if amount is None else f"{amount:.2f} x none"


def rows(found, bench):
    told = []
    for measure, (title, unit) in MEASURES.items():
        for name in map(str, found["sizes"]):
            amount = figure(found, measure, name)
            rate = f"{bench.growth_bulk / amount:.0f} jobs/s" if measure == "import" else ""
            cells = (in_words(amount, unit), times(ratio(found, measure, name)), rate)
            told.append(("growth: " + title.format(bench), f"{int(name):,} ended", *cells))
    for measure, by_name in found["checked"].items():
        title, unit = MEASURES[measure]
        for name, samples in by_name.items():
            cell = in_words(statistics.median(samples), unit)
            told.append((f"{bench.growth_ran:,} jobs: " + title.format(bench), name, cell, "", ""))
    return told


def markdown(found, bench):
    """Medians, and in brackets how many times that of a home with none."""
    names = list(map(str, found["sizes"]))
    head = ["jobs in history", *(f"{int(name):,}" for name in names)]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for measure, (title, unit) in MEASURES.items():
        cells = []
        for name in names:
            share = ratio(found, measure, name)
            more = f" ({share:.2f})" if share is not None and name != "0" else ""
            cells.append(in_words(figure(found, measure, name), unit) + more)
        lines.append("| " + " | ".join([title.format(bench), *cells]) + " |")
    return "\n".join(lines) + "\n"
