"""Asking the LLM for questions, and testing each."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, cast

from attrs import evolve, field, frozen

from astuner.shared.clients import LLMClient, LLMFailed, Prompt, ask_for_json, fence
from astuner_datagen.drafts import ANSWER, Draft, Source, find_query
from astuner_datagen.evidence import SHORTEST, is_same_answer, occurs, to_plain
from astuner_datagen.languages import Language, detect_language
from astuner_datagen.prompts import load_question_prompt
from astuner_datagen.reasons import classify_failure

_SHOWN_EARLIER = 30
"""Most earlier questions that a prompt lists, the latest ones."""


@frozen
class Questions:
    """The form of an answer; each item is read on its own, so that a wrong one does not spoil the others."""

    questions: tuple[Mapping[str, Any], ...]


@frozen
class Solved:
    """An answer to one of the questions."""

    answerable: bool
    answer: Any = None


@frozen
class Compared:
    """Whether two answers say the same."""

    same: bool


@frozen(kw_only=True)
class RequestOutcome:
    """The result of one request."""

    drafts: tuple[Draft, ...] = ()
    questions: tuple[str, ...] = ()
    """All questions written, including dropped ones: the next request asks for others."""
    dropped: Mapping[str, int] = field(factory=Counter)
    """Questions that failed a test, by reason."""
    examples: Mapping[str, str] = field(factory=dict)
    """One of them by reason, for people."""


@frozen(kw_only=True)
class Asker:
    """Asks one LLM."""

    client: LLMClient
    languages: Sequence[str]
    max_tokens: int
    verify: bool = False

    async def ask(self, source: Source, n: int, earlier: Sequence[str]) -> RequestOutcome:
        """Return the questions that pass; raises `LLMFailed` and `LLMBudgetSpent`."""
        chosen, text = build_question_prompt(source, n, earlier, self.languages)
        answer, _ = await ask_for_json(self.client, as_messages(text), Questions, max_tokens=self.max_tokens)
        dropped: Counter[str] = Counter()
        examples: dict[str, str] = {}
        drafts = []
        for item in answer.questions:
            found = _parse_draft(item, source, chosen)
            if isinstance(found, Draft):
                drafts.append(found)
            else:
                _drop(dropped, examples, found, json.dumps(item, ensure_ascii=False), source)
        if self.verify:
            drafts = await self._verify(drafts, dropped, examples)
        written = tuple(question for item in answer.questions if (question := _to_text(item.get("question"))) is not None)
        if answer.questions and not written:
            # None of its items is a question: useless. With no items at all the text may have nothing to ask.
            await self.forget(source, n, earlier)
        return RequestOutcome(drafts=tuple(drafts), questions=written, dropped=dropped, examples=examples)

    async def forget(self, source: Source, n: int, earlier: Sequence[str]) -> None:
        """Make the next request ask the LLM again."""
        _, text = build_question_prompt(source, n, earlier, self.languages)
        await self.client.forget(as_messages(text), max_tokens=self.max_tokens)

    async def _verify(self, drafts: Sequence[Draft], dropped: Counter[str], examples: dict[str, str]) -> list[Draft]:
        # Wait for all before raising: requests under way are paid for, and their answers cached.
        doubts = await asyncio.gather(*(self._find_doubt(draft) for draft in drafts), return_exceptions=True)
        for raised in doubts:
            if isinstance(raised, BaseException):
                raise raised
        found = cast("list[str | None]", doubts)
        for draft, doubt in zip(drafts, found, strict=True):
            if doubt is not None:
                _drop(dropped, examples, doubt, draft.question, draft.source)
        # A missing answer cannot be found again.
        return [
            evolve(draft, verified=draft.answer is not None) for draft, doubt in zip(drafts, found, strict=True) if doubt is None
        ]

    async def _find_doubt(self, draft: Draft) -> str | None:
        """Return why the answer is rejected; None if the LLM reproduced it."""
        if draft.answer is None:
            return None
        language = _choose_language(draft.source, self.languages)
        document = fence(draft.source.chunk.text, "text") if draft.source.chunk else ""
        text = load_question_prompt("answer", language).fill({"document": document, "question": draft.question})
        try:
            solved, _ = await ask_for_json(self.client, as_messages(text), Solved, max_tokens=self.max_tokens)
            answer = _to_text(solved.answer)
            if solved.answerable and answer is None:
                # It contradicts itself; another time it may not.
                await self.client.forget(as_messages(text), max_tokens=self.max_tokens)
            if not solved.answerable or answer is None:
                return "not_answerable"
            if is_same_answer(answer, draft.answer):
                return None
            text = load_question_prompt("compare", language).fill(
                {"question": draft.question, "one": draft.answer, "other": answer}
            )
            compared, _ = await ask_for_json(self.client, as_messages(text), Compared, max_tokens=self.max_tokens)
        except LLMFailed as error:
            return f"not_verified_{classify_failure(error)}"
        return None if compared.same else "another_answer"


def build_question_prompt(source: Source, n: int, earlier: Sequence[str], languages: Sequence[str]) -> tuple[Prompt, str]:
    """Return the prompt for a source, and its text."""
    document = fence(source.chunk.text, "document") if source.chunk else ""
    slots = {"document": document, "n": str(n), "earlier": "\n".join(f"- {text}" for text in earlier[-_SHOWN_EARLIER:])}
    language = _choose_language(source, languages)
    if source.sample is None:
        chosen = load_question_prompt("knowledge", language)
        return chosen, chosen.fill(slots)
    chosen = load_question_prompt("augment", language)
    sample = {"question": find_query(source.sample)}
    sample |= {"answer": source.sample.metadata[ANSWER]} if source.wants_answers else {}
    shown = fence(json.dumps(sample, ensure_ascii=False, indent=2), "sample")
    return chosen, chosen.fill({**slots, "sample": shown, "answer": "yes" if source.wants_answers else ""})


def as_messages(text: str) -> list[dict[str, str]]:
    """Return a prompt as messages of the API."""
    return [{"role": "user", "content": text}]


def _choose_language(source: Source, languages: Sequence[str]) -> Language:
    return detect_language(source.chunk.text if source.chunk else find_query(source.sample) if source.sample else "", languages)


def _parse_draft(item: Mapping[str, Any], source: Source, chosen: Prompt) -> Draft | str:
    """Return the question with its answer and evidence, or why it is dropped."""
    question, answer, evidence = (_to_text(item.get(name)) for name in ("question", "answer", "evidence"))
    if question is None:
        return "no_question"
    if answer is None and source.wants_answers:
        return "no_answer"
    if source.chunk is not None:
        if evidence is None:
            return "no_evidence"
        if len(to_plain(evidence)) < SHORTEST:
            return "evidence_too_short"
        if not occurs(evidence, source.chunk.text):
            return "evidence_not_in_text"
    return Draft(
        question=question,
        answer=answer if source.wants_answers else None,
        evidence=evidence if source.chunk is not None else None,
        source=source,
        prompt=chosen.version,
    )


def _to_text(value: Any) -> str | None:
    """Return a text, or a number as text; None for anything else, or an empty one."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    # Lone surrogates, which JSON can spell, cannot be written to a file.
    return str(value).encode("utf-8", "replace").decode().strip() or None


def _drop(dropped: Counter[str], examples: dict[str, str], reason: str, text: str, source: Source) -> None:
    dropped[reason] += 1
    examples.setdefault(reason, f"{source.place}: {text[:300]}")
