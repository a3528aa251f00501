"""The client while the service stops, restarts and crashes: nothing is lost, nothing happens twice, nobody hangs."""
import http.server
import json
import pathlib
import socketserver
import threading

import called
import nexus_gpu
import pytest
from conftest import until
from nexus_gpu import _http


def restart(nexus):
    nexus.run("restart")


def crash(nexus):
    nexus.kill_service()
    nexus.run("start")


def in_background(work):
    """Its outcome, once it is there."""
    outcome = []
    thread = threading.Thread(target=lambda: outcome.append(work()))
    thread.start()

    def end():
        thread.join(60)
        return outcome[0]

    return end


@pytest.mark.parametrize("away", [restart, crash])
def test_who_waits_does_not_notice(nexus, tmp_path, away):
    gate = tmp_path / "gate"
    job = nexus_gpu.submit(f"echo before; until [ -e {gate} ]; do sleep 0.02; done; echo after", gpus=0)
    ended = in_background(lambda: job.result(60))
    followed = in_background(lambda: list(job.follow()))
    until(lambda: nexus_gpu.client().listener.is_listening, "it listens")
    away(nexus)
    gate.touch()
    assert ended() == {} and followed() == ["before", "after"] and job.state == "completed"


def test_an_end_while_the_service_is_away_is_heard_of(nexus, tmp_path):
    gate, done = tmp_path / "gate", tmp_path / "done"
    job = nexus_gpu.submit(f"until [ -e {gate} ]; do sleep 0.02; done; touch {done}; exit 4", gpus=0)
    ended = in_background(lambda: job.wait(60).exit_code)
    until(lambda: nexus_gpu.client().listener.is_listening, "it listens")
    nexus.kill_service()
    gate.touch()
    until(done.exists, "the job went on")
    nexus.run("start")
    assert ended() == 4


def test_submissions_happen_once_through_restarts_and_crashes(nexus):
    over = threading.Event()

    def storm():
        while not over.is_set():
            restart(nexus)
            crash(nexus)

    thread = threading.Thread(target=storm)
    thread.start()
    try:
        jobs = [nexus_gpu.submit(f"echo {number}", gpus=0, hold=True) for number in range(40)]
    finally:
        over.set()
        thread.join()
    assert len({job.id for job in jobs}) == 40
    assert sorted(nexus.alive()) == sorted(job.id for job in jobs)


def test_an_answer_that_is_lost_is_asked_for_again(nexus, monkeypatch):
    once, lost = _http.Http._once, []

    def lossy(self, *args):
        answer = once(self, *args)
        if len(lost) < 2:
            lost.append(answer)
            raise ConnectionResetError("the service went while it answered")
        return answer

    monkeypatch.setattr(_http.Http, "_once", lossy)
    job = nexus_gpu.submit("true", hold=True)
    assert len(lost) == 2 and nexus.alive() == [job.id]


def test_a_submission_starts_a_service_and_a_read_does_not(nexus):
    nexus.run("stop", "-y")
    stranger = nexus_gpu.Client()
    with pytest.raises(nexus_gpu.NoService) as none:
        stranger.jobs()
    assert str(none.value) == f"no nexus service answers in {nexus.home}\nhint: nexus start"
    nexus.run("ls", code=3)
    assert stranger.submit("true", gpus=0).wait(60).state == "completed"


def test_patience_ends(nexus):
    client = nexus_gpu.Client(patience=0.2)
    job = client.submit("sleep 600", gpus=0)
    nexus.run("stop", "--keep-jobs")
    with pytest.raises(nexus_gpu.NoService, match="waited"):
        job.refresh()
    with pytest.raises(nexus_gpu.NoService, match="waited"):
        job.wait(60)
    nexus.run("start")
    assert job.cancel().wait(60).state == "killed"


def test_a_service_that_cannot_start_says_why(nexus):
    nexus.run("stop", "-y")
    with open(nexus.home / "config.toml", "a") as config:
        config.write("\n[nonsense]\nx = 1\n")
    with pytest.raises(nexus_gpu.NoService, match="nonsense"):
        nexus_gpu.submit("true")


def test_no_binary_is_told(nexus, monkeypatch, tmp_path):
    monkeypatch.delenv("NEXUS_BIN")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(nexus_gpu.NexusError, match="pip install nexus-gpu"):
        nexus_gpu.Client(tmp_path / "home").submit("true")


class GoingDown(http.server.BaseHTTPRequestHandler):
    """A service that says once that it goes down, and is well then."""

    asked: list = []

    def do_GET(self):
        path = self.path.split("?")[0]
        self.asked.append(path)
        job = {"id": "abc", "state": "completed", "command": "true", "exit_code": 0}
        stopping = {"problem": "stopping", "title": "the service goes down"}
        is_first = self.asked.count(path) == 1
        body = b": hello\n\n" if path == "/v1/events" else json.dumps([job]).encode()
        self.send_response(503 if is_first else 200)
        self.end_headers()
        self.wfile.write(json.dumps(stopping).encode() if is_first else body)

    def log_message(self, *_):
        pass

    def address_string(self):
        return "somebody"


def test_one_that_says_it_goes_down_is_waited_for(tmp_path):
    with socketserver.ThreadingUnixStreamServer(str(tmp_path / "nexus.sock"), GoingDown) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        job = nexus_gpu.Job(nexus_gpu.Client(tmp_path), {"id": "abc", "state": "running", "command": "true"})
        assert job.wait(60).state == "completed"
        server.shutdown()
    assert GoingDown.asked[:4] == ["/v1/events", "/v1/events", "/v1/jobs", "/v1/jobs"]


@pytest.mark.parametrize("away", [restart, crash])
def test_calls_come_back_through_it(nexus, tmp_path, away):
    gate = str(tmp_path / "gate")
    with nexus_gpu.Executor(gpus=1) as executor:
        calls = [executor.submit(called.gated, gate, number) for number in range(8)]
        until(lambda: pathlib.Path(f"{gate}.0.begun").exists(), "the first runs")
        away(nexus)
        pathlib.Path(gate).touch()
        assert [call.result(60) for call in calls] == list(range(8))
