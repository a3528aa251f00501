"""A small training that logs to wandb: fits a line by gradient descent, with nothing but Python and wandb.

With WANDB_MODE=offline nothing leaves the machine: each run is a folder, which `wandb sync` sends when there is a line.
"""

import argparse
import os

import wandb

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.05)
parser.add_argument("--steps", type=int, default=50)
options = parser.parse_args()

# By the job's id a run is found again: in wandb, and by `nexus show`.
job = os.environ.get("NEXUS_JOB_ID", "by-hand")
run = wandb.init(
    project=os.environ.get("WANDB_PROJECT", "nexus-example"),
    name=job,
    group=os.environ.get("WANDB_RUN_GROUP"),
    config=vars(options),
)
points = [(x / 10, 3.0 * x / 10 - 1.0) for x in range(20)]
slope = offset = loss = 0.0
for step in range(options.steps):
    errors = [(x, slope * x + offset - y) for x, y in points]
    slope -= options.lr * sum(error * x for x, error in errors) / len(points)
    offset -= options.lr * sum(error for _, error in errors) / len(points)
    loss = sum(error * error for _, error in errors) / len(points)
    run.log({"loss": loss, "slope": slope, "offset": offset})
run.finish()
# The one file of the run that `wandb sync` needs. Beside it are links to logs elsewhere, and such a folder is not copied.
print(f"RESULTS: {os.path.relpath(run.settings.sync_file)}", flush=True)
print(f"final loss: {loss:.6f}", flush=True)
