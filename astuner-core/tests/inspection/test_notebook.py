"""How a run and its episodes show themselves in a notebook."""

from __future__ import annotations

import sys

import pytest
from attrs import evolve

from astuner.contract.errors import UsageError
from astuner.contract.schema import Failure
from astuner.runs.inspection.run import Run
from astuner_devkit.episodes import episode

ROWS = [
    {"kind": "validation", "step": 0, "val/reward/mean": 0.25},
    {"kind": "train", "step": 1, "reward/mean": 0.5},
    {"kind": "train", "step": 2, "reward/mean": 0.75},
]


def test_an_episode_is_one_line():
    one = episode(0, 0.5)
    sampled = sum(len(call.output_ids) for call in one.calls)
    assert repr(one) == f"<Episode {one.id}: {len(one.calls)} calls, {sampled} tokens sampled, reward 0.5>"


def test_a_failed_episode_names_its_failure():
    failed = evolve(episode(0), output=None, verdict=None, failures=(Failure(reason="timeout"),))
    assert repr(failed).endswith("no reward, timeout>")


def test_what_was_said_is_no_markup():
    one = episode(0, 0.5)
    call = evolve(one.calls[0], reply={"role": "assistant", "content": "<script>alert(1)</script>"})
    shown = evolve(one, calls=(call,))._repr_html_()
    assert "&lt;script&gt;" in shown
    assert "<script>" not in shown


def test_a_run_shows_its_outcome(write_run):
    shown = Run(write_run(rows=ROWS))._repr_html_()
    assert "\nlast reward     0.750\n" in shown
    assert "\nbest validation 0.250\n" in shown


def test_curves_are_drawn_and_validations_have_points(write_run):
    pytest.importorskip("matplotlib").use("agg")
    axes = Run(write_run(rows=ROWS)).plot()
    drawn = {line.get_label(): (list(line.get_xdata()), line.get_marker()) for line in axes.get_lines()}
    assert drawn == {"reward/mean": ([1, 2], ""), "val/reward/mean": ([0], "o")}


def test_a_metric_that_no_row_has_is_named(write_run):
    pytest.importorskip("matplotlib").use("agg")
    with pytest.raises(UsageError, match="no row has the metric reward/men"):
        Run(write_run(rows=ROWS)).plot("reward/men")


def test_without_matplotlib_the_command_that_installs_it_is_named(write_run, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        Run(write_run(rows=ROWS)).plot()
