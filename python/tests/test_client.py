"""The client against a real service: what is asked for, what comes back, what is refused."""
import os
import pathlib
import re
import threading
import time

import nexus_gpu
import pytest
from conftest import until
from nexus_gpu import _home, _http


def gated(gate):
    """A command that goes on when somebody makes the gate."""
    return f"until [ -e {gate} ]; do sleep 0.02; done"


def test_a_job_from_submission_to_its_result(nexus, tmp_path):
    job = nexus_gpu.submit("echo loss: 0.25", cwd=tmp_path, extract={"loss": "loss: (.*)"}, name="first")
    assert job.result(60) == {"loss": "0.25"}
    assert (job.state, job.exit_code, job.name, job.has_ended) == ("completed", 0, "first", True)
    assert job.log() == "loss: 0.25\n" and job.log("stderr") == ""
    assert job.refresh().data["cwd"] == str(tmp_path)
    assert nexus_gpu.job(job.id) == job and nexus.ask("show", job.id)["id"] == job.id


def test_a_list_is_a_program_and_its_arguments(nexus):
    job = nexus_gpu.submit(["printf", "%s|", "a  b", "$HOME", "{x}"], gpus=0)
    job.result(60)
    assert job.log() == "a  b|$HOME|{x}|"


def test_a_failure_says_how_and_shows_the_last_lines(nexus):
    job = nexus_gpu.submit("echo out; echo no such file: data.csv >&2; exit 3", gpus=0)
    with pytest.raises(nexus_gpu.JobFailed) as failed:
        job.result(60)
    error = failed.value
    assert (error.id, error.state, error.reason, error.exit_code) == (job.id, "failed", "exit", 3)
    assert error.last_lines == ["no such file: data.csv"]
    assert str(error) == (
        f"job {job.id} failed: it exited with code 3\n  | no such file: data.csv\nhint: nexus why {job.id}"
    )
    assert job.why()["reason"] == "exit"


def test_a_job_has_the_environment_that_add_would_give_it(nexus, monkeypatch):
    monkeypatch.setenv("FROM_CALLER", "x y")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    monkeypatch.setenv("NEXUS_PARAM_LR", "3")
    monkeypatch.setenv("PAGER", "less")
    os.environb[b"NOT_TEXT"] = b"\xff"
    nexus.env = dict(os.environ)
    added = nexus.run("add", "--hold", "--env", "GIVEN=1", "true").strip()
    queued = nexus_gpu.submit("true", hold=True, env={"GIVEN": "1"}).id
    of = [nexus_gpu.client().http.get(f"/v1/jobs/{id}", env=True) for id in (added, queued)]
    assert of[0]["env"] == of[1]["env"] and of[0]["cwd"] == of[1]["cwd"]
    assert of[1]["env"]["FROM_CALLER"] == "x y" and of[1]["env"]["PAGER"] == "cat"
    assert not {"CUDA_VISIBLE_DEVICES", "NEXUS_PARAM_LR", "NOT_TEXT"} & set(of[1]["env_names"])
    del os.environb[b"NOT_TEXT"]


def test_every_option_reaches_the_job(nexus, tmp_path):
    first = nexus_gpu.submit("true", gpus=0, hold=True)
    job = nexus_gpu.submit(
        "true", name="n", project="p", tags=["a", "b"], gpus=2, vram="1.5G", cpus=1, ram="1G", gpu_model="sim",
        on="0-2", machine="local", priority=-3, time="1h30m", signal="USR1@2m", grace=7, retries=2, retry_on="timeout",
        after=first, after_any=[first.id], venv=tmp_path, out=tmp_path / "o", results=tmp_path / "r",
        extract={"v": "(.)"}, unique=True, hold=True, force=True, tty=False, gpu_arg="--cuda",
    )  # fmt: skip
    told = job.refresh().data
    request = {name: value for name, value in told["request"].items() if value is not None}
    assert request == {
        "gpus": 2, "vram_mib": 1536, "cpus": 1, "ram_mib": 1024, "gpu_model": "sim", "on": [0, 1, 2],
        "machine": "local", "time_seconds": 5400, "signal": {"signal": 10, "before_seconds": 120},
        "grace_seconds": 7, "force": True,
    }  # fmt: skip
    wanted = {
        "name": "n", "project": "p", "tags": ["a", "b"], "priority": -3, "retries": 2, "retry_on": ["timeout"],
        "after": [first.id], "after_any": [first.id], "venv": str(tmp_path), "results": str(tmp_path / "r" / job.id),
        "unique": True, "gpu_arg": "--cuda", "state": "held",
    }  # fmt: skip
    assert {name: told[name] for name in wanted} == wanted


@pytest.mark.parametrize(
    "options, word",
    [
        ({"time": "4"}, "4s, 4m, 4h or 4d"),
        ({"vram": "much"}, "size"),
        ({"on": "a"}, "list of GPUs"),
        ({"signal": "USR9@1s"}, "signal"),
        ({"env": {"CUDA_VISIBLE_DEVICES": "0"}}, "set by nexus itself"),
        ({"env": {"A": 1}}, "no text"),
        ({"gpu": 2}, "no option gpu"),
    ],
)
def test_what_cannot_be_is_told_before_anything_is_sent(nexus, options, word):
    with pytest.raises(nexus_gpu.BadOption, match=word):
        nexus_gpu.submit("true", **options)
    assert nexus.alive() == []


