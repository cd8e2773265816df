"""What the tests read off a run directory."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path


def record(project: Path, name: str = "calculator") -> Path:
    return project / "launcher_record" / name


def metric_rows(run: Path) -> list[dict[str, float]]:
    """The rows of `metrics.jsonl` without what depends on the clock."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in row.items() if not k.startswith("time/") and k != "tokens/per_s"} for row in rows]


def weights_digest(run: Path, step: int) -> str:
    """A digest of every byte of a checkpoint's weights."""
    digest = hashlib.sha256()
    for path in sorted((run / "checkpoints" / f"step_{step}").rglob("*.safetensors")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def recorded_tokens(run: Path) -> dict[str, bytes]:
    """The files with what was trained, by name."""
    return {path.name: path.read_bytes() for path in (run / "episodes" / "signal").iterdir()}


def times_generated(run: Path, split: str = "train") -> Counter[str]:
    """How often each episode was stored: more than once would mean that it was generated again."""
    found: Counter[str] = Counter()
    path = run / "episodes" / f"{split}.jsonl"
    for line in path.read_bytes().splitlines() if path.exists() else ():
        entry = json.loads(line)
        if entry["kind"] == "episode":
            found[entry["episode"]["id"]] += 1
    return found
