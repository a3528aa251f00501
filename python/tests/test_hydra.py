"""`hydra/launcher=nexus` with real Hydra: GPUs kept busy, outcomes brought back, and nothing left by Ctrl-C."""
import json
import os
import pty
import signal
import subprocess
import sys

import pytest
from conftest import interrupt_twice, until

APP = '''
"""Records when and where each run ran, and what Hydra gets from the launcher."""
import json, os, pathlib, signal, time
import hydra
from hydra.core.hydra_config import HydraConfig
from hydra_plugins.hydra_nexus_launcher.nexus_launcher import NexusLauncher

SEEN = pathlib.Path(os.environ["SEEN"])


def wait_for(holds):
    deadline = time.monotonic() + 90
    while not holds():
        assert time.monotonic() < deadline, "nobody came"
        time.sleep(0.01)


@hydra.main(version_base="1.3", config_path=".", config_name="config")
def main(config):
    begin = time.time()
    (SEEN / f"begun-{config.x}").touch()
    if config.wait == "four":
        # Goes on once all four of its kind run: who is alone stays so for ever.
        wait_for(lambda: len(list(SEEN.glob("begun-*"))) >= 4 * (config.x // 4 + 1))
    if config.wait == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        (SEEN / f"stubborn-{config.x}").touch()
    if config.wait in ("gate", "stubborn"):
        wait_for(lambda: (SEEN / "gate").exists())
    gpu = os.environ["CUDA_VISIBLE_DEVICES"]
    if config.x == config.bad:
        raise ValueError(f"{config.x} is bad")
    account = {"gpu": gpu, "begin": begin, "end": time.time(), "id": HydraConfig.get().job.id}
    (pathlib.Path(HydraConfig.get().runtime.output_dir) / "account.json").write_text(json.dumps(account))
    return config.x * config.model.factor


def noted(launch):
    def launch_and_note(self, overrides, initial_job_idx):
        returns = launch(self, overrides, initial_job_idx)
        told = [[r.status.name, str(r._return_value), type(r._return_value).__name__, list(r.overrides),
                 r.cfg.x, r.hydra_cfg.hydra.job.num] for r in returns]
        (SEEN / "returns.json").write_text(json.dumps(told))
        return returns
    return launch_and_note


if __name__ == "__main__":
    from hydra.core.plugins import Plugins
    Plugins.instance()
    import sys
    launcher = sys.modules["hydra_plugins.hydra_nexus_launcher.nexus_launcher"].NexusLauncher
    launcher.launch = noted(launcher.launch)
    main()
'''

CONFIG = """
defaults:
  - model: small
  - _self_
x: 0
bad: -1
wait: nothing
"""


class App:
    """A program of Hydra's, and what its runs told."""

    def __init__(self, nexus, folder):
        self.folder = folder
        (folder / "model").mkdir(parents=True)
        (folder / "app.py").write_text(APP)
        (folder / "config.yaml").write_text(CONFIG)
        (folder / "model/small.yaml").write_text("factor: 2\n")
        (folder / "model/large.yaml").write_text("factor: 100\n")
        self.seen = folder / "seen"
        self.seen.mkdir()
        self.env = {**nexus.env, "SEEN": str(self.seen), "HYDRA_FULL_ERROR": "1"}

    def command(self, *overrides):
        return [sys.executable, "app.py", "-m", "hydra/launcher=nexus", "hydra.sweep.dir=out", *overrides]

    def run(self, *overrides):
        return subprocess.run(
            self.command(*overrides), cwd=self.folder, env=self.env, capture_output=True, text=True, timeout=120
        )

    def start(self, *overrides, **more):
        return subprocess.Popen(self.command(*overrides), cwd=self.folder, env=self.env, text=True, **more)

    def begun(self):
        return len(list(self.seen.glob("begun-*")))

    def returns(self):
        return json.loads((self.seen / "returns.json").read_text())

    def account(self, number):
        return json.loads((self.folder / f"out/{number}/account.json").read_text())


