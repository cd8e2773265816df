"""What a warm start says where held-out demonstrations fit worse than trained ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from astuner.contract.protocols import Fit, Miss, WarmStartResult
from astuner.contract.schema import Sample
from astuner_tools.demonstrations.held_out_gap import explain_gap
from astuner_tools.demonstrations.reading import Demonstration
from astuner_tools.demonstrations.recording import RecordedDemonstration

WORDS = ["repeat", "the", "word", "is", "apple", "pear", "plum", "fig"]
APPLE, PEAR, PLUM, FIG = 4, 5, 6, 7


def decode(ids: Sequence[int]) -> str:
    return " ".join(WORDS[number] for number in ids)


def record(line: int, word: int, asked: int | None = None) -> RecordedDemonstration:
    """Return `repeat WORD` with the answer `the word is WORD`, whose last four ids are trained."""
    ids = np.array([0, word if asked is None else asked, 1, 2, 3, word], np.int32)
    mask = np.array([False, False, True, True, True, True])
    sample = Sample(
        episode_id=f"demonstration/demos-{line}",
        task_id=f"demos-{line}",
        repeat=0,
        agent="agent",
        ids=ids,
        mask=mask,
        logprobs=np.zeros(6, np.float32),
        calls=(0,),
    )
    demonstration = Demonstration(file=Path("demos.jsonl"), line=line, messages=())
    return RecordedDemonstration(demonstration=demonstration, samples=(sample,), untrained={})


def explain(trained_loss: float, held_out: Fit | None, rows: Sequence[RecordedDemonstration]) -> str:
    after: dict[str, Any] = {"trained": Fit(loss=trained_loss, accuracy=0.99, tokens=8)}
    if held_out is not None:
        after["held out"] = held_out
    trained = [record(1, APPLE), record(2, APPLE), record(3, PEAR)]
    return "\n".join(explain_gap(WarmStartResult(before=after, after=after, steps=1), trained, rows, decode))


def test_the_wrong_token_is_named_with_its_place_and_what_would_teach_it() -> None:
    misses = (Miss(0, 5, APPLE), Miss(1, 5, APPLE), Miss(2, 5, PEAR))
    fit = Fit(loss=0.172, accuracy=0.75, tokens=12, misses=misses)
    assert explain(0.074, fit, [record(7, PLUM), record(8, PLUM), record(9, FIG)]) == (
        "warning: the loss of held-out demonstrations, 0.172, is 2.3 times that of trained ones, 0.074: part of what was trained "
        "is remembered and does not carry over to new tasks\n"
        "  'plum' is wrong in 2 of 2 places ('apple' instead), first in demos.jsonl:7, after 'repeat plum the word is'\n"
        "  'fig' is wrong in 1 of 1 places ('pear' instead), first in demos.jsonl:9, after 'repeat fig the word is'\n"
        "  3 of the wrong tokens repeat the prompt after 'the word is', where the trained demonstrations have 2 different "
        "tokens: repeating is learnt from variety, not from passes. Add demonstrations with other values there; a tiny model "
        "needs about a thousand"
    )


def test_a_wrong_token_that_is_no_repeat_asks_for_other_demonstrations() -> None:
    fit = Fit(loss=0.3, accuracy=0.75, tokens=4, misses=(Miss(0, 5, APPLE),))
    shown = explain(0.1, fit, [record(7, PLUM, asked=FIG)])
    assert shown.endswith("\n  add demonstrations that differ there, or train fewer epochs (--epochs)")


def test_a_close_loss_a_perfect_fit_and_none_held_out_warn_of_nothing() -> None:
    rows = [record(7, PLUM)]
    assert explain(0.1, Fit(loss=0.2, accuracy=0.75, tokens=4, misses=(Miss(0, 5, APPLE),)), rows) == ""
    assert explain(0.0001, Fit(loss=0.001, accuracy=1.0, tokens=4), rows) == ""
    assert explain(0.1, None, []) == ""


def test_a_backbone_that_knows_no_misses_still_warns() -> None:
    assert "is 3.0 times that of trained ones" in explain(0.1, Fit(loss=0.3, accuracy=0.75, tokens=4), [record(7, PLUM)])
