"""What a judge asked and spent, kept beside the run when it ends."""

from __future__ import annotations

import json
import os
from pathlib import Path

import attrs

from astuner.clients.llm import LLMClient


def write_totals(file: Path, client: LLMClient, *, judge: str, attempt: int) -> None:
    """Append a line of JSON: requests, answers from the cache, tokens and cost of this process; nothing where none was asked."""
    spent = client.budget.spent
    if not (spent.requests or spent.cached):
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    row = {"judge": judge, "model": client.model, "attempt": attempt, "pid": os.getpid(), **attrs.asdict(spent)}
    with file.open("a", encoding="utf-8") as lines:
        # One short write, so that lines of several rollout processes do not mix.
        lines.write(json.dumps(row, ensure_ascii=False) + "\n")
