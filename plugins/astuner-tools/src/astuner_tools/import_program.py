"""Imports the targets of `sys.argv[2]` and writes one line of JSON for each: its error, and which heavy modules it brought.

Run as a program by `import_check`; it imports nothing of its own package.
"""

from __future__ import annotations

import importlib
import json
import os
import sys


def main() -> None:
    """Import one after the other; the one without a line is the one that ended the process."""
    heavy, targets = json.loads(sys.argv[1]), json.loads(sys.argv[2])
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    # What modules print on import is not an answer.
    os.dup2(2, 1)
    for target in targets:
        module, _, attributes = target.partition(":")
        before, error = set(sys.modules), ""
        try:
            found = importlib.import_module(module)
            for attribute in filter(None, attributes.split(".")):
                found = getattr(found, attribute)
        except BaseException as raised:  # noqa: BLE001  # a module may raise anything on import
            error = f"{type(raised).__name__}: {raised}"
        brought = [name for name in heavy if name in sys.modules and name not in before]
        print(json.dumps([error, brought]), file=answers, flush=True)


if __name__ == "__main__":
    main()
