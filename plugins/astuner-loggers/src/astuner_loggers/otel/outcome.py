"""How an episode ended, as attributes of its trace: reward, success, findings, failures."""

from __future__ import annotations

from collections.abc import Iterator

from astuner.contract.schema import Episode, Unjudged, Verdict
from astuner_loggers.otel.drafts import EventDraft, Plain
from astuner_loggers.otel.messages import Document


def list_outcome(episode: Episode, trained_tokens: int) -> dict[str, Plain]:
    """Return what has one value."""
    found: dict[str, Plain] = {
        "astuner.completed": episode.completed,
        "astuner.abnormal": episode.abnormal,
        "astuner.duration_s": episode.duration_s,
        "astuner.calls": len(episode.calls),
        "astuner.sampled_tokens": sum(len(call.output_ids) for call in episode.calls),
        "astuner.trained_tokens": trained_tokens,
    }
    if episode.reward is not None:
        found["astuner.reward"] = float(episode.reward)
    if episode.is_success is not None:
        found["astuner.success"] = episode.is_success
    if isinstance(episode.verdict, Unjudged):
        found["astuner.unjudged"] = episode.verdict.reason
    if not episode.completed:
        found["error.type"] = found["astuner.failure"] = episode.failures[-1].reason if episode.failures else "_OTHER"
    return found


def list_details(episode: Episode) -> dict[str, Document]:
    """Return what has many values."""
    found: dict[str, Document] = {"astuner.findings": list_findings(episode)}
    if isinstance(episode.verdict, Verdict):
        found["astuner.rewards"] = dict(episode.verdict.rewards or {})
        found["astuner.reward_components"] = dict(episode.verdict.components)
    found["astuner.failures"] = [
        {"reason": one.reason, "detail": one.detail, "place": one.place, "attempt": one.attempt, "retried": one.retried}
        for one in episode.failures
    ]
    return {name: value for name, value in found.items() if value}


def list_findings(episode: Episode, call: int | None = None) -> list[Document]:
    """Return what detectors found, in one call or in all."""
    return [
        {"detector": name, "call": finding.call, "evidence": finding.evidence}
        for name, found in episode.findings.items()
        for finding in found
        if call in (None, finding.call)
    ]


def list_evaluations(episode: Episode) -> Iterator[EventDraft]:
    """Yield the reward and each of its parts as an event of the conventions."""
    verdict = episode.verdict
    if not isinstance(verdict, Verdict):
        return
    details: dict[str, Plain] = {}
    if verdict.is_success is not None:
        details["gen_ai.evaluation.score.label"] = "pass" if verdict.is_success else "fail"
    if verdict.rationale:
        details["gen_ai.evaluation.explanation"] = verdict.rationale
    for name, value, more in [("reward", verdict.reward, details), *((n, v, {}) for n, v in verdict.components.items())]:
        attributes = {"gen_ai.evaluation.name": name, "gen_ai.evaluation.score.value": float(value), **more}
        yield EventDraft(name="gen_ai.evaluation.result", attributes=attributes)


def describe_failure(episode: Episode) -> str:
    """Return why an episode did not finish."""
    if not episode.failures:
        return "it did not finish"
    last = episode.failures[-1]
    return f"{last.reason}: {last.detail}" if last.detail else last.reason
