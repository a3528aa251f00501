"""Others that queue jobs, measured by a harness that is kept elsewhere: NEXUS_BENCH_PEERS names its folder. Who is not
on PATH is left out."""

import os
import pathlib
import shutil
import subprocess
import sys

# By the name of the harness, and the program that has to be there.
PEERS = {"tsp": "tsp", "pueue": "pueued", "hq": "hq"}
TESTS = "true,dispatch,submit,start,bulk,crash"


def peers(bench):
    """What its report says, or why there is none."""
    folder = os.environ.get("NEXUS_BENCH_PEERS")
    if not folder:
        return {"left_out": "NEXUS_BENCH_PEERS is not set"}
    if not pathlib.Path(folder, "bench.py").exists():
        return {"left_out": f"no bench.py in {folder}"}
    absent = [name for name, program in PEERS.items() if not shutil.which(program)]
    tools = ["nexus", "xargs", *(name for name in PEERS if name not in absent)]
    state = f"{bench.root}/peers"
    env = {name: value for name, value in os.environ.items() if not name.startswith("NEXUS_")}
    env |= {"NEXUS_BIN": bench.nexus, "BENCH_HOME": state, "REPS": str(bench.repetitions)}
    env["PYTHONDONTWRITEBYTECODE"] = "1"
    try:
        words = [sys.executable, "bench.py", ",".join(tools), TESTS]
        if subprocess.run(words, cwd=folder, env=env, stdout=sys.stderr).returncode:
            return {"left_out": "bench.py of the peers failed"}
    finally:
        # It leaves one behind where it is cut short.
        own = dict(env, NEXUS_HOME=f"{state}/run/nexus/home")
        subprocess.run([bench.nexus, "stop", "-y"], env=own, capture_output=True)
    told = subprocess.run([sys.executable, "report.py"], cwd=folder, env=env, stdout=subprocess.PIPE, text=True)
    return {"tools": tools, "absent": absent, "report": told.stdout}


def rows(found, _):
    if "left_out" in found:
        return [("peers", "left out", found["left_out"], "", "")]
    absent = f"not on PATH: {', '.join(found['absent'])}" if found["absent"] else ""
    return [("peers, see below", ", ".join(found["tools"]), absent, "", "")]
