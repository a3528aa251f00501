"""Durations and sizes are read and refused as by the service and the page."""

import json
import pathlib

import pytest

from nexus_gpu import _spec
from nexus_gpu.errors import BadOption

CASES = json.loads((pathlib.Path(__file__).parents[2] / "crates/api/cases/values.json").read_text())


def test_durations_are_read_and_refused_as_everywhere():
    for text, seconds in CASES["durations"]["read"].items():
        assert _spec.seconds("time", text) == seconds, text
    for text, instead in CASES["durations"]["refused"].items():
        with pytest.raises(BadOption) as refused:
            _spec.seconds("time", text)
        assert str(refused.value).endswith(f": {instead}"), text


def test_sizes_are_read_and_refused_as_everywhere():
    for text, mib in CASES["mebibytes"]["read"].items():
        assert _spec.mebibytes("vram", text) == mib, text
    for text in CASES["mebibytes"]["refused"]:
        with pytest.raises(BadOption):
            _spec.mebibytes("vram", text)
