"""What was measured, as rows of the table: a title, what was measured, and three cells."""

import math
import statistics

TITLES = {
    "floor": "append 4 KiB and fdatasync",
    "gap": "end to next start, {0.gap_jobs} jobs of 20 ms",
    "makespan": "{0.jobs} empty jobs, 8 at a time",
    "submit": "submit, {0.jobs} in a loop",
    "start": "submit to start",
    "clients": "submit, {0.at_once} at once",
}
UNITS = {"makespan": "jobs/s", "clients": "jobs/s"}


def percentile(samples, share):
    ranked = sorted(samples)
    return ranked[max(0, math.ceil(share * len(ranked)) - 1)]


def pooled(entry):
    """Samples of all repetitions together."""
    return [sample for run in entry["runs"] for sample in run]


def aligned(rows):
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)


def in_turn_rows(found, bench):
    rows = []
    for entry in (entry for entry in found.values() if "runs" in entry):
        samples, unit = pooled(entry), UNITS.get(entry["part"], "ms")
        middle = f"median {statistics.median(samples):.2f} {unit}"
        cells = [middle, f"min {min(samples):.2f}", f"max {max(samples):.2f}"]
        if entry["part"] in ("gap", "start", "floor"):
            cells[2] = f"p99 {percentile(samples, 0.99):.2f}"
        rows.append((TITLES[entry["part"]].format(bench), f"{entry['tool']} ({entry['kind']})", *cells))
    return rows


def history_rows(found, bench):
    rows = []
    for name, samples in found["reads_ms"].items():
        title, tool = "reads and adds", name + " ended" if " at " in name else name
        rows.append((title, tool, f"median {statistics.median(samples):.2f} ms", f"min {min(samples):.2f}", ""))
    rows.append(("restart", f"at {bench.ended} ended", f"median {statistics.median(found['restart_ms']):.2f} ms", "", ""))
    for name, used in found["idle_cpu_ms_per_minute"].items():
        share = used / 60_000 * 100
        rows.append((f"idle CPU over {bench.idle_s} s", f"at {name} ended", f"{used:.2f} ms a minute", f"{share:.4f} %", ""))
    for name, kilobytes in found["service_pss_kb"].items():
        rows.append(("memory of the service (PSS)", f"at {name} ended", f"{kilobytes / 1024:.1f} MB", "", ""))
    return rows


def shim_rows(found, bench):
    mean = {what: statistics.mean(samples) for what, samples in found.items()}
    told = (f"PSS {mean['Pss']:.0f} kB", f"RSS {mean['Rss']:.0f} kB", f"private {mean['Private_Dirty']:.0f} kB")
    return [(f"memory of a shim, mean of {bench.shims}", "nexus", *told)]


def bulk_rows(found, bench):
    median, best = statistics.median(found["import_s"]), min(found["import_s"])
    told = (f"median {median:.2f} s", f"min {best:.2f}", f"PSS {found['service_pss_kb'] / 1024:.1f} MB")
    return [(f"import of {bench.bulk} lines", "nexus import", *told)]


def sweep_rows(found, bench):
    told = (f"median {statistics.median(found['queued_s']):.2f} s", f"min {min(found['queued_s']):.2f}")
    row = f"sweep show: {statistics.median(found['shown_ms']):.1f} ms"
    return [(f"a sweep of {bench.bulk} jobs", "nexus sweep", *told, row)]


def page_rows(found, bench):
    title = f"a page's list, {bench.waiting} wait, {bench.ended} ended"
    rows = []
    for name, samples in found["lists_ms"].items():
        rows.append((title, name, f"median {statistics.median(samples):.2f} ms", f"max {max(samples):.2f}", ""))
    for name, used in found["cpu_ms_per_minute"].items():
        rows.append((f"idle CPU over {bench.idle_s} s", name, f"{used:.2f} ms a minute", f"{used / 600:.2f} %", ""))
    return rows


def as_history_rows(found, bench):
    size = f"{found['database_bytes'] / 2**20:.0f} MB on disk"
    memory = f"PSS {found['service_pss_kb'] / 1024:.1f} MB"
    title = f"{bench.taken_over} ended jobs"
    return [
        (f"{title} taken over", "nexus import --as-history", f"{found['import_s']:.1f} s", size, memory),
        (f"{title} exported", "nexus export", f"{found['export_s']:.1f} s", "", ""),
    ]
