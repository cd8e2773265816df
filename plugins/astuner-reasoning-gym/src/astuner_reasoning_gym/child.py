"""The program of the child process: makes puzzles of the library reasoning-gym and scores answers, a line of JSON for each line.

It runs with a fixed `PYTHONHASHSEED`, since some families iterate over sets, and would give other puzzles in each process.
Some families evaluate an answer as Python, so answers are scored here, within limits of
memory and time.
"""

from __future__ import annotations

import dataclasses
import difflib
import faulthandler
import json
import logging
import os
import random
import sys
import zlib
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

_MEMORY_BYTES = 4 << 30


def main() -> None:
    """Answer until the input ends."""
    deadline_s = float(sys.argv[1])
    does: Mapping[str, Callable[..., dict[str, Any]]] = {"check": _check, "make": _make_puzzle, "score": _score}
    # Some families print; their output must not mix with the answers.
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers, open(os.devnull, "w", encoding="utf-8") as nowhere:
        os.dup2(2, 1)
        logging.disable()
        try:
            import reasoning_gym  # noqa: F401
        except Exception as error:  # noqa: BLE001 - reported to the parent, which raises
            print(json.dumps({"error": f"{type(error).__name__}: {error}"}), file=answers, flush=True)
            return
        _limit_resources()
        print("{}", file=answers, flush=True)
        for line in sys.stdin:
            # If the parent is gone, only this process itself can end an endless computation.
            faulthandler.dump_traceback_later(2 * deadline_s + 1, exit=True, file=nowhere)
            try:
                ((what, given),) = json.loads(line).items()
                found = does[what](**given)
            except Exception as error:  # noqa: BLE001 - reported to the parent, which raises
                found = {"error": f"{type(error).__name__}: {error}"}
            faulthandler.cancel_dump_traceback_later()
            print(json.dumps(found), file=answers, flush=True)


def _limit_resources() -> None:
    """Limit the memory and files of this process."""
    if sys.platform == "linux":
        import resource

        from astuner.shared.processes import set_limit

        set_limit(resource.RLIMIT_AS, _MEMORY_BYTES)
        set_limit(resource.RLIMIT_FSIZE, 0)


def _check(dataset: str, config: Mapping[str, Any], seed: int, size: int, levels: tuple[int, int] | None) -> dict[str, Any]:
    return {"problem": _find_problem(dataset, config, seed, size, levels)}


def _find_problem(dataset: str, config: Mapping[str, Any], seed: int, size: int, levels: tuple[int, int] | None) -> str | None:
    """Return why tasks cannot be made with these settings, or None."""
    from reasoning_gym.factory import CURRICULA, DATASETS

    names = sorted(set(DATASETS) - {"composite"})
    if dataset not in names:
        near = difflib.get_close_matches(dataset, names, n=3)
        return f"no dataset '{dataset}' in reasoning-gym; {_suggest(near) if near else 'there are: ' + ', '.join(names)}"
    fields = [field.name for field in dataclasses.fields(DATASETS[dataset][1]) if field.name not in ("seed", "size")]
    for key in config:
        if key not in fields:
            near = difflib.get_close_matches(key, fields, n=3)
            return f"dataset '{dataset}' has no setting '{key}'; {_suggest(near) if near else 'there are: ' + ', '.join(fields)}"
    if levels is None:
        return _find_fault(dataset, config, seed, size, None)
    if dataset not in CURRICULA:
        return f"dataset '{dataset}' has no levels of difficulty; remove it, or remove the curriculum"
    if raised := sorted(set(config) & _list_curriculum_settings(dataset)):
        return f"dataset '{dataset}': the curriculum sets {', '.join(raised)}; remove it from `config`, or the curriculum"
    for level in sorted({min(level, _find_top_level(dataset)) for level in range(levels[0], levels[1] + 1)}):
        if fault := _find_fault(dataset, config, seed, size, level):
            return f"{fault} (level {level} of 0 to {_find_top_level(dataset)}; see start_level and end_level)"
    return None


def _suggest(near: list[str]) -> str:
    return "did you mean " + " or ".join(repr(name) for name in near) + "?"


