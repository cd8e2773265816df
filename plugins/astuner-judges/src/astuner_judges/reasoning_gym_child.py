"""The program of the child process: scores answers by the library reasoning-gym, a line of JSON for each line that comes in."""

from __future__ import annotations

import faulthandler
import json
import logging
import os
import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

_MEMORY_BYTES = 4 << 30


def main() -> None:
    """Answer until the input ends."""
    deadline_s = float(sys.argv[1])
    # Some families print; what they print must not stand among the answers.
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers, open(os.devnull, "w", encoding="utf-8") as nowhere:
        os.dup2(2, 1)
        logging.disable()
        try:
            import reasoning_gym  # noqa: F401
        except Exception as error:  # noqa: BLE001 - reported to the parent, which raises
            print(json.dumps({"error": f"{type(error).__name__}: {error}"}), file=answers, flush=True)
            return
        _limit()
        print("{}", file=answers, flush=True)
        for line in sys.stdin:
            # Should the parent be gone, nobody kills this process in the middle of an endless computation but itself.
            faulthandler.dump_traceback_later(2 * deadline_s + 1, exit=True, file=nowhere)
            try:
                found = _scored(**json.loads(line))
            except Exception as error:  # noqa: BLE001 - reported to the parent, which raises
                found = {"error": f"{type(error).__name__}: {error}"}
            faulthandler.cancel_dump_traceback_later()
            print(json.dumps(found), file=answers, flush=True)


def _limit() -> None:
    """Bound what an answer may take: the library evaluates those of some families as Python."""
    if sys.platform == "linux":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def _scored(source: Mapping[str, Any], answer: str) -> dict[str, Any]:
    made = _made(source["dataset"], json.dumps(source["config"]), source["seed"], source["size"], source["level"])
    entry = _decoded(source["entry"])
    try:
        return {"score": float(made.score_answer(answer, entry))}
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - two families stumble over an answer that they cannot read
        # The scorer is in order where it scores the puzzle's own answer, or that there is none: then it was this one.
        made.score_answer(entry["answer"], entry)
        return {"score": 0.0, "unreadable": f"{type(error).__name__}: {error}"}


@lru_cache(maxsize=256)
def _made(dataset: str, config: str, seed: int, size: int, level: int | None) -> Any:
    from reasoning_gym.factory import DATASETS, create_curriculum

    cls, config_cls = DATASETS[dataset]
    given = {**json.loads(config), "seed": seed, "size": size}
    if level is None:
        return cls(config_cls(**given))
    curriculum = create_curriculum(dataset)
    curriculum.set_global_level(level)
    return cls(curriculum.generate_configuration(given))


def _decoded(value: Any) -> Any:
    """Return what the reader encoded: tuples, and objects whose keys are no texts, are told by a key of their own."""
    if isinstance(value, list):
        return [_decoded(item) for item in value]
    if isinstance(value, dict):
        if value.keys() == {"__tuple__"}:
            return tuple(_decoded(item) for item in value["__tuple__"])
        if value.keys() == {"__items__"}:
            return {_decoded(key): _decoded(item) for key, item in value["__items__"]}
        return {key: _decoded(item) for key, item in value.items()}
    return value


if __name__ == "__main__":
    main()
