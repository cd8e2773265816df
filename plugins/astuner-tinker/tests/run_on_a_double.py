"""Has a process run on a double of a server that is kept on disk, and killed after so many of its acts."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import tinker
from tinker_double import ServiceDouble

from astuner_tinker import service


def prepare(root: str, model: str, acts: str) -> None:
    """Put the double in the place of the server; never kill it after 0 acts."""
    double = ServiceDouble(Path(root), base_models=[model])
    left = int(acts)

    def count(act: Callable[..., Any]) -> Callable[..., Any]:
        def do(*args: Any, **options: Any) -> Any:
            nonlocal left
            done = act(*args, **options)
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return done

        return do

    def connect(**_: Any) -> Any:
        return double

    store: Any = double.store
    store.record, store.write = count(store.record), count(store.write)
    tinker.ServiceClient = connect  # type: ignore[assignment,misc]
    service.identify_server = lambda url: service.Server(name="unknown", url=url or "", title="double")
