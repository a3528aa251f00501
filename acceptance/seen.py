"""What the acceptance scripts have in common: a home of their own, nexus in it, and what was seen of it."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

nexus = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "target/release/nexus")
home = tempfile.mkdtemp(prefix="nexus-real-gpu-")
env = {**os.environ, "NEXUS_HOME": home, "NO_COLOR": "1"}
python = sys.executable
failures = []

# Holds so many MiB of the GPU.
HOLD = "import torch,time,os,sys; x=torch.empty(int(sys.argv[1])<<20,dtype=torch.uint8,device='cuda'); " \
       "torch.cuda.synchronize(); print('holding',torch.cuda.device_count(),flush=True); time.sleep(600)"


def see(what, ok, detail=""):
    print(f"{'ok    ' if ok else 'FAILED'} {what}" + (f": {detail}" if detail else ""), flush=True)
    if not ok:
        failures.append(what)


def run(*words, code=0):
    done = subprocess.run([nexus, *words], env=env, capture_output=True, text=True, timeout=300)
    if code is not None and done.returncode != code:
        see("nexus " + " ".join(words), False, f"exit {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout.strip()


def ask(*words):
    return json.loads(run(*words, "--json") or "null")


def until(what, question, seconds=60):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        answer = question()
        if answer:
            return answer
        time.sleep(0.2)
    see(what, False, f"not within {seconds} s")
    return None


def smi(query):
    done = subprocess.run(["nvidia-smi", f"--query-{query}", "--format=csv,noheader,nounits"],
                          capture_output=True, text=True, check=True)
    return [[cell.strip() for cell in line.split(",")] for line in done.stdout.splitlines() if line.strip()]


def used_mib():
    return int(smi("gpu=memory.used")[0][0])


def gpu():
    return ask("status")["machines"][0]["gpus"][0]


def state(job):
    return ask("show", job)["state"]


def finish(*steps):
    """Goes through the steps, cleans up, and ends with 1 if something was not seen."""
    try:
        for step in steps:
            step()
    finally:
        if failures:
            with open(os.path.join(home, "service.log")) as log:
                print(log.read())
        subprocess.run([nexus, "stop", "-y"], env=env, capture_output=True)
        shutil.rmtree(home, ignore_errors=True)
    print("\n".join(["not seen:", *failures]) if failures else "all seen")
    sys.exit(1 if failures else 0)
