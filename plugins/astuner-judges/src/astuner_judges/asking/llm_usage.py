"""What a judge asked and spent, kept with the run when it ends."""

from __future__ import annotations

import json
import os

import attrs

from astuner.contract.protocols import RunInfo
from astuner.shared.clients import LLMClient
from astuner.shared.private_files import open_private


def write_totals(client: LLMClient, run_info: RunInfo, *, judge: str) -> None:
    """Append a line of JSON to `logs/llm_judge.jsonl` of a run: requests, answers from the cache, tokens, cost of this process.

    Nothing is written without requests, or for a judge that is tried without a run (attempt 0).
    """
    spent = client.budget.spent
    if run_info.attempt < 1 or not (spent.requests or spent.cached):
        return
    file = run_info.directory / "logs" / "llm_judge.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    row = {"judge": judge, "model": client.model, "attempt": run_info.attempt, "pid": os.getpid(), **attrs.asdict(spent)}
    with open_private(file, "a") as lines:
        # One short write, so that lines of several rollout processes do not mix.
        lines.write(json.dumps(row, ensure_ascii=False) + "\n")
