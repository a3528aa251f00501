"""Queues the training once for each learning rate and shows what came of it, the best first."""

import os
import sys

import nexus_gpu

# Jobs have this process's environment.
os.environ.setdefault("WANDB_MODE", "offline")
os.environ.setdefault("WANDB_RUN_GROUP", "learning-rates")

sweep = nexus_gpu.map(
    [sys.executable, "train.py", "--lr", "{lr}"],
    {"lr": [0.001, 0.01, 0.1]},
    cwd=os.path.dirname(os.path.abspath(__file__)),
    gpus=float(os.environ.get("GPUS", "1")),
    results=os.path.abspath("runs"),
    extract={"loss": "final loss: ([0-9.]+)"},
)
print(f"queued {len(sweep)} jobs as sweep {sweep.name}", flush=True)
rows = sweep.results()
for row in sorted(rows, key=lambda row: float(row.get("loss", "inf"))):
    print(f"lr {row['lr']}: {row['state']}, loss {row.get('loss')}, in {row['results']}")
sys.exit(any(row["state"] != "completed" for row in rows))
