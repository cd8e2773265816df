"""A foreign server of environments in a process of its own, and what a test orders of it."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SERVER = Path(__file__).with_name("foreign_env_server.py")

Control = Callable[..., dict[str, Any]]


@contextmanager
def foreign_server() -> Iterator[str]:
    """Run the server, and give its address."""
    with subprocess.Popen([sys.executable, str(SERVER)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://{process.stdout.readline().split()[-1]}"
        finally:
            process.kill()


def control_of(url: str) -> Control:
    """Return what sets faults, and gives back what was received since now."""

    def ask(**orders: Any) -> dict[str, Any]:
        request = urllib.request.Request(f"{url}/control", json.dumps(orders).encode(), method="POST")
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)

    before = len(ask()["received"])
    return lambda **orders: {**(found := ask(**orders)), "received": found["received"][before:]}
