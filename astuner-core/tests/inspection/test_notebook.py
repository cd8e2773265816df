"""How a run and its episodes show themselves in a notebook."""

from __future__ import annotations

from attrs import evolve

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


def test_a_run_shows_its_state_and_rewards(write_run):
    path = write_run(rows=ROWS)
    assert Run(path)._repr_html_() == (
        f"<pre>{path}: finished\nreward/mean      0.500 -&gt; 0.750 (steps 1 to 2)\n"
        "val/reward/mean  0.250 -&gt; 0.250 (steps 0 to 0)</pre>"
    )
