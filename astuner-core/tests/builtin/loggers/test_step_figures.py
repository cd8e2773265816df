from __future__ import annotations

import pytest

from astuner.episodes.builtin.loggers.step_figures import order_columns, thin_rows

VALIDATION = {"val/reward/mean": 0.5}


def make_rows(steps, every=20):
    rows = [(0, VALIDATION)]
    for step in range(1, steps + 1):
        rows.append((step, {"reward/mean": 0.1}))
        rows += [(step, VALIDATION)] if step % every == 0 else []
    return rows


def test_a_short_run_is_shown_whole():
    rows = make_rows(20)
    assert thin_rows(rows) == rows


@pytest.mark.parametrize("steps", [50, 400, 999, 10_000])
def test_a_long_run_is_thinned_and_keeps_its_validations_and_its_ends(steps):
    rows = make_rows(steps, every=steps // 5)
    found = thin_rows(rows)
    assert len(found) <= 42
    assert [row for row in found if row[1] is VALIDATION] == [row for row in rows if row[1] is VALIDATION]
    assert found[1] == rows[1]
    assert (steps, {"reward/mean": 0.1}) in found


def test_no_step_is_no_row():
    assert thin_rows([]) == []


def test_columns_have_one_order_whatever_comes_first():
    assert order_columns(["reward", "tokens/s", "odd", "loss", "pass@4", "reward", "kl"]) == [
        "reward",
        "pass@4",
        "kl",
        "loss",
        "tokens/s",
        "odd",
    ]
