"""Calls as jobs: outcomes, cancelling, what cannot be taken along, and that nothing is left behind."""
import concurrent.futures
import pathlib
import signal
import subprocess
import sys
import threading

import called
import nexus_gpu
import pytest
from conftest import interrupt_twice, until


def left_behind(nexus):
    folder = nexus.home / "calls"
    return sorted(folder.iterdir()) if folder.exists() else []


def program(tmp_path, text):
    """A program of its own, whose functions are in no module."""
    file = tmp_path / "program.py"
    file.write_text(text)
    return [sys.executable, str(file)]


def test_calls_return_in_order(nexus):
    with nexus_gpu.Executor(gpus=1) as executor:
        assert list(executor.map(called.square, range(6), timeout=60)) == [0, 1, 4, 9, 16, 25]
        assert executor.submit(called.keywords, 1, "x", a=[2]).result(60) == ((1, "x"), {"a": [2]})
    assert left_behind(nexus) == [] and nexus.alive() == []


def test_a_call_runs_where_it_was_made_and_on_a_gpu_of_its_own(nexus, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with nexus_gpu.Executor(gpus=1, name="mine", tags="night") as executor:
        future = executor.submit(called.surroundings)
        told = future.result(60)
    assert (told["cwd"], told["id"]) == (str(tmp_path), future.job.id) and told["gpus"] in "0123"
    job = nexus.ask("show", future.job.id)
    assert (job["name"], job["tags"][0], job["machine"]) == ("mine", "night", "local")
    assert job["argv"][-1] == "surroundings"


def test_what_a_call_raises_is_raised_here(nexus):
    with nexus_gpu.Executor(gpus=0) as executor:
        future = executor.submit(called.fail, 3)
        with pytest.raises(ValueError, match="3 is too many") as raised:
            future.result(60)
        assert 'raise ValueError(f"{number} is too many")' in str(raised.value.__cause__)
        assert (future.job.state, future.job.exit_code) == ("failed", 1)
        with pytest.raises(nexus_gpu.RemoteError, match="Odd: first"):
            executor.submit(called.fail_oddly).result(60)


def test_a_job_that_dies_is_a_failure_of_its_own(nexus):
    with nexus_gpu.Executor(gpus=0) as executor:
        future = executor.submit(called.vanish)
        with pytest.raises(nexus_gpu.JobFailed, match="going down") as failed:
            future.result(60)
    assert failed.value.exit_code == 7


def test_what_cannot_be_sent_back_is_told(nexus):
    with nexus_gpu.Executor(gpus=0) as executor:
        with pytest.raises(nexus_gpu.CannotPickle, match="what the call returned"):
            executor.submit(called.locked).result(60)


def test_what_cannot_be_taken_along_queues_nothing(nexus):
    with nexus_gpu.Executor(gpus=0) as executor:
        with pytest.raises(nexus_gpu.CannotPickle, match="cannot be pickled"):
            executor.submit(called.square, threading.Lock())
    assert nexus.ask("history") == [] and nexus.alive() == [] and left_behind(nexus) == []


@pytest.mark.parametrize("has_cloudpickle", [True, False])
def test_functions_of_the_program_itself_need_cloudpickle(nexus, tmp_path, has_cloudpickle):
    text = """
import sys
if "without" in sys.argv: sys.modules["cloudpickle"] = None
import nexus_gpu
def twice(number): return 2 * number
with nexus_gpu.Executor(gpus=0) as executor:
    print(executor.submit(twice, 21).result(60))
"""
    command = program(tmp_path, text) + ([] if has_cloudpickle else ["without"])
    done = subprocess.run(command, env=nexus.env, capture_output=True, text=True, timeout=60)
    if has_cloudpickle:
        assert done.stdout == "42\n", done
    else:
        assert "twice is defined in the program itself" in done.stderr and "pip install cloudpickle" in done.stderr
        assert nexus.ask("history") == []


def test_a_call_that_waits_is_cancelled_and_one_that_runs_is_killed(nexus, tmp_path):
    gate = str(tmp_path / "gate")
    with nexus_gpu.Executor(gpus=4) as executor:
        running, waiting, taken = [executor.submit(called.gated, gate, number) for number in range(3)]
        until(running.running, "the first runs")
        assert not waiting.running() and not running.cancel()
        assert waiting.cancel() and waiting.cancelled() and waiting.cancel()
        nexus.run("remove", taken.job.id)
        with pytest.raises(concurrent.futures.CancelledError):
            taken.result(60)
        running.kill()
        with pytest.raises(nexus_gpu.JobFailed) as failed:
            running.result(60)
    assert failed.value.reason == "user" and not running.cancel()
    assert {job["id"]: job["state"] for job in nexus.ask("history")}[waiting.job.id] == "killed"
    assert left_behind(nexus) == []


def test_shutdown_takes_out_what_waits_and_takes_no_more(nexus, tmp_path):
    gate = tmp_path / "gate"
    executor = nexus_gpu.Executor(gpus=4)
    first, second = [executor.submit(called.gated, str(gate), number) for number in range(2)]
    until(first.running, "the first runs")
    executor.shutdown(wait=False, cancel_futures=True)
    assert second.cancelled() and not first.done()
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(called.square, 1)
    gate.touch()
    assert first.result(60) == 0
    until(lambda: not left_behind(nexus), "its folder is gone")


def test_it_is_an_executor_like_others(nexus, tmp_path):
    gate = tmp_path / "gate"
    with nexus_gpu.Executor(gpus=1) as executor:
        slow = executor.submit(called.gated, str(gate), "slow")
        quick = executor.submit(called.square, 3)
        heard = []
        quick.add_done_callback(lambda future: heard.append(future.result()))
        done, left = concurrent.futures.wait([slow, quick], 60, concurrent.futures.FIRST_COMPLETED)
        assert (done, left) == ({quick}, {slow})
        until(lambda: heard == [9], "the callback was called")
        with pytest.raises(concurrent.futures.TimeoutError):
            next(executor.map(called.gated, [str(gate)], ["x"], timeout=0.1))
        names = [thread.name for thread in threading.enumerate()]
        assert names.count("nexus_gpu events") == 1 and "nexus_gpu request" not in names
        gate.touch()
    until(lambda: "nexus_gpu events" not in [thread.name for thread in threading.enumerate()], "nobody listens")


def test_a_retry_has_an_outcome_of_its_own(nexus, tmp_path):
    nexus.run("config", "set", "jobs.retry_wait", "0s")
    with nexus_gpu.Executor(gpus=0, retries=1) as executor:
        assert executor.submit(called.second_time, str(tmp_path / "mark")).result(60) == 2


MANY = """
import sys, nexus_gpu, called
with nexus_gpu.Executor(gpus=1, grace="5m") as executor:
    futures = [executor.submit(getattr(called, sys.argv[2]), sys.argv[1], number) for number in range(9)]
    print("queued", flush=True)
    [future.result() for future in futures]
"""


@pytest.fixture
def many(nexus, tmp_path, request):
    """A program that waits for more calls than can run."""
    nexus.env["PYTHONPATH"] += f":{pathlib.Path(__file__).parent}"
    command = program(tmp_path, MANY) + [str(tmp_path / "gate"), getattr(request, "param", "gated")]
    running = subprocess.Popen(command, env=nexus.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert running.stdout.readline() == "queued\n", running.communicate()
    yield running
    running.kill()
    running.communicate()


def test_ctrl_c_ends_all_jobs(nexus, many):
    many.send_signal(signal.SIGINT)
    _, told = many.communicate(timeout=60)
    assert "KeyboardInterrupt" in told and many.returncode == -signal.SIGINT
    assert nexus.alive() == [] and left_behind(nexus) == []


LATE = """
import os, sys, time, nexus_gpu, called
submit_all = nexus_gpu.Client.submit_all

def slowly(self, jobs, key=None):
    made = submit_all(self, jobs, key)
    print("queued", flush=True)
    while not os.path.exists(sys.argv[1] + ".answer"): time.sleep(0.01)
    return made

nexus_gpu.Client.submit_all = slowly
with nexus_gpu.Executor(gpus=1) as executor:
    executor.submit(called.gated, sys.argv[1], 1)
"""


def test_ctrl_c_before_the_answer_to_a_submission_ends_its_job_too(nexus, tmp_path):
    nexus.env["PYTHONPATH"] += f":{pathlib.Path(__file__).parent}"
    command = program(tmp_path, LATE) + [str(tmp_path / "gate")]
    running = subprocess.Popen(command, env=nexus.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert running.stdout.readline() == "queued\n"
    running.send_signal(signal.SIGINT)
    (tmp_path / "gate.answer").touch()
    _, told = running.communicate(timeout=60)
    assert "KeyboardInterrupt" in told and nexus.alive() == [] and left_behind(nexus) == []


@pytest.mark.parametrize("many", ["stubborn"], indirect=True)
def test_a_second_ctrl_c_leaves_at_once_with_the_end_asked_for(nexus, many, tmp_path):
    until(lambda: len(list(tmp_path.glob("gate.*.begun"))) == 4, "four run")
    interrupt_twice(nexus, many)
    assert {job["state"] for job in nexus.ask("history")} == {"killed"}


def test_what_a_killed_program_left_is_cleared_away_by_the_next(nexus, many):
    many.kill()
    many.wait()
    assert len(nexus.alive()) == 9
    with nexus_gpu.Executor(gpus=0) as executor:
        assert executor.submit(called.square, 2).result(60) == 4
    (orphaned,) = left_behind(nexus)
    # As the manual says.
    nexus.run("cancel", "-y", f"tag:python-{orphaned.name}")
    until(lambda: nexus.alive() == [], "its jobs are gone")
    with nexus_gpu.Executor(gpus=0) as executor:
        assert executor.submit(called.square, 3).result(60) == 9
    assert left_behind(nexus) == []


def test_a_call_may_be_the_first_thing_in_a_home(nexus, tmp_path):
    client = nexus_gpu.Client(tmp_path / "new" / "home")
    try:
        with nexus_gpu.Executor(gpus=0, client=client) as executor:
            assert executor.submit(called.square, 2).result(60) == 4
    finally:
        type(nexus)(client.home).run("stop", "-y", code=None)


def test_calls_are_private(nexus, tmp_path):
    gate = tmp_path / "gate"
    with nexus_gpu.Executor(gpus=0) as executor:
        future = executor.submit(called.gated, str(gate), 1)
        modes = [oct(folder.stat().st_mode)[-3:] for folder in left_behind(nexus)]
        gate.touch()
        assert future.result(60) == 1 and modes == ["700"]