@pytest.fixture
def app(nexus, tmp_path):
    return App(nexus, tmp_path / "app")


def left_behind(nexus):
    folder = nexus.home / "calls"
    return sorted(folder.iterdir()) if folder.exists() else []


def test_twelve_runs_keep_four_gpus_busy_and_each_outcome_comes_back(nexus, app):
    done = app.run("x=range(0,12)", "model=small", "wait=four", "bad=5", "hydra.launcher.project=night")
    assert done.returncode == 1 and "ValueError: 5 is bad" in done.stderr, done
    assert "raise ValueError(f\"{config.x} is bad\")" in done.stderr, "the place in the job is shown"
    returns = app.returns()
    assert [row[4] for row in returns] == list(range(12)) == [row[5] for row in returns]
    for x, (status, value, kind, overrides, _, _) in enumerate(returns):
        expected = ("FAILED", "5 is bad", "ValueError") if x == 5 else ("COMPLETED", str(2 * x), "int")
        assert (status, value, kind) == expected and f"x={x}" in overrides
    accounts = {x: app.account(x) for x in range(12) if x != 5}
    for kind in range(3):
        of_kind = [accounts[x] for x in range(4 * kind, 4 * kind + 4) if x != 5]
        # At one moment all of them ran, each on a GPU of its own.
        assert max(one["begin"] for one in of_kind) <= min(one["end"] for one in of_kind)
        assert len({one["gpu"] for one in of_kind}) == len(of_kind)
    assert {one["gpu"] for one in accounts.values()} == {"0", "1", "2", "3"}
    assert no_gpu_had_two(accounts.values())
    jobs = {job["id"]: job for job in nexus.ask("history")}
    assert [jobs[one["id"]]["state"] for one in accounts.values()] == ["completed"] * 11
    assert sum(job["state"] == "failed" for job in jobs.values()) == 1
    assert {(job["argv"][-2], job["project"]) for job in jobs.values()} == {("app", "night")}
    assert nexus.alive() == [] and left_behind(nexus) == []


def no_gpu_had_two(accounts):
    accounts = sorted(accounts, key=lambda one: one["begin"])
    for at, one in enumerate(accounts):
        for later in accounts[at + 1 :]:
            if later["gpu"] == one["gpu"] and later["begin"] < one["end"]:
                return False
    return True


def test_settings_reach_the_jobs_and_a_killed_run_is_a_failed_one(nexus, app):
    settings = ["gpus=0.5", "name=mine", "max_running=2", "tags=[a,b]", "time=2h"]
    settings = [*(f"hydra.launcher.{setting}" for setting in settings), "+hydra.launcher.env.EXTRA=a b"]
    running = app.start("x=1,2,3", "model=large", "wait=gate", *settings, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    until(lambda: app.begun() == 2 or running.poll() is not None, "two of three run")
    jobs = nexus.ask("ls")
    assert sorted(job["state"] for job in jobs) == ["queued", "running", "running"], running.communicate()
    for job in jobs:
        assert (job["sweep"], job["tags"][:2]) == ("mine", ["a", "b"])
        assert (job["request"]["gpus"], job["request"]["time_seconds"]) == (0.5, 7200)
        assert nexus.ask("show", "--env", job["id"])["env"]["EXTRA"] == "a b"
    victim = next(job["id"] for job in jobs if "x=1" in job["params"]["of"])
    nexus.run("kill", victim)
    (app.seen / "gate").touch()
    _, told = running.communicate(timeout=60)
    assert f"JobFailed: job {victim} killed" in told
    assert [row[:1] + row[2:3] for row in app.returns()] == [["FAILED", "JobFailed"]] + [["COMPLETED", "int"]] * 2
    assert [row[1] for row in app.returns()][1:] == ["200", "300"]


def test_an_override_that_cannot_be_queues_nothing(nexus, app):
    done = app.run("x=1,2", "no_such_key=3")
    assert done.returncode == 1 and "no_such_key" in done.stderr
    done = app.run("x=1,2", "hydra.launcher.time=4")
    assert done.returncode == 1 and "4s, 4m, 4h or 4d" in done.stderr
    assert nexus.ask("history") == [] and nexus.alive() == []


def test_ctrl_c_on_a_terminal_leaves_no_job_behind(nexus, app):
    ours, theirs = pty.openpty()
    running = app.start(
        "x=range(0,12)", "wait=gate", stdin=theirs, stdout=theirs, stderr=theirs, preexec_fn=lambda: own_terminal(theirs)
    )
    os.close(theirs)
    until(lambda: app.begun() >= 4, "four run")
    assert len(nexus.alive()) == 12
    os.write(ours, b"\x03")
    told = read_all(ours)
    assert running.wait(60) != 0 and "ending the jobs of this multirun" in told, told
    assert nexus.alive() == [] and left_behind(nexus) == []


def own_terminal(terminal):
    """As a shell does it: a session whose terminal this is."""
    import fcntl
    import termios

    os.setsid()
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)


