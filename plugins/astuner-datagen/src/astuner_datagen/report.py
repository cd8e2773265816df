"""The report on generated tasks: what was asked, kept, dropped and spent; stored next to them, and shown to the user."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from attrs import asdict

from astuner.contract.schema import Split
from astuner.shared.clients import Usage
from astuner_datagen.documents import Library
from astuner_datagen.formats import FORMATS
from astuner_datagen.generating import GenerationResult
from astuner_datagen.options import DataGenerationOptions


def build_report(
    split: Split,
    options: DataGenerationOptions,
    made: GenerationResult,
    library: Library,
    spent: Usage,
    *,
    wanted: int,
    validation: Sequence[str],
    left_out: int,
) -> dict[str, Any]:
    """Return the report as JSON values.

    `validation` are the questions that training must not repeat, `left_out` the number of chunks left out of it.
    """
    return {
        "split": split,
        "tasks": len(made.drafts),
        "wanted": wanted,
        "complete": len(made.drafts) >= wanted,
        "stopped": made.stopped,
        "digest": digest_questions([draft.question for draft in made.drafts]),
        "kept_from": digest_questions(validation),
        "model": options.model,
        "prompts": sorted({draft.prompt for draft in made.drafts}),
        "requests": made.requests,
        "failed": dict(made.failed),
        "dropped": dict(made.dropped),
        "examples": dict(made.examples),
        "documents": [{"name": one.name, "sha256": one.sha256, "characters": len(one.text)} for one in library.documents],
        "unreadable": dict(library.unreadable),
        "other_files": dict(library.other_files),
        "chunks_left_out": left_out,
        "spent": asdict(spent),
    }


def digest_questions(questions: Sequence[str]) -> str:
    """Return 16 hex digits of the questions that training must not repeat, to detect changes."""
    return blake2b("\0".join(questions).encode(), digest_size=8).hexdigest()


def describe_report(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines for people."""
    split, spent = report["split"], report["spent"]
    cost = f", cost {spent['cost']:g}" if spent["cost"] else ""
    tokens = spent["prompt_tokens"] + spent["completion_tokens"]
    yield (
        f"{split}: {report['tasks']} of {report['wanted']} tasks by {report['model']} "
        f"({spent['requests']} requests, {spent['cached']} answered before, {tokens} tokens{cost})"
    )
    for name, reason in report["unreadable"].items():
        yield f"  not read: {name}: {reason}"
    for suffix, count in report.get("other_files", {}).items():
        what = f"ending in {suffix}" if suffix else "without an ending"
        yield f"  not read: {count} files {what}; documents end in {', '.join(FORMATS)}"
    if report["chunks_left_out"]:
        yield f"  left out: {report['chunks_left_out']} chunks that say what chunks of validation say"
    for what in ("failed", "dropped"):
        for reason, count in report[what].items():
            example = report["examples"].get(reason)
            yield f"  {what}: {count} x {reason}" + (f", as {example}" if example else "")
    if not report["complete"]:
        yield (
            f"  ended early: {report['stopped']}. What was made is kept; `astuner data generate` continues from here, and "
            "pays for no answer twice"
        )
