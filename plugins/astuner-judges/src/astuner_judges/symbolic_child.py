"""The program of the child process: compares pairs of expressions, one line of JSON each, with math-verify."""

from __future__ import annotations

import faulthandler
import json
import logging
import os
import sys

_MEMORY_BYTES = 4 << 30


def main() -> None:
    """Answer until the input ends."""
    deadline_s = float(sys.argv[1])
    if sys.platform == "linux":
        import resource

        from astuner.shared.processes import set_limit

        set_limit(resource.RLIMIT_AS, _MEMORY_BYTES)
    logging.disable()
    try:
        from math_verify import parse, verify
    except Exception as error:  # noqa: BLE001 - sent to the parent, which raises
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}), flush=True)
        return
    print("{}", flush=True)
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        for line in sys.stdin:
            pair = json.loads(line)
            # If the parent is gone, only this process can end its own endless computation.
            faulthandler.dump_traceback_later(2 * deadline_s + 1, exit=True, file=nowhere)
            try:
                texts = [text.replace("$", "") for text in (pair["gold"], pair["answer"])]
                expressions = [parse(f"${text}$", parsing_timeout=None, raise_on_error=True) for text in texts]
                equal = verify(*expressions, timeout_seconds=None, raise_on_error=True, allow_set_relation_comp=True)
                found: dict[str, object] = {"equal": bool(equal)}
            except Exception as error:  # noqa: BLE001 - reported to the parent, which raises
                found = {"error": f"{type(error).__name__}: {error}"}
            faulthandler.cancel_dump_traceback_later()
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
