"""Imported by verl in each of its processes (entry point group `verl.plugins`): registers our parts.

Nothing happens unless the process belongs to one of our runs. verl hides failures here in a log, so a failure ends the
process with its reason instead.
"""

from __future__ import annotations

import os
import traceback

from astuner.shared.processes import keep_stores_here
from astuner_verl.process_environment import RUN


def register(device: str) -> None:
    """Register our parts; those for machines without an accelerator only on these."""
    # The modules are imported for their registrations, and import verl themselves.
    from astuner_verl.transformers_rollout.registration import register_rollout

    register_rollout()
    keep_stores_here()
    if device == "cpu":
        from astuner_verl.cpu.platform import register_platform

        register_platform()


def _register() -> None:
    device = os.environ.get(RUN)
    if not device:
        return
    try:
        register(device)
    except Exception as error:
        traceback.print_exc()
        raise SystemExit(f"astuner-verl cannot register with verl: {type(error).__name__}: {error}") from error


_register()
