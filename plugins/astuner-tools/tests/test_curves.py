"""`Run.plot`."""

from __future__ import annotations

import sys

import pytest

from astuner.contract.errors import UsageError
from astuner.runs.inspection.run import Run

ROWS = [
    {"kind": "validation", "step": 0, "val/reward/mean": 0.25},
    {"kind": "train", "step": 1, "reward/mean": 0.5},
    {"kind": "train", "step": 2, "reward/mean": 0.75},
]


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
