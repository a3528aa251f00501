"""What stands in docs/python.md does what it says: every block of Python and of shell there is run."""
import pathlib
import re
import subprocess
import sys

PAGE = pathlib.Path(__file__).parents[2] / "docs/python.md"


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def test_every_block_runs(nexus, tmp_path):
    """One that begins with the name of a file is that file."""
    programs = []
    for block in blocks("python"):
        named = re.match(r"# (\w+\.py)\n", block)
        (tmp_path / (named.group(1) if named else f"block{len(programs)}.py")).write_text(block)
        programs += [] if named else [f"block{len(programs)}.py"]
    assert len(programs) >= 5
    told = ""
    for program in programs:
        done = subprocess.run(
            [sys.executable, program], cwd=tmp_path, env=nexus.env, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, (program, done)
        told += done.stdout
    for expected in ("{'loss': '0.25'}", "completed 0 3\n", "0.01 2 completed 0.012", "[1.0, 10.0]", "exit 3"):
        assert expected in told, told
    assert re.search(r"ZeroDivisionError \w+ failed", told)


def test_the_multirun_of_the_page_runs(nexus, tmp_path):
    (app,) = [block for block in blocks("python") if block.startswith("# app.py")]
    (tmp_path / "app.py").write_text(app)
    env = {**nexus.env, "PATH": f"{pathlib.Path(sys.executable).parent}:{nexus.env['PATH']}"}
    (typed,) = blocks("sh")
    done = subprocess.run(["bash", "-euc", typed], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done
    assert len(nexus.ask("history")) == 2
