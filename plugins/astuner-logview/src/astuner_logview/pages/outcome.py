"""How an episode ended, as JSON."""

from __future__ import annotations

from typing import Any

from attrs import asdict

from astuner.contract.schema import Episode, Failure, Unjudged, Verdict

LONGEST = 100_000


def describe_verdict(verdict: Verdict | Unjudged | None) -> dict[str, Any] | None:
    """Return a verdict, or the reason why there is none."""
    match verdict:
        case Verdict():
            return {
                "reward": verdict.reward,
                "is_success": verdict.is_success,
                "rewards": dict(verdict.rewards) if verdict.rewards else None,
                "components": dict(verdict.components),
                "rationale": _cut(verdict.rationale),
            }
        case Unjudged():
            return {key: _cut(value) for key, value in asdict(verdict).items()}
    return None


def describe_failure(failure: Failure) -> dict[str, Any]:
    """Return a failure."""
    return {key: _cut(value) for key, value in asdict(failure).items()}


def describe_output(episode: Episode) -> dict[str, Any] | None:
    """Return what the workflow returned."""
    output = episode.output
    if output is None:
        return None
    reward = output.reward
    return {
        "reward": reward if reward is None or isinstance(reward, int | float) else dict(reward),
        "is_success": output.is_success,
        "metadata": dict(output.metadata),
        "log_metrics": dict(output.log_metrics),
    }


def _cut(value: Any) -> Any:
    return value[:LONGEST] + "…" if isinstance(value, str) and len(value) > LONGEST else value
