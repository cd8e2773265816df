"""What a server is said to do while it starts."""

from __future__ import annotations

import pytest

from astuner_vllm.startup_stages import find_stage

NOISE = "Found ulimit of 20000 and failed to automatically increase\n"
LOADING = f"{NOISE}INFO Starting to load model /m...\n{NOISE}"


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ("", "starting"),
        (NOISE, "starting"),
        (LOADING, "loading the model"),
        (f"{LOADING}Loading weights took 1.2 seconds\nModel loading took 3 GiB memory\n", "compiling, and measuring its memory"),
        (f"{LOADING}init engine (profile, create kv cache, warmup model) took 9 s\n", "opening its port"),
    ],
)
def test_the_last_stage_counts_and_not_the_last_line(log: str, expected: str) -> None:
    assert find_stage(log) == expected
