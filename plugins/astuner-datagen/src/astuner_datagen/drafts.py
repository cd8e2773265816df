"""What requests are made from, the questions that result, and how these become tasks."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from astuner.contract.schema import Message, Task
from astuner.shared.tabular import make_content_id
from astuner_datagen.chunks import Chunk

ANSWER = "answer"
"""Where the metadata of samples and generated tasks holds the right answer; judges look there."""


@frozen(kw_only=True)
class Source:
    """A chunk to ask questions on, a sample to imitate, or both."""

    chunk: Chunk | None = None
    sample: Task | None = None

    @property
    def key(self) -> tuple[str, str]:
        """Identifies the source."""
        return (self.sample.task_id if self.sample else "", self.chunk.hash if self.chunk else "")

    @property
    def place(self) -> str:
        """For messages."""
        sample = f"sample '{self.sample.task_id}'" if self.sample else ""
        return " with ".join(filter(None, (sample, self.chunk.place if self.chunk else "")))

    @property
    def wants_answers(self) -> bool:
        """Whether a task needs an answer: tasks like samples without one have none."""
        return self.sample is None or self.sample.metadata.get(ANSWER) is not None


@frozen(kw_only=True)
class Draft:
    """A question that an LLM wrote and that has passed every test so far."""

    question: str
    answer: str | None
    evidence: str | None
    source: Source = field(repr=False)
    prompt: str
    """Name and version of its prompt."""
    verified: bool = False
    """Whether the LLM found the same answer again."""


def find_query(task: Task) -> str:
    """Return a task's question: its query, or the last message of a user."""
    if task.main_query:
        return task.main_query
    said = (message.get("content") for message in reversed(task.init_messages) if message.get("role") == "user")
    return next((text for text in said if isinstance(text, str)), "")


def build_task(draft: Draft, model: str) -> Task:
    """Return the task, with its origin in its metadata, and an id made from its content."""
    chunk, sample = draft.source.chunk, draft.source.sample
    metadata: dict[str, Any] = {ANSWER: draft.answer} if draft.answer is not None else {}
    metadata |= {"evidence": draft.evidence} if draft.evidence is not None else {}
    provenance: dict[str, Any] = {"model": model, "prompt": draft.prompt, "verified": draft.verified}
    if chunk is not None:
        provenance |= {
            "document": chunk.document.name,
            "document_sha256": chunk.document.sha256,
            "pages": list(chunk.pages) if chunk.pages else None,
            "characters": [chunk.start, chunk.end],
            "chunk_hash": chunk.hash,
        }
    if sample is not None:
        provenance["sample_task_id"] = sample.task_id
    identity = make_content_id({"question": draft.question, "key": list(draft.source.key)}, draft.source.place)
    return Task(
        main_query=draft.question,
        init_messages=_find_system(sample),
        task_id=identity,
        env_type=sample.env_type if sample is not None else "no_env",
        metadata={**metadata, "provenance": provenance},
    )


def _find_system(sample: Task | None) -> tuple[Message, ...]:
    """Return the sample's system messages."""
    messages = () if sample is None else sample.init_messages
    return tuple(message for message in messages if message.get("role") in ("system", "developer"))
