"""Limits that nexus is held to, and goals behind them: what was measured beside each, and whether it is kept. Of parts
that were not measured nothing is said."""

import statistics

import growth
from rows import percentile, pooled

HEAD = ("targets", "figure", "floor", "ratio", "limit (goal)", "")

# Jobs a second, as a share of what xargs does with the same, in percent.
LEAST_SHARE = {"argv": (50, 65), "shell": (65, 80)}
# From an end to the next start, ms: the median, and one of a hundred.
MOST_GAP = {"argv": {"median": (2.5, 1.7), "p99": (4, 3)}, "shell": {"median": (3.5, 2.5), "p99": (6, 4)}}
MOST_SUBMIT_MS = (3, 2.3)
MOST_START_MS = (6, 4)
LEAST_BULK = (200_000, 400_000)
LEAST_CLIENTS = (5_000, 10_000)
# With the longest history: times that with none, and whatever that is, ms.
MOST_READ_RATIO = (1.5, 1.2)
MOST_READ_MS = 10
MOST_GROWN = {"memory": (40, 25), "restart": (0.5, 0.2), "idle": (0.1, 0.05)}


def rows(found, bench):
    """Title, figure, floor, ratio, limit with its goal, and whether it is kept."""
    told = [*makespans(found, bench), *gaps(found), *singles(found, bench)]
    return told + grown(found["growth"], bench) if "growth" in found else told


def samples(found, part, kind, tool):
    """None where it was not measured."""
    entry = found.get(f"{part} {kind} {tool}")
    return entry and pooled(entry)


def row(title, figure, floor, unit, limit, least=False):
    """A figure that has to be at most the limit, or at least."""
    most, goal = limit
    ratio = f"{figure / floor:.2f} x" if floor else ""
    kept = figure >= most if least else figure <= most
    beside = short(floor, unit) if floor else ""
    allowed = f"at {'least' if least else 'most'} {most:,} ({goal:,})"
    return (title, short(figure, unit), beside, ratio, allowed, verdict(kept))


def short(amount, unit):
    return f"{amount:,.0f} {unit}" if amount >= 100 else f"{amount:.3g} {unit}"


def verdict(kept):
    return "kept" if kept else "missed"


def makespans(found, bench):
    for kind, (least, goal) in LEAST_SHARE.items():
        own, floor = (samples(found, "makespan", kind, tool) for tool in ("nexus", "xargs -P8"))
        if own:
            figure, beside = statistics.median(own), statistics.median(floor)
            share = figure / beside * 100
            cells = (short(figure, "jobs/s"), short(beside, "jobs/s"), f"{share:.0f} % of xargs")
            limit = f"at least {least} % ({goal})"
            yield (f"{bench.jobs:,} empty jobs, {kind}", *cells, limit, verdict(share >= least))


def gaps(found):
    for kind, limits in MOST_GAP.items():
        own, floor = (samples(found, "gap", kind, tool) for tool in ("nexus", "fork and wait"))
        if own:
            median, far = statistics.median, lambda some: percentile(some, 0.99)
            yield row(f"end to next start, {kind}, median", median(own), median(floor), "ms", limits["median"])
            yield row(f"end to next start, {kind}, p99", far(own), far(floor), "ms", limits["p99"])


def singles(found, bench):
    if own := samples(found, "submit", "loop", "nexus add"):
        floor = samples(found, "submit", "loop", "/bin/true")
        yield row("submit, in a loop", statistics.median(own), statistics.median(floor), "ms", MOST_SUBMIT_MS)
    if own := samples(found, "start", "argv", "nexus"):
        yield row("submit to start, argv, median", statistics.median(own), None, "ms", MOST_START_MS)
    if "bulk" in found:
        rate = bench.bulk / statistics.median(found["bulk"]["import_s"])
        yield row(f"import of {bench.bulk:,} lines", rate, None, "jobs/s", LEAST_BULK, least=True)
    if own := samples(found, "clients", "keep-alive", "nexus"):
        title = f"submit, {bench.at_once} at once, keep-alive"
        yield row(title, statistics.median(own), None, "jobs/s", LEAST_CLIENTS, least=True)


def grown(found, bench):
    """With the longest history; the floor is the same with none."""
    longest = str(found["sizes"][-1])
    told = []
    for measure in growth.READS:
        title, unit = growth.MEASURES[measure]
        figure, floor = (growth.figure(found, measure, name) for name in (longest, "0"))
        most, goal = MOST_READ_RATIO
        kept = figure <= most * floor and figure <= MOST_READ_MS
        cells = (short(figure, unit), short(floor, unit), f"{figure / floor:.2f} x")
        limit = f"at most {most} x ({goal}), {MOST_READ_MS} ms"
        told.append((f"{title}, {int(longest):,} ended", *cells, limit, verdict(kept)))
    for measure, limit in MOST_GROWN.items():
        title, unit = growth.MEASURES[measure]
        figure, floor = (growth.figure(found, measure, name) for name in (longest, "0"))
        told.append(row(f"{title.format(bench)}, {int(longest):,} ended", figure, floor, unit, limit))
    return told