def read_all(terminal):
    told = b""
    while True:
        try:
            some = os.read(terminal, 65536)
        except OSError:
            # The other side is closed.
            return told.decode(errors="replace")
        if not some:
            return told.decode(errors="replace")
        told += some


@pytest.mark.parametrize("numbers", [[signal.SIGTERM], [signal.SIGINT, signal.SIGINT]])
def test_other_ways_to_ask_for_an_end_do_neither(nexus, app, numbers):
    running = app.start("x=range(0,6)", "wait=gate", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    # As early as can be: while it still submits, or just has.
    until(nexus.alive, "something is queued")
    for number in numbers:
        running.send_signal(number)
    out, told = running.communicate(timeout=60)
    assert running.returncode in (128 + signal.SIGTERM, -signal.SIGINT), (out, told)
    # Whoever asks twice does not wait for the end of what runs.
    until(lambda: nexus.alive() == [], "its jobs are gone", 20)


def test_a_second_ctrl_c_leaves_at_once_with_the_end_asked_for(nexus, app):
    running = app.start("x=range(0,6)", "wait=stubborn", "hydra.launcher.grace=5m", stderr=subprocess.PIPE)
    until(lambda: len(list(app.seen.glob("stubborn-*"))) == 4, "four run")
    interrupt_twice(nexus, running)
    assert running.returncode == -signal.SIGINT


@pytest.mark.parametrize("crash", [False, True])
def test_a_multirun_goes_on_while_the_service_restarts(nexus, app, crash):
    running = app.start("x=range(0,5)", "wait=gate", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    until(lambda: app.begun() >= 4, "four run")
    if crash:
        nexus.kill_service()
        nexus.run("start")
    else:
        nexus.run("restart")
    (app.seen / "gate").touch()
    _, told = running.communicate(timeout=90)
    assert running.returncode == 0, told
    assert [row[1] for row in app.returns()] == [str(2 * x) for x in range(5)]


def test_batches_of_a_sweeper_are_sweeps_of_their_own(nexus, app):
    done = app.run("x=range(0,3)", "hydra.sweeper.max_batch_size=2", "hydra.launcher.name=night", "hydra.launcher.gpus=0")
    assert done.returncode == 0, done
    assert sorted(sweep["name"] for sweep in nexus.ask("sweep", "ls")) == ["night", "night-2"]
    assert [row[5] for row in app.returns()] == [2] and app.account(2)["gpu"] == ""


def test_what_a_killed_multirun_left_is_ended_by_the_name_of_its_sweep(nexus, app):
    running = app.start("x=range(0,3)", "wait=gate", "hydra.launcher.name=night", stdout=subprocess.DEVNULL)
    until(lambda: app.begun() == 3, "all run")
    running.kill()
    running.wait()
    assert len(nexus.alive()) == 3
    nexus.run("cancel", "-y", "sweep:night")
    until(lambda: nexus.alive() == [], "they are gone")