def _find_fault(dataset: str, config: Mapping[str, Any], seed: int, size: int, level: int | None) -> str | None:
    """Return the library's objection to a configuration, or None."""
    try:
        made = _make_configuration(dataset, config, seed, size, level)
        if hasattr(made, "validate"):
            made.validate()
    except Exception as error:  # noqa: BLE001 - configurations are checked by assertions, or fail in other ways
        return f"dataset '{dataset}' refuses its configuration: {error or type(error).__name__}"
    return None


def _make_curriculum(dataset: str) -> Any:
    from reasoning_gym.factory import create_curriculum

    return create_curriculum(dataset)


def _find_top_level(dataset: str) -> int:
    return max(len(attribute.levels) for attribute in _make_curriculum(dataset).attributes.values()) - 1


def _list_curriculum_settings(dataset: str) -> set[str]:
    """Return the settings that a curriculum sets."""
    names = ("field_name", "lower_field_name", "upper_field_name")
    attributes = _make_curriculum(dataset).attributes.values()
    return {getattr(attribute, name) for attribute in attributes for name in names if hasattr(attribute, name)}


def _make_configuration(dataset: str, config: Mapping[str, Any], seed: int, size: int, level: int | None) -> Any:
    from reasoning_gym.factory import DATASETS

    given = {**config, "seed": seed, "size": size}
    if level is None:
        return DATASETS[dataset][1](**given)
    curriculum = _make_curriculum(dataset)
    # A level above the highest of a setting means the highest.
    curriculum.set_global_level(level)
    return curriculum.generate_configuration(given)


@lru_cache(maxsize=256)
def _make_dataset(dataset: str, config: str, seed: int, size: int, level: int | None) -> Any:
    from reasoning_gym.factory import DATASETS

    return DATASETS[dataset][0](_make_configuration(dataset, json.loads(config), seed, size, level))


def _make_puzzle(dataset: str, config: Mapping[str, Any], seed: int, size: int, level: int | None, index: int) -> dict[str, Any]:
    made = _make_dataset(dataset, _make_key(config), seed, size, level)
    # A few families draw from the global generators as well.
    random.seed(f"{dataset}/{seed}/{index}")
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(zlib.crc32(f"{dataset}/{seed}/{index}".encode()))
    entry = made[index]
    return {"entry": _encode(entry)}


def _score(source: Mapping[str, Any], answer: str, token: str | None = None) -> dict[str, Any]:
    """Score an answer; `token` comes back with the score, which an answer that writes a line of its own does not know."""
    return {**_score_answer(source, answer), "token": token}


def _score_answer(source: Mapping[str, Any], answer: str) -> dict[str, Any]:
    made = _make_dataset(source["dataset"], _make_key(source["config"]), source["seed"], source["size"], source["level"])
    entry = _decode(source["entry"])
    try:
        return {"score": float(made.score_answer(answer, entry))}
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - two families fail on an answer that they cannot read
        # If the scorer can score the puzzle's own answer, the given answer was at fault; otherwise this raises.
        made.score_answer(entry["answer"], entry)
        return {"score": 0.0, "unreadable": f"{type(error).__name__}: {error}"}


def _make_key(config: Mapping[str, Any]) -> str:
    return json.dumps(config, sort_keys=True)


def _encode(value: Any) -> Any:
    """Return a value as JSON that can be decoded: tuples, and objects with other keys than texts, are marked by a special key.

    It is decoded before an answer is scored, since some families compare with `==`, and a list never equals a tuple.
    """
    if isinstance(value, tuple):
        return {"__tuple__": [_encode(item) for item in value]}
    if isinstance(value, list):
        return [_encode(item) for item in value]
    if isinstance(value, dict):
        if all(isinstance(key, str) and not key.startswith("__") for key in value):
            return {str(key): _encode(item) for key, item in value.items()}
        return {"__items__": [[_encode(key), _encode(item)] for key, item in value.items()]}
    # numpy's numbers have it; texts of an enumeration are texts.
    item = getattr(value, "item", None)
    return item() if callable(item) else value


def _decode(value: Any) -> Any:
    """Return the value that `_encode` encoded."""
    if isinstance(value, list):
        return [_decode(item) for item in value]
    if isinstance(value, dict):
        if value.keys() == {"__tuple__"}:
            return tuple(_decode(item) for item in value["__tuple__"])
        if value.keys() == {"__items__"}:
            return {_decode(key): _decode(item) for key, item in value["__items__"]}
        return {key: _decode(item) for key, item in value.items()}
    return value


if __name__ == "__main__":
    main()
