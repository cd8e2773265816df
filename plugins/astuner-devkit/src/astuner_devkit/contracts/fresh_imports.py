"""What importing the targets of entry points does, tried in fresh processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence

LIMIT_S = 120.0

PROGRAM = """
import importlib, json, os, sys

# What a module prints is not an answer.
answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)
heavy, targets = map(json.loads, sys.argv[1:])
for target in targets:
    module, _, attributes = target.partition(":")
    before, error = set(sys.modules), ""
    try:
        found = importlib.import_module(module)
        for attribute in filter(None, attributes.split(".")):
            found = getattr(found, attribute)
    except BaseException as raised:
        error = f"{type(raised).__name__}: {raised}"
    brought = [name for name in heavy if name in sys.modules and name not in before]
    print(json.dumps([error, brought]), file=answers, flush=True)
"""


def try_imports(targets: Sequence[str], heavy: Sequence[str]) -> Sequence[tuple[str, Sequence[str]]]:
    """Import each `module:attribute`; return its error, empty if it is there, and which of some modules came with it.

    One that ends the process, or takes too long, has that as its error; the others are tried in the next process.
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    results: list[tuple[str, Sequence[str]]] = []
    while left := targets[len(results) :]:
        command = [sys.executable, "-P", "-c", PROGRAM, json.dumps(heavy), json.dumps(left)]
        try:
            done = subprocess.run(command, capture_output=True, timeout=LIMIT_S, env=environment, check=False)
        except subprocess.TimeoutExpired as late:
            written, ending = late.stdout or b"", f"importing it takes more than {LIMIT_S:g} s"
        else:
            written, ending = done.stdout, f"importing it ends the process with exit code {done.returncode}"
        rows = [json.loads(line) for line in written.splitlines(keepends=True) if line.endswith(b"\n")]
        results += rows if len(rows) == len(left) else [*rows, (ending, ())]
    return results
