"""Our part in vLLM's processes: all in this environment call `register`; only servers that we start use it."""

from __future__ import annotations

import os

from astuner.shared.processes import keep_stores_here

ENABLED = "ASTUNER_VLLM_WEIGHTS"
"""Environment variable without which nothing is registered."""
BACKEND = "file"
"""Name of the weight-transfer backend."""


def register() -> None:
    """Register the weight transfer from files, in one of our servers. May be called again, as vLLM does."""
    if os.environ.get(ENABLED) != "1":
        return
    keep_stores_here()
    from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory

    try:
        WeightTransferEngineFactory.register_engine(BACKEND, "astuner_vllm.worker", "WeightFiles")
    except ValueError:
        # Registered by an earlier call in this process.
        return
