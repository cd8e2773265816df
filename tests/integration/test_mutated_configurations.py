"""Mutated copies of the repository's own configurations: each is valid, or refused with a reason, and quickly.

`ASTUNER_FUZZ_YAML` says how many there are; `ASTUNER_FUZZ_SEED` makes them others.
"""

from __future__ import annotations

import os
import random
import time
import traceback
from pathlib import Path

from astuner.contract.errors import AstunerError
from astuner.settings.planning.plan import plan_run

REPOSITORY = Path(__file__).parents[2]
FILES = int(os.environ.get("ASTUNER_FUZZ_YAML", "60"))
SEED = int(os.environ.get("ASTUNER_FUZZ_SEED", "1"))
HANGS_S = 60
"""What takes longer hangs, on however busy a machine."""

VALUES = ("null", "true", "-1", "1e400", "[]", "{}", "[[]]", "{a: {b: []}}", "''", '"\\ud800"', "2020-01-01", "*a", "&a x")
VALUES += (
    "!!python/object:os.system x",
    "0x10",
    "${seed}",
    "${a.b}",
    "${oc.env:X}",
    "${",
    "${oc.env:",
    "1_000",
    "~",
    "'\\0'",
    "a->B",
    "./none.py->X",
)
VALUES += ("9" * 5000, "x" * 5000)
BOMB = "\n".join(["a0: &a0 [x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9))])


def list_configurations() -> list[str]:
    found = [path for path in REPOSITORY.rglob("*.yaml") if not {".venv", ".tox", "charts"} & set(path.parts)]
    texts = [path.read_text(encoding="utf-8") for path in sorted(found)]
    return [text for text in texts if "astuner:" in text or "ajet:" in text]


def mutate(text: str, dice: random.Random) -> bytes:
    lines = text.splitlines()
    for _ in range(dice.choice((1, 1, 2, 4))):
        place = dice.randrange(len(lines))
        key, colon, _ = lines[place].partition(":")
        indent = " " * (len(lines[place]) - len(lines[place].lstrip()))
        depth = dice.choice((3, 60, 3000))
        lines[place : place + 1] = dice.choice(
            (
                [],
                [lines[place]] * 2,
                [lines[place], lines[dice.randrange(len(lines))]],
                [f"{key}{colon} {dice.choice(VALUES)}"],
                [f"{key}{colon} {dice.choice(VALUES)}"],
                [f"{key}{colon} {dice.choice(VALUES)}"],
                [f"{key}x{colon} 1"],
                [f"{key}{colon} {'[' * depth}{']' * depth}"],
                [f"{key}{colon} {'{a: ' * depth}1{'}' * depth}"],
                [f"{indent}&n {lines[place].strip()}", f"{indent}k: *n"],
                [f"{key}{colon} &a", f"{indent}  <<: *a"],
                [lines[place][1:]],
                [f" {lines[place]}"],
                [lines[place].replace(":", "")],
                [*(f"{indent}{line}" for line in BOMB.splitlines()), lines[place]],
            )
        )
        lines = lines or [""]
    raw = "\n".join(lines).encode()
    for _ in range(dice.choice((0, 0, 0, 1, 3))):
        start = dice.randrange(len(raw) + 1)
        raw = raw[:start] + dice.randbytes(dice.choice((0, 1, 2))) + raw[start + dice.choice((0, 1, 5)) :]
    return raw


def test_each_is_valid_or_refused_with_a_reason(tmp_path: Path) -> None:
    dice, texts, slowest = random.Random(SEED), list_configurations(), 0.0
    refused, reasons = 0, set[str]()
    assert len(texts) > 5
    for number in range(FILES):
        file = tmp_path / f"tune{number % 7}.yaml"
        file.write_bytes(mutate(dice.choice(texts), dice))
        began = time.monotonic()
        try:
            plan_run(file)
        except AstunerError as error:
            refused += 1
            reasons.add(str(error).strip())
        except Exception as error:  # noqa: BLE001 - any other is what this looks for
            places = "".join(traceback.format_exception(error))[-3000:]
            raise AssertionError(f"{file.read_bytes()[:6000]!r}\n{places}") from None
        slowest = max(slowest, time.monotonic() - began)
        assert slowest < HANGS_S, file.read_bytes()[:6000]
    print(f"{FILES} files, {refused} refused, the slowest in {slowest:.2f} s")
    assert refused > FILES / 4
    assert all(reasons)
