"""Threads for users' code. On a machine that has no room for one more, they wait for each other."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from weakref import WeakSet

_STARTED: WeakSet[threading.Thread] = WeakSet()
"""Threads that `start_thread` has started."""
_LOOK_AGAIN_S = 0.05
_PATIENCE_S = 5.0
"""How long to wait for room when none of them is left that could end."""


async def start_thread(work: Callable[[], object], name: str) -> None:
    """Start a daemon thread. If the machine refuses one more, wait until one of the others has ended.

    Raises the `RuntimeError` of the refusal if there is no other to wait for, and none can be started all the same.
    """
    loop = asyncio.get_running_loop()
    alone_since: float | None = None
    while True:
        thread = threading.Thread(target=work, name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError:
            if any(other in _STARTED for other in threading.enumerate()):
                alone_since = None
            elif alone_since is None:
                alone_since = loop.time()
            elif loop.time() - alone_since > _PATIENCE_S:
                raise
            await asyncio.sleep(_LOOK_AGAIN_S)
            continue
        _STARTED.add(thread)
        return
