"""Causes of lost episodes: one that differs from another only in a number is the same."""

from __future__ import annotations

from attrs import evolve

from astuner.contract.schema import Episode, Failure, Unjudged
from astuner.episodes.builtin.loggers.step_figures import format_figures
from astuner.episodes.rollout.loss_summary import count_causes
from astuner_devkit.episodes import episode


def unjudged(detail: str, place: str = "") -> Episode:
    return evolve(episode(0, None), verdict=Unjudged(reason="bad_verdict", detail=detail, place=place))


def test_causes_that_differ_only_in_a_number_are_one_with_an_example() -> None:
    given = [unjudged(f"judge 'j' returned ({number}, 'x')") for number in (0.2797, 1, -3e-05)]
    assert count_causes([*given, unjudged("judge 'k' returned (1, 'x')")]) == [
        (3, "bad_verdict: judge 'j' returned (0.2797, 'x')"),
        (1, "bad_verdict: judge 'k' returned (1, 'x')"),
    ]


def test_errors_of_one_line_are_one_cause_whatever_they_say() -> None:
    given = [unjudged(f"raised ValueError: {text} (judge.py:3 in exact)", "judge.py:3 in exact") for text in ("four", "five")]
    assert count_causes(given) == [(2, "bad_verdict: raised ValueError: four (judge.py:3 in exact)")]


def test_failures_of_episodes_are_counted_too() -> None:
    failed = evolve(episode(0), output=None, verdict=None, failures=(Failure(reason="timeout", detail="over 3 s"),))
    assert count_causes([failed, evolve(failed, id="other")]) == [(2, "timeout: over 3 s")]


def test_means_over_fewer_episodes_or_tasks_say_of_how_many() -> None:
    metrics = {
        "val/reward/mean": 1.0,
        "val/reward/count": 5.0,
        "val/success/rate": 1.0,
        "val/success/count": 5.0,
        "val/episodes": 64.0,
        "val/pass@1": 1.0,
        "val/pass@1_tasks": 5.0,
        "val/pass@4": 0.5,
        "val/pass@4_tasks": 16.0,
        "val/tasks": 16.0,
    }
    assert format_figures(metrics) == [
        ("val reward", "1.000 (5 of 64)"),
        ("val success", "100.0% (5 of 64)"),
        ("val pass@1", "100.0% (5 of 16)"),
        ("val pass@4", "50.0%"),
    ]
