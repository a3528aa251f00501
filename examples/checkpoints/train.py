"""A small training that can be interrupted: it goes on from its last checkpoint.

It fits a line to points by gradient descent, with nothing but Python. On SIGUSR1 it saves what it has to
NEXUS_CHECKPOINT_DIR; when it starts it looks there first.
"""

import argparse
import json
import os
import signal
import time

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=600)
parser.add_argument("--seconds-per-step", type=float, default=0.1)
options = parser.parse_args()

# Outside nexus the current folder does.
checkpoint = os.path.join(os.environ.get("NEXUS_CHECKPOINT_DIR", "."), "checkpoint.json")
points = [(x / 10, 3.0 * x / 10 - 1.0) for x in range(20)]
asked_to_save = False


def ask_to_save(*_):
    """A handler does as little as it can: the loop saves between two steps."""
    global asked_to_save
    asked_to_save = True


def save(state):
    """Whole or not at all: a job may be killed in the middle of it."""
    with open(checkpoint + ".new", "w") as file:
        json.dump(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(checkpoint + ".new", checkpoint)


def load():
    try:
        with open(checkpoint) as file:
            return json.load(file)
    except FileNotFoundError:
        return {"step": 0, "slope": 0.0, "offset": 0.0}


signal.signal(signal.SIGUSR1, ask_to_save)
state = load()
print(f"starting at step {state['step']} of {options.steps}", flush=True)
while state["step"] < options.steps:
    errors = [(x, state["slope"] * x + state["offset"] - y) for x, y in points]
    state["slope"] -= 0.05 * sum(error * x for x, error in errors) / len(points)
    state["offset"] -= 0.05 * sum(error for _, error in errors) / len(points)
    state["step"] += 1
    if asked_to_save:
        asked_to_save = False
        save(state)
        print(f"saved at step {state['step']}", flush=True)
    time.sleep(options.seconds_per_step)
save(state)
loss = sum((state["slope"] * x + state["offset"] - y) ** 2 for x, y in points) / len(points)
print(f"final loss: {loss:.6f}", flush=True)
