"""From the sampled tokens to those that change the weights: what is lost on the way, and in which episodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from astuner_logview.index.group_signal import UNREWARDED_REASON
from astuner_logview.index.schema import SPLITS
from astuner_logview.library import Library
from astuner_logview.pages.filter_words import quote_value
from astuner_logview.pages.problems import list_problems
from astuner_logview.parameters import Parameters
from astuner_tools.reporting.training import name_loss

SUMS = """
SELECT coalesce(sum(tokens + retried), 0) AS sampled, coalesce(sum(trained), 0) AS in_samples,
    coalesce(sum(retried), 0) AS retried, count(nullif(retried, 0)) AS retried_in,
    coalesce(sum(trained) FILTER (WHERE reward IS NOT NULL), 0) AS trainable,
    coalesce(sum(signal) FILTER (WHERE reward IS NOT NULL), 0) AS signal,
    count(*) FILTER (WHERE reward IS NOT NULL AND signal < trained) AS without_signal
FROM episodes WHERE """

UNTRAINED = "SELECT key, sum(value), count(*) FROM episodes, json_each(untrained) WHERE {} GROUP BY key ORDER BY 2 DESC, 1"

UNREWARDED = f"""
SELECT {UNREWARDED_REASON}, sum(trained), count(*) FROM episodes WHERE trained > 0 AND reward IS NULL AND {{}}
GROUP BY 1 ORDER BY 2 DESC, 1"""

Loss = tuple[str, int, int]
"""A reason, the tokens lost by it, and the episodes that they are of."""


def show_waterfall(library: Library, parameters: Parameters) -> dict[str, Any]:
    """Return the stages of the tokens of a step, or of all steps."""
    run, step, split = library.find(parameters.run), parameters.find_number("step"), parameters.find_split() or "train"
    scope, values = "repeat>=0 AND split=?", [SPLITS.index(split)]
    if step is not None:
        scope, values = f"{scope} AND step=?", [*values, step]
    with run.index.open() as connection:
        sums = connection.execute(f"{SUMS} {scope}", values).fetchone()
        untrained: list[Loss] = [tuple(row) for row in connection.execute(UNTRAINED.format(scope), values)]
        unrewarded: list[Loss] = [tuple(row) for row in connection.execute(UNREWARDED.format(scope), values)]
    if sums["retried"]:
        untrained.append(("retried", sums["retried"], sums["retried_in"]))
    if rest := sums["sampled"] - sums["in_samples"] - sum(count for _, count, _ in untrained):
        untrained.append(("unexplained", rest, 0))
    no_signal: list[Loss] = [("no_signal", sums["trainable"] - sums["signal"], sums["without_signal"])]
    where = f"split:{split}" + ("" if step is None else f" step:{step}")
    stages = [
        ("sampled", "sampled", sums["sampled"], _describe_losses(where, untrained, ""), where),
        (
            "in_samples",
            "in samples",
            sums["in_samples"],
            _describe_losses(where, unrewarded, " reward:none"),
            f"{where} trained>0",
        ),
        ("trainable", "trainable", sums["trainable"], _describe_losses(where, no_signal, ""), f"{where} trained>0 -reward:none"),
        ("with_signal", "with signal", sums["signal"], [], f"{where} signal>0"),
    ]
    if split != "train":
        # Nothing is trained on a validation.
        stages = [(*stages[2][:3], [], stages[2][4]) if one[0] == "trainable" else one for one in stages[:3]]
    return {
        "step": step,
        "stages": [
            {"name": name, "label": label, "unit": "tokens", "count": count, "losses": losses, "filter": found}
            for name, label, count, losses, found in stages
        ],
        "problems": list_problems(run),
    }


def _describe_losses(where: str, losses: Sequence[Loss], more: str) -> list[dict[str, Any]]:
    return [
        {
            "reason": reason,
            "label": name_loss(reason),
            "count": count,
            "episodes": episodes,
            "filter": f"{where} tokens>0" if reason == "unexplained" else f"{where} lost:{quote_value(reason)}{more}",
        }
        for reason, count, episodes in losses
        if count
    ]
