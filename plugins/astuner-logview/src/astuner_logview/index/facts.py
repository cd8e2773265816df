"""What the index keeps of an episode: one row, and its texts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from astuner.contract.schema import Unjudged, Verdict
from astuner.runs.store.codec import load_output, load_verdict
from astuner_logview.index.message_text import iterate_message_texts

QUERY = 200
"""Characters of a task that lists show."""

_UNSPACED = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff])"
)
"""Characters of scripts without blanks between words: each is a word of the index."""

Row = dict[str, Any]


def read_facts(data: Mapping[str, Any]) -> Row:
    """Return the columns of an episode's outline. Raises one of `UNREADABLE` for one that has other content."""
    output, refusal = load_output(data["output"])
    failures, calls, samples = data["failures"], data["calls"], data["samples"]
    final = "workflow_error" if refusal is not None else failures[-1]["reason"] if output is None and failures else None
    if output is None and final is None:
        final = "failed"
    owners: dict[str, int] = {}
    for sample in samples if refusal is None else ():
        owners[sample["agent"]] = owners.get(sample["agent"], 0) + sample["mask"]
    asked = {call["agent"]: 0 for call in calls if call["untrained"] is None}
    return {
        "id": data["id"],
        "step": data["step"],
        "task": data["task"]["task_id"],
        "repeat": data["repeat"],
        "query": find_query(data["task"]),
        "completed": int(output is not None),
        "reason": final,
        "turns": sum(1 for call in calls if _is_turn(call)),
        "calls": len(calls),
        "agents": _dump(list(dict.fromkeys(call["agent"] for call in calls))),
        "tokens": sum(call["output_ids"] for call in calls),
        "retried": sum(failure["tokens"] for failure in failures if failure["retried"]),
        "trained": sum(owners.values()),
        "duration": float(data["duration_s"]),
        "findings": _dump([name for name, found in data["findings"].items() if found]),
        "untrained": _dump({reason: count for reason, count in data["untrained"].items() if count}),
        "owners": _dump({"sampled": owners, "asked": list(asked)}),
    }


def read_verdict(data: Mapping[str, Any] | None) -> Row | None:
    """Return the columns of a verdict; None without one."""
    verdict = load_verdict(data)
    match verdict:
        case Verdict():
            return {
                "reward": verdict.reward,
                "success": None if verdict.is_success is None else int(verdict.is_success),
                "judge_failed": 0,
                "judge_reason": None,
                "rewards": _dump(dict(verdict.rewards)) if verdict.rewards else None,
                "components": _dump(dict(verdict.components)),
            }
        case Unjudged():
            success = None if verdict.is_success is None else int(verdict.is_success)
            return {**NO_VERDICT, "reward": verdict.reward, "success": success, "judge_failed": 1, "judge_reason": verdict.reason}
    return None


NO_VERDICT: Row = {"reward": None, "success": None, "judge_failed": 0, "judge_reason": None, "rewards": None, "components": "{}"}


def read_texts(data: Mapping[str, Any]) -> str:
    """Return the text of an episode that searches look at: its task, messages, replies, tool calls, failures and evidence."""
    parts = dict.fromkeys(_iterate_texts(data))
    return split_words("\n".join(parts))


def read_rationale(data: Mapping[str, Any] | None) -> str:
    """Return the text of a verdict that searches look at."""
    found = [] if data is None else [data.get(key) for key in ("rationale", "reason", "detail", "place")]
    return split_words("\n".join(text for text in found if isinstance(text, str)))


def split_words(text: str) -> str:
    """Set blanks around the characters of scripts that have none."""
    return text if text.isascii() else _UNSPACED.sub(r" \1 ", text)


def find_query(task: Mapping[str, Any]) -> str:
    """Return the beginning of what a task asks."""
    text = task.get("main_query") or ""
    if not text:
        for message in reversed(task.get("init_messages") or ()):
            text = next(iterate_message_texts(message), "")
            if message.get("role") == "user" and text:
                break
    return str(text)[:QUERY]


def _iterate_texts(data: Mapping[str, Any]) -> Iterator[str]:
    yield str(data["task"].get("main_query") or "")
    for message in data["task"].get("init_messages") or ():
        yield from iterate_message_texts(message)
    for call in data["calls"]:
        for message in (*call["messages"], call["reply"]):
            yield from iterate_message_texts(message)
    for failure in data["failures"]:
        yield from (str(failure.get(key) or "") for key in ("reason", "detail", "traceback"))
    for found in data["findings"].values():
        yield from (str(one.get("evidence") or "") for one in found)
    verdict = data["verdict"]
    if isinstance(verdict, Mapping):
        yield from (str(verdict.get(key) or "") for key in ("rationale", "reason", "detail"))


def _is_turn(call: Mapping[str, Any]) -> bool:
    return bool(call["reply"]) or call["output_ids"] > 0


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
