"""Rollouts that end early because the user stopped the run."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from astuner.protocols import Control

Played = TypeVar("Played")


async def wait_until_stopped(playing: asyncio.Task[Played], control: Control) -> Played | None:
    """Return what is played; None if a stop was requested, for which the caller cancels `playing`.

    What is cancelled half-way may end with an error of its own, which a warning then reports.
    """
    if control.stop:
        playing.cancel()
    try:
        return await playing
    except asyncio.CancelledError:
        if not control.stop:
            raise
    except Exception as error:
        if not control.stop:
            raise
        control.notify(f"while stopping: {type(error).__name__}: {error}", "warning")
    return None
