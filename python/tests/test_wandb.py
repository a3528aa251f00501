"""The example with real wandb, in its offline mode. Only the long way has wandb, which is large."""
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples/wandb"


@pytest.mark.skipif(not os.environ.get("NEXUS_TEST_LONG"), reason="wandb is for ./test --long")
def test_each_run_of_the_sweep_is_kept_for_wandb(nexus, tmp_path):
    for file in EXAMPLE.glob("*.py"):
        shutil.copy(file, tmp_path)
    done = subprocess.run(
        [sys.executable, "sweep.py"], cwd=tmp_path, env=nexus.env, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done
    lines = done.stdout.splitlines()
    assert lines[0].startswith("queued 3 jobs") and [line.split(":")[0] for line in lines[1:]] == ["lr 0.1", "lr 0.01", "lr 0.001"]
    runs = sorted(tmp_path.glob("runs/*/wandb/offline-run-*/*.wandb"))
    assert len(runs) == 3 and all(run.stat().st_size > 500 for run in runs)
    assert {job["results_state"] for job in nexus.ask("history")} == {"copied"}
