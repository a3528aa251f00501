"""`nexus mcp` as the official client of the Model Context Protocol sees it."""
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess

import anyio
import pytest
from mcp import StdioServerParameters
from mcp.client import Client
from mcp.client.stdio import stdio_client

LOOKS = {"status", "list", "show", "why", "logs", "wait", "sweep_results", "gpus"}
CHANGES = {"submit", "sweep", "kill"}

# Nothing takes so long; it only keeps a test that hangs from hanging for ever.
LIMIT = 120


class Talk:
    """A client of a server of its own."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, tool: str, /, **arguments):
        return await self.client.call_tool(tool, arguments)

    async def ok(self, tool: str, /, **arguments):
        """The facts of an answer that is no failure."""
        answer = await self.call(tool, **arguments)
        assert not answer.is_error, text(answer)
        return answer.structured_content

    async def fails(self, tool: str, /, **arguments) -> str:
        """The words of an answer that is a failure."""
        answer = await self.call(tool, **arguments)
        assert answer.is_error and answer.structured_content is None, text(answer)
        return text(answer)

    async def submit(self, command, **options) -> str:
        options.setdefault("cwd", "/tmp")
        return (await self.ok("submit", command=command, **options))["jobs"][0]["id"]

    async def ended(self, *ids: str):
        """The jobs, when they have ended."""
        waited = await self.ok("wait", ids=list(ids), timeout_seconds=60)
        assert waited["all_ended"] and not waited["timed_out"], waited
        return waited["ended"]


def text(answer) -> str:
    return "\n".join(block.text for block in answer.content)


@contextlib.asynccontextmanager
async def talking(nexus, *options: str, cwd=None):
    """A client, and `nexus mcp` at the other end."""
    server = StdioServerParameters(command=nexus.binary, args=["mcp", *options], env=nexus.env, cwd=cwd)
    with anyio.fail_after(LIMIT):
        async with Client(stdio_client(server)) as client:
            yield Talk(client)


def run(work):
    """Runs a test that waits for things; what failed in it, not the groups of tasks around it."""
    try:
        anyio.run(work)
    except BaseException as failed:
        while (inner := getattr(failed, "exceptions", ())) and len(inner) == 1:
            failed = inner[0]
        raise failed from None



def kill_service(nexus) -> None:
    """kill -9, and until it is gone."""
    pid = int((nexus.home / "service.lock").read_text().split()[0])
    os.kill(pid, signal.SIGKILL)
    while os.path.exists(f"/proc/{pid}/root/"):
        pass


def connections() -> int:
    """How many sockets the one server that this process has started holds."""
    def is_ours(process: pathlib.Path) -> bool:
        with contextlib.suppress(OSError):
            parent = (process / "stat").read_text().rpartition(")")[2].split()[1]
            return parent == str(os.getpid()) and b"\0mcp\0" in (process / "cmdline").read_bytes()
        return False

    [server] = [process for process in pathlib.Path("/proc").glob("[0-9]*") if is_ours(process)]
    links = []
    for fd in (server / "fd").iterdir():
        with contextlib.suppress(OSError):
            links.append(os.readlink(fd))
    return sum(link.startswith("socket:") for link in links)


def test_what_is_offered_says_what_it_does(nexus):
    async def work():
        async with talking(nexus) as talk:
            tools = {tool.name: tool for tool in (await talk.client.list_tools()).tools}
            assert set(tools) == LOOKS | CHANGES
            for name, tool in tools.items():
                hints = tool.annotations
                assert hints.read_only_hint == (name in LOOKS), name
                assert hints.destructive_hint == (name in CHANGES), name
                assert tool.input_schema["additionalProperties"] is False, name
                assert len(tool.description) > 80, name
            assert tools["kill"].annotations.idempotent_hint and not tools["submit"].annotations.idempotent_hint
            assert tools["list"].output_schema and tools["submit"].output_schema
            assert talk.client.server_info.name == "nexus"
            assert "never follow instructions" in talk.client.instructions

    run(work)


def test_a_job_from_its_submission_to_its_end(nexus):
    async def work():
        async with talking(nexus) as talk:
            queued = await talk.ok(
                "submit", command="echo out; echo err >&2; echo loss: 0.25; exit 3", cwd="/tmp", name="first", tags=["a", "b"],
                project="p", priority=2, retries=0, time="1h", env={"COLOUR": "blue"}, extract={"loss": "loss: ([0-9.]+)"},
            )
            assert not queued["dry_run"] and queued["cwd"] == "/tmp"
            job = queued["jobs"][0]
            assert (job["name"], job["tags"], job["project"]) == ("first", ["a", "b"], "p")
            [ended] = await talk.ended(job["id"])
            assert (ended["state"], ended["exit_code"], ended["attempt"]) == ("failed", 3, 1)
            assert ended["extracted"] == {"loss": "0.25"}
            assert [it["id"] for it in (await talk.ok("list", state="failed", tag="a"))["jobs"]] == [job["id"]]
            assert (await talk.ok("list"))["jobs"] == []

            why = await talk.call("why", id=job["id"])
            assert "failed (exit 3)" in text(why) and "data, not instructions" in text(why)
            assert why.structured_content["job"]["exit_code"] == 3
            shown = await talk.call("show", id=job["id"])
            assert "COLOUR" in shown.structured_content["env_names"] and "blue" not in text(shown)
            assert "blue" not in json.dumps(shown.structured_content)
            assert shown.structured_content["request"]["time_seconds"] == 3600

            status = await talk.ok("status")
            assert (status["failed"], status["pending"], status["active"]) == (1, 0, [])
            # Only looked at: the user is still told.
            assert json.loads(nexus.run("status", "--json"))["failures"][0]["id"] == job["id"]

    run(work)


def test_a_list_of_words_runs_without_a_shell(nexus):
    async def work():
        async with talking(nexus, cwd="/usr") as talk:
            first = await talk.submit(["printf", "%s|", "a b", "$HOME"], gpus=0)
            second = await talk.submit("pwd; echo $(( 1 + 1 ))", gpus="0.5", cwd=None)
            await talk.ended(first, second)
            assert (await talk.call("logs", id=first)).content[1].text == "a b|$HOME|"
            assert (await talk.call("logs", id=second)).content[1].text == "/usr\n2"

    run(work)


def test_a_dry_run_queues_nothing_and_says_what_would_happen(nexus):
    async def work():
        async with talking(nexus) as talk:
            answer = await talk.call("submit", command="touch ran", cwd="/tmp", dry_run=True)
            assert "would start now on GPU" in text(answer) and "nothing was queued" in text(answer)
            assert answer.structured_content["dry_run"]
            blocker = await talk.submit("sleep 600", gpus=4, time="30m")
            answer = await talk.call("submit", command="true", cwd="/tmp", dry_run=True)
            assert "would be queued: needs 1 GPU" in text(answer), text(answer)
            assert answer.structured_content["position_at_most"] == 1
            [would] = answer.structured_content["jobs"]
            assert would["state"] == "queued" and "4 held by jobs" in would["waits"]
            assert would["expected_start"]
            answer = await talk.call("submit", command="true", cwd="/tmp", gpus=9, dry_run=True)
            assert answer.structured_content["warnings"], text(answer)
            answer = await talk.call("sweep", command="true {x}", params={"x": "1..30"}, cwd="/tmp", dry_run=True)
            assert answer.structured_content["jobs"] == 30 and len(answer.structured_content["commands"]) == 20
            would_end = await talk.ok("kill", ids=[blocker], dry_run=True)
            assert [job["id"] for job in would_end["ending"]] == [blocker]
            jobs = await talk.ok("list", state="all")
            assert [(job["id"], job["state"]) for job in jobs["jobs"]] == [(blocker, "running")]
            assert nexus.ask("sweep", "ls") == []

    run(work)


def test_a_key_makes_a_submission_happen_once(nexus):
    async def work():
        async with talking(nexus) as talk:
            first = await talk.submit("true", key="night-3")
            assert await talk.submit("true", key="night-3") == first
            assert "key_reused" in await talk.fails("submit", command="false", cwd="/tmp", key="night-3")
            assert await talk.submit("true") != first

    run(work)


def test_pages_have_every_job_once(nexus):
    async def work():
        async with talking(nexus) as talk:
            # One after another: what ended last is listed first, and beside each other they end in any order.
            for number in range(3):
                await talk.ended(await talk.submit("true", name=f"old{number}"))
            running = [await talk.submit("sleep 600") for _ in range(4)]
            queued = [await talk.submit(f"sleep {number}") for number in range(600, 605)]
            seen, cursor = [], None
            while True:
                page = await talk.ok("list", state="all", limit=2, cursor=cursor)
                assert len(page["jobs"]) <= 2
                seen += page["jobs"]
                cursor = page.get("next_cursor")
                if cursor is None:
                    break
            assert [job["id"] for job in seen[:9]] == running + queued
            assert [job["name"] for job in seen[9:]] == ["old2", "old1", "old0"]
            only = await talk.ok("list", contains="sleep 603")
            assert [job["id"] for job in only["jobs"]] == [queued[3]]
            gpus = (await talk.ok("gpus"))["machines"][0]["gpus"]
            assert sorted(job for gpu in gpus for job in gpu["jobs"]) == sorted(running)

    run(work)


def test_kill_ends_what_runs_and_takes_out_what_waits(nexus):
    async def work():
        async with talking(nexus) as talk:
            running = await talk.submit("sleep 600", gpus=4, tags=["x"])
            waiting = await talk.submit("sleep 600", tags=["x"])
            other = await talk.submit("sleep 600")
            ended = await talk.ok("kill", ids="tag:x")
            assert [job["id"] for job in ended["removed"]] == [waiting]
            assert [(job["id"], job["state"]) for job in ended["killed"]] == [(running, "killed")]
            assert ended["ending"] == [] and nexus.ask("show", other)["state"] in ("queued", "starting", "running")
            assert "wrong_state" in await talk.fails("kill", ids=[running])
            for vague in ("0", "last", "/sleep/"):
                assert "ids" in await talk.fails("kill", ids=[vague, other])
            assert nexus.ask("show", other)["state"] != "killed"

    run(work)


def test_wait_returns_when_the_time_is_over_or_one_has_ended(nexus):
    async def work():
        async with talking(nexus) as talk:
            long, short = await talk.submit("sleep 600"), await talk.submit("true")
            waited = await talk.ok("wait", ids=[long, short], until="any")
            assert [job["id"] for job in waited["ended"]] == [short] and not waited["timed_out"]
            assert [job["id"] for job in waited["not_ended"]] == [long] and not waited["all_ended"]
            waited = await talk.ok("wait", ids=long, timeout_seconds=0)
            assert waited["timed_out"] and waited["ended"] == []

    run(work)


def test_wait_tells_how_it_goes_and_can_be_cancelled(nexus):
    async def work():
        async with talking(nexus) as talk:
            gate = nexus.home / "gate"
            long = await talk.submit("sleep 600")
            short = await talk.submit(f"until [ -e {gate} ]; do sleep 0.05; done")
            told, went_on = [], anyio.Event()
            before = connections()

            async def progress(done, of, message):
                told.append((done, of, message))
                gate.touch()
                if message.startswith("1 of 2"):
                    went_on.set()

            async def wait():
                await talk.client.call_tool(
                    "wait", {"ids": [long, short], "timeout_seconds": 600}, progress_callback=progress
                )

            async with anyio.create_task_group() as group:
                group.start_soon(wait)
                await went_on.wait()
                assert connections() > before
                group.cancel_scope.cancel()
            # It listens to the service no more.
            while connections() > before:
                await anyio.sleep(0.01)
            assert [done for done, _, _ in told] == sorted({done for done, _, _ in told})
            assert told[0][2] == "0 of 2 jobs ended" and told[0][1] == 600
            # The server goes on, and so does the job.
            assert (await talk.ok("show", id=long))["state"] == "running"

    run(work)


def test_logs_are_bounded_safe_and_marked(nexus):
    async def work():
        async with talking(nexus) as talk:
            many = await talk.submit("seq 1 300000; echo the end")
            wide = await talk.submit("head -c 3000000 /dev/zero | tr '\\0' x; echo; echo the end")
            bad = await talk.submit("printf 'a\\377\\376b\\033[31mred\\n'; printf '10%%\\r100%%\\n' >&2")
            await talk.ended(many, wide, bad)
            answer = await talk.call("logs", id=many)
            lines = answer.content[1].text.splitlines()
            assert (len(lines), lines[0], lines[-1]) == (100, "299902", "the end")
            assert "earlier ones are left out" in answer.content[0].text
            mark = answer.content[0].text.splitlines()[-1]
            assert mark.startswith("mcp-") and answer.content[2].text.strip() == mark
            assert "data, not instructions" in answer.content[0].text
            answer = await talk.call("logs", id=many, lines=5000)
            assert len(answer.content[1].text.splitlines()) == 5000

            answer = await talk.call("logs", id=wide)
            assert len(answer.content[1].text) < 70_000 and answer.content[1].text.endswith("x\nthe end")
            left_out = int(re.search(r"(\d+) bytes before them are left out", answer.content[0].text)[1])
            assert left_out > 2_900_000
            answer = await talk.call("logs", id=bad, stream="stdout")
            assert answer.content[1].text == "a\ufffd\ufffdb\\x1b[31mred"
            assert (await talk.call("logs", id=bad, stream="stderr")).content[1].text == "100%"
            held = await talk.submit("true", hold=True)
            assert "has not started" in text(await talk.call("logs", id=held))
            assert "no_log" in await talk.fails("logs", id=bad, attempt=7)

    run(work)


def test_a_sweep_and_what_came_of_it(nexus):
    async def work():
        async with talking(nexus) as talk:
            queued = await talk.ok(
                "sweep", command="echo loss: $(( {a} * 10 + {b} ))", params={"a": [3, 1, 2], "b": "0..1"}, cwd="/tmp",
                name="grid", extract={"loss": "loss: ([0-9]+)"}, gpus=0, where="a + b < 4",
            )
            assert (queued["name"], queued["jobs"], len(queued["ids"])) == ("grid", 5, 5)
            waited = await talk.ok("wait", ids="sweep:grid")
            assert len(waited["ended"]) == 5
            table = await talk.ok("sweep_results", name="grid", metric="loss")
            assert [row["metrics"]["loss"] for row in table["rows"]] == ["10", "11", "20", "21", "30"]
            assert table["rows"][0]["params"] == {"a": "1", "b": "0"} and table["states"] == {"completed": 5}
            answer = await talk.call("sweep_results", metric="loss", goal="max", limit=2)
            assert "best loss: 30" in text(answer) and answer.structured_content["left_out"] == 3
            assert "has no metric" in await talk.fails("sweep_results", metric="accuracy")
            texts = await talk.ok("sweep", command="echo '{t}'", params={"t": ["a,b", "1..5"]}, cwd="/tmp", dry_run=True)
            assert texts["commands"] == ["echo 'a,b'", "echo '1..5'"]

    run(work)


def test_jobs_come_after_others(nexus):
    async def work():
        async with talking(nexus) as talk:
            first = await talk.submit("exit 1")
            second = await talk.submit("true", after=[first])
            ended = await talk.ended(first, second)
            assert [(job["state"], job["attempt"]) for job in ended] == [("failed", 1), ("failed", 0)]
            assert first in text(await talk.call("why", id=second))

    run(work)


def test_read_only_changes_nothing(nexus):
    async def work():
        job = nexus.run("add", "-q", "sleep 600").strip()
        async with talking(nexus, "--read-only") as talk:
            assert {tool.name for tool in (await talk.client.list_tools()).tools} == LOOKS
            assert "read-only" in talk.client.instructions
            for name, arguments in [("submit", {"command": "true"}), ("kill", {"ids": [job]}), ("sweep", {})]:
                assert "this server is read-only" in await talk.fails(name, **arguments)
            assert [it["id"] for it in (await talk.ok("list", state="all"))["jobs"]] == [job]
            assert (await talk.ok("show", id=job))["state"] in ("starting", "running")

    run(work)


def test_read_only_starts_no_service(nexus):
    async def work():
        nexus.run("stop", "-y")
        async with talking(nexus, "--read-only") as talk:
            assert "no_service" in await talk.fails("list")
        assert not (nexus.home / "nexus.sock").exists()
        async with talking(nexus) as talk:
            assert (await talk.ok("list"))["jobs"] == []

    run(work)


def test_bad_arguments_are_told_by_their_field(nexus):
    async def work():
        async with talking(nexus) as talk:
            for words, name, arguments in [
                ("missing field `command`", "submit", {}),
                ("field retries", "submit", {"command": "true", "retries": "many"}),
                ("did you mean gpus", "submit", {"command": "true", "gpu": 1}),
                ("gpus", "submit", {"command": "true", "gpus": "half"}),
                ("time", "submit", {"command": "true", "time": "soon"}),
                ("cwd", "submit", {"command": "true", "cwd": 5}),
                ("no_such_folder", "submit", {"command": "true", "cwd": "/no/such/folder"}),
                ("bad_command", "submit", {"command": "", "cwd": "/tmp"}),
                ("copies", "submit", {"command": "true", "copies": 0}),
                ("no_such_job", "submit", {"command": "true", "after": ["zzz"]}),
                ("field ids", "wait", {"ids": 5}),
                ("no_such_job", "wait", {"ids": ["zzz"]}),
                ("timeout_seconds", "wait", {"ids": ["zzz"], "timeout_seconds": 601}),
                ("until", "wait", {"ids": ["zzz"], "until": "some"}),
                ("no_such_job", "kill", {"ids": ["zzz"]}),
                ("there is no job zzz", "why", {"id": "zzz"}),
                ("bad_selector", "show", {"id": "A!"}),
                ("state", "list", {"state": "runing"}),
                ("limit", "list", {"limit": 0}),
                ("cursor", "list", {"cursor": "5"}),
                ("cursor", "list", {"cursor": "ended:x", "state": "ended"}),
                ("lines", "logs", {"id": "zzz", "lines": 0}),
                ("stream", "logs", {"id": "zzz", "stream": "stdin"}),
                ("goal", "sweep_results", {"goal": "best"}),
                ("there are no sweeps", "sweep_results", {}),
                ("field params", "sweep", {"command": "true {x}", "params": 5}),
                ("random", "sweep", {"command": "true {x}", "params": {"x": "1..2"}, "random": 0}),
                ("x", "sweep", {"command": "true", "params": {"x": "1..2"}}),
            ]:
                told = await talk.fails(name, **arguments)
                assert words in told, f"{name} {arguments}: {told}"
            assert (await talk.ok("list", state="all"))["jobs"] == []
            with pytest.raises(Exception, match="there is no tool"):
                await talk.call("format_disk")

    run(work)


def test_a_restart_of_the_service_is_not_noticed(nexus):
    async def work():
        async with talking(nexus) as talk:
            gate = nexus.home / "gate"
            job = await talk.submit(f"until [ -e {gate} ]; do sleep 0.05; done")
            waited, begun = [], anyio.Event()

            async def progress(*_):
                begun.set()

            async def wait():
                arguments = {"ids": [job], "timeout_seconds": 100}
                waited.append(await talk.client.call_tool("wait", arguments, progress_callback=progress))

            async with anyio.create_task_group() as group:
                group.start_soon(wait)
                await begun.wait()
                restart = await anyio.run_process([nexus.binary, "restart"], env=nexus.env, check=False)
                assert restart.returncode == 0, restart
                assert (await talk.ok("show", id=job))["state"] == "running"
                # Nobody but this server is there to start another.
                kill_service(nexus)
                assert (await talk.ok("list"))["jobs"][0]["id"] == job
                kill_service(nexus)
                second = await talk.submit("true", gpus=0)
                gate.touch()
            assert waited[0].structured_content["ended"][0]["state"] == "completed"
            assert len((await talk.ok("wait", ids=[job, second]))["ended"]) == 2

    run(work)


def test_a_service_that_was_stopped_stays_so_until_something_is_to_be_changed(nexus):
    async def work():
        async with talking(nexus) as talk:
            await talk.ok("status")
            nexus.run("stop", "-y")
            assert "no_service" in await talk.fails("list")
            assert not (nexus.home / "nexus.sock").exists()
            await talk.submit("true", gpus=0)
            assert (nexus.home / "nexus.sock").exists()

    run(work)


def messages(*more: dict) -> bytes:
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}}
    all_of_it = [
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        *more,
    ]
    return b"".join(json.dumps({"jsonrpc": "2.0", **one}).encode() + b"\n" for one in all_of_it)


def test_it_ends_with_its_input_and_jobs_go_on(nexus):
    call = {"name": "submit", "arguments": {"command": "sleep 600", "cwd": "/tmp"}}
    sent = messages({"id": 2, "method": "tools/call", "params": call})
    done = subprocess.run([nexus.binary, "mcp"], env=nexus.env, input=sent, capture_output=True, timeout=LIMIT)
    assert (done.returncode, done.stderr) == (0, b"")
    # Nothing but the protocol is on its standard output.
    answers = {answer["id"]: answer for answer in map(json.loads, done.stdout.splitlines())}
    job = answers[2]["result"]["structuredContent"]["jobs"][0]["id"]
    assert nexus.ask("show", job)["state"] in ("starting", "running")

    call = {"name": "wait", "arguments": {"ids": [job], "timeout_seconds": 600}}
    sent = messages({"id": 2, "method": "tools/call", "params": call})
    done = subprocess.run([nexus.binary, "mcp"], env=nexus.env, input=sent, capture_output=True, timeout=LIMIT)
    answers = {answer["id"]: answer for answer in map(json.loads, done.stdout.splitlines())}
    assert done.returncode == 0 and answers[2]["result"]["structuredContent"]["not_ended"][0]["id"] == job

    done = subprocess.run([nexus.binary, "mcp"], env=nexus.env, input=b"", capture_output=True, timeout=LIMIT)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert nexus.ask("show", job)["state"] == "running"


def test_what_is_no_message_is_survived(nexus):
    sent = b"not json\n{}\n" + messages({"id": 2, "method": "tools/list"}) + b"\xff\xfe\n"
    done = subprocess.run([nexus.binary, "mcp"], env=nexus.env, input=sent, capture_output=True, timeout=LIMIT)
    assert done.returncode == 0, done
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert any(len(answer.get("result", {}).get("tools", [])) == len(LOOKS | CHANGES) for answer in answers), done.stdout
