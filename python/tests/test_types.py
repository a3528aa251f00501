"""What the packages say of their types is true, to the strictest of checkers; and they stay readable."""
import ast
import pathlib
import subprocess
import sys

import pytest

SOURCES = pathlib.Path(__file__).parents[1]
FILES = sorted([*SOURCES.glob("nexus_gpu/**/*.py"), *SOURCES.glob("hydra_plugins/**/*.py"), *SOURCES.glob("tests/*.py")])

LONGEST_FILE = 600
LONGEST_FUNCTION = 70


def test_types_hold():
    command = [sys.executable, "-m", "mypy", "--strict", "--explicit-package-bases", "--cache-dir=/dev/null"]
    done = subprocess.run(
        [*command, "nexus_gpu", "hydra_plugins"], cwd=SOURCES, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCES)))
def test_files_say_what_they_promise_and_stay_short(file):
    text = file.read_text()
    tree = ast.parse(text)
    assert ast.get_docstring(tree), "no header"
    assert len(text.splitlines()) <= LONGEST_FILE
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            assert node.end_lineno - node.lineno < LONGEST_FUNCTION, node.name


def test_the_client_needs_nothing_but_python():
    for file in SOURCES.glob("nexus_gpu/*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names.append(node.module)
            others = {name.split(".")[0] for name in names} - set(sys.stdlib_module_names)
            # The first where it is installed, the second for type checkers alone.
            assert others <= {"cloudpickle", "typing_extensions", "nexus_gpu"}, file
