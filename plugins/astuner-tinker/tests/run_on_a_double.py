"""`astuner run` on a double of a server that is kept on disk, killed after so many of its acts: ROOT MODEL ACTS ARGUMENTS…"""

from __future__ import annotations

import os
import runpy
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tinker
from tinker_double import ServiceDouble

from astuner_tinker import service


def main(root: str, model: str, acts: str, *arguments: str) -> None:
    """Run the command in this process."""
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

    store: Any = double.store
    store.record, store.write = count(store.record), count(store.write)
    connect: Any = lambda **_: double  # noqa: E731
    tinker.ServiceClient = connect
    service.identify_server = lambda url: service.Server(name="unknown", url=url or "", title="double")
    sys.argv = ["astuner", *arguments]
    runpy.run_module("astuner", run_name="__main__")


if __name__ == "__main__":
    main(*sys.argv[1:])
