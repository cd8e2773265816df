"""Which lines of a log are shown when a program has ended."""

from __future__ import annotations

import pytest

from astuner.shared.processes.log_lines import select_telling_lines

BARS = "Loading weights:  50%|#####     | 1/2 [00:00<00:00, 3.1it/s]\rLoading weights: 100%|##########| 2/2 [00:00, 5it/s]\n"
REASON = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (BARS, []),
        (f"one\n\n{BARS}two\n", ["one", "two"]),
        (f"{BARS}Traceback (most recent call last):\n  File 'a.py'\n{REASON}\n{BARS}closing\n", [REASON]),
        (f"(EngineCore pid=7) {REASON}\nRuntimeError: failed. See stack trace (above) for the root cause\n", [REASON]),
        ("step 1\rstep 2\r\n", ["step 2"]),
        ("/x/y.py:3: FutureWarning: old\n  warnings.warn(\nKeyError\nbye\n", ["KeyError"]),
    ],
)
def test_the_reason_comes_last_and_nothing_hides_it(log: str, expected: list[str]) -> None:
    found = select_telling_lines(log, 20)
    assert [line.removeprefix("(EngineCore pid=7) ") for line in found[-len(expected) :] if expected] == expected
    assert not any("it/s" in line or "stack trace" in line for line in found)


def test_no_more_than_asked() -> None:
    assert select_telling_lines("a\nb\nc\n", 2) == ["b", "c"]