def test_a_refusal_has_its_code_and_its_words(nexus):
    with pytest.raises(nexus_gpu.Refused) as refused:
        nexus_gpu.submit("true", cwd="/no/such/folder")
    error = refused.value
    assert (error.code, error.status, error.facts["path"]) == ("no_such_folder", 400, "/no/such/folder")
    assert str(error).startswith("the working folder /no/such/folder cannot be used\n") and "\nhint: " in str(error)
    with pytest.raises(nexus_gpu.Refused) as refused:
        nexus_gpu.submit("true", gpus=0).wait(60).kill()
    assert refused.value.code == "wrong_state"


def test_waiting_ends_with_its_time_and_cancel_ends_the_job(nexus):
    job = nexus_gpu.submit("sleep 600")
    with pytest.raises(TimeoutError, match="1 job has not ended"):
        job.wait(0.05)
    assert job.cancel().wait(60).state == "killed"
    assert job.cancel().state == "killed"
    with pytest.raises(nexus_gpu.JobFailed, match="killed"):
        job.result()


def test_jobs_come_as_they_end(nexus, tmp_path):
    gates = [tmp_path / name for name in "ab"]
    slow, quick = [nexus_gpu.submit(gated(gate)) for gate in gates]
    ended = nexus_gpu.as_completed([slow, quick], timeout=60)
    gates[1].touch()
    assert next(ended) == quick
    gates[0].touch()
    assert list(ended) == [slow] and list(nexus_gpu.as_completed([slow, quick])) == [slow, quick]


def test_waiting_asks_nothing(nexus, tmp_path, monkeypatch):
    gate, asked = tmp_path / "gate", []
    job = nexus_gpu.submit(gated(gate))
    once = _http.Http._once
    monkeypatch.setattr(_http.Http, "_once", lambda self, *args: asked.append(args[1]) or once(self, *args))
    waiting = threading.Thread(target=job.wait, args=[60])
    waiting.start()
    until(lambda: asked, "it listens and has read the state")
    # Long enough for anybody who polls to be seen.
    time.sleep(0.5)
    gate.touch()
    waiting.join()
    assert job.state == "completed" and len(asked) == 2, asked


def test_a_job_for_each_combination(nexus):
    sweep = nexus_gpu.map(
        ["sh", "-c", "echo v=$1$2; [ $1 != 2 ]", "-", "{n}", "{t}"],
        {"n": [1, 2], "t": ["a b", "{c}"]},
        gpus=0,
        extract={"v": "v=(.*)"},
        name="grid",
        stop_after=0,
    )
    rows = sweep.results(60)
    assert (sweep.name, [row["v"] for row in rows]) == ("grid", ["1a b", "1{c}", "2a b", "2{c}"])
    assert [(row["n"], row["state"], row["exit_code"]) for row in rows][1:3] == [("1", "completed", 0), ("2", "failed", 1)]
    assert [job.id for job in nexus_gpu.client().sweep("grid")] == [row["id"] for row in rows]
    points = nexus_gpu.map("echo {id} {b}", [{"id": 1, "b": "x"}, {"b": "y", "id": 2}], gpus=0, max_running=1)
    assert [(row["param.id"], row["b"]) for row in points.results(60)] == [("1", "x"), ("2", "y")]


def test_a_sweep_that_cannot_be_queues_nothing(nexus):
    with pytest.raises(nexus_gpu.Refused, match="b"):
        nexus_gpu.map("echo {a}", {"a": [1], "b": [2]})
    for params in ({}, {"a": []}, [{"a": 1}, {"b": 2}]):
        with pytest.raises(nexus_gpu.BadOption):
            nexus_gpu.map("echo {a}", params)
    assert nexus.ask("sweep", "ls") == []


def test_lines_come_as_they_are_printed(nexus, tmp_path):
    gate = tmp_path / "gate"
    job = nexus_gpu.submit(f"echo one; printf two >&2; {gated(gate)}; echo; printf three", gpus=0)
    lines = job.follow()
    assert next(lines) == "one"
    gate.touch()
    assert sorted(lines) == ["", "three", "two"] and job.state == "completed"


def test_jobs_are_found_again(nexus):
    jobs = [nexus_gpu.submit("true", hold=True, tags=tag) for tag in ("x", "x", "y")]
    assert nexus_gpu.jobs("tag:x") == jobs[:2] and nexus_gpu.jobs() == jobs
    assert nexus_gpu.jobs("tag:z") == []
    assert jobs[0].release().wait(60).state == "completed"


def test_results_are_told_and_copied(nexus, tmp_path):
    job = nexus_gpu.submit("echo data > $NEXUS_RESULTS_DIR/kept", gpus=0, results=tmp_path)
    job.result(60)
    assert job.results()["results_state"] == "copied"
    assert (tmp_path / job.id / "kept").read_text() == "data\n"
    job.copy_results(tmp_path / "again")


def test_the_socket_is_found_where_the_home_is_too_long_for_it(nexus, tmp_path, monkeypatch):
    home = tmp_path / ("long" * 25)
    monkeypatch.setenv("NEXUS_HOME", str(home))
    other = type(nexus)(home)
    try:
        assert nexus_gpu.submit("echo here", gpus=0).wait(60).log() == "here\n"
        assert not (home / "nexus.sock").exists() and other.alive() == []
    finally:
        other.run("stop", "-y", code=None)


def test_names_that_only_nexus_sets_are_the_same_on_both_sides():
    """A list that is written twice, since nobody can ask for it."""
    source = (pathlib.Path(__file__).parents[2] / "crates/api/src/env.rs").read_text()
    names = re.findall(r'"([A-Z_]+)"', source.split("pub fn is_reserved")[1].split("\n}\n")[0])
    assert set(names) == _home.RESERVED | {"NEXUS_PARAM_"}
