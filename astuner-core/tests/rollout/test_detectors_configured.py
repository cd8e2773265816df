"""Switching detectors on in a YAML: what is chosen, refused and said before anything heavy is loaded, and a whole run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from astuner.contract.errors import ConfigError, PluginError
from astuner.settings.planning.plan import Plan, plan_run
from astuner_devkit.project import write_project

SHOUTING = """\
from attrs import frozen

class Shouting:
    @frozen(kw_only=True)
    class Options:
        word: str = "STOP"

    def __init__(self, options):
        self.word = options.word

    def look(self, output):
        return f"it shouts {self.word}" if self.word in output.text else None
"""


@pytest.fixture
def acme(fake_distribution: Callable[..., Path]) -> None:
    """Installs the detectors `shouting` and `swearing`."""
    entry_points = {"shouting": "acme_shouting:Shouting", "swearing": "acme_shouting:Shouting"}
    fake_distribution("acme-detectors", "2.0", {"acme_shouting.py": SHOUTING}, {"astuner.detectors": entry_points})


@pytest.fixture
def planned(tmp_path: Path) -> Callable[..., Plan]:
    def plan(**rollout: Any) -> Plan:
        (tmp_path / "shouting.py").write_text(SHOUTING)
        (tmp_path / "mute.py").write_text("class Mute: ...\n")
        return plan_run(write_project(tmp_path, settings={"rollout": rollout}))

    return plan


def problems(planned: Callable[..., Plan], **rollout: Any) -> list[str]:
    with pytest.raises(ConfigError) as found:
        planned(**rollout)
    return [str(problem).partition(": ")[2] for problem in found.value.problems]


def test_detectors_are_chosen_by_name_each_once(planned, acme):
    found = planned(compute_madness_checklist=["shouting", "swearing", "shouting"]).recipe.detectors
    assert [one.candidate.name for one in found] == ["shouting", "swearing"]


def test_none_is_chosen_unless_it_is_asked_for(planned):
    assert planned().recipe.detectors == ()


def test_an_unknown_detector_is_an_error_with_a_suggestion(planned, acme):
    (problem,) = problems(planned, compute_madness_checklist=["shoutin"])
    assert problem.startswith("astuner.rollout.compute_madness_checklist[0]: no detector 'shoutin'; installed: ")
    assert problem.endswith("Did you mean 'shouting'?")


def test_a_detector_takes_its_options_from_its_section(planned, acme):
    (found,) = planned(compute_madness_checklist=["shouting"], detectors={"shouting": {"word": "HALT"}}).recipe.detectors
    assert found.options.word == "HALT"


def test_an_option_that_a_detector_does_not_have_is_an_error(planned, acme):
    (problem,) = problems(planned, compute_madness_checklist=["shouting"], detectors={"shouting": {"words": "HALT"}})
    assert problem.startswith("astuner.rollout.detectors.shouting.words: ")
    assert "'word'" in problem


def test_options_of_a_detector_that_is_not_switched_on_are_an_error(planned, acme):
    (problem,) = problems(planned, compute_madness_checklist=["shouting"], detectors={"shoutin": {}})
    assert problem == (
        "astuner.rollout.detectors.shoutin: the detector 'shoutin' is not switched on; name it in "
        "rollout.compute_madness_checklist, or remove its options. Did you mean 'shouting'?"
    )


def test_what_acts_only_with_a_detector_is_remarked_on_without_one(planned):
    notices = planned(agent_madness_reward=-2.0).notices
    assert (
        "rollout.agent_madness_reward has no effect: no detector is switched on (rollout.compute_madness_checklist)." in notices
    )


def test_it_is_not_remarked_on_where_one_is_switched_on(planned, acme):
    notices = planned(agent_madness_reward=-2.0, compute_madness_checklist=["shouting"]).notices
    assert not [notice for notice in notices if "agent_madness_reward" in notice]


def test_two_detectors_of_one_name_are_refused(planned, fake_distribution):
    for name in ("acme", "bolt"):
        entry_points = {"astuner.detectors": {"shouting": f"{name}_shouting:Shouting"}}
        fake_distribution(f"{name}-detectors", "2.0", {f"{name}_shouting.py": SHOUTING}, entry_points)
    found = problems(planned, compute_madness_checklist=["acme-detectors/shouting", "bolt-detectors/shouting"])
    assert found == [
        "astuner.rollout.compute_madness_checklist[1]: detector 'shouting' from bolt-detectors 2.0 (bolt_shouting:Shouting) and "
        "detector 'shouting' from acme-detectors 2.0 (acme_shouting:Shouting) have one name, under which findings are kept: "
        "switch only one of them on."
    ]


def test_a_run_ends_the_episodes_in_which_a_users_detector_finds_something(run, acme, tmp_path: Path):
    (tmp_path / "shouting.py").write_text(SHOUTING)
    checklist = ["./shouting.py:Shouting", "swearing"]
    rollout = {"compute_madness_checklist": checklist, "detectors": {"swearing": {"word": "HALT"}}, "agent_madness_reward": -3.0}
    played = run(replies=["STOP it"], settings={"rollout": rollout})
    assert played.rewards == [-3.0]
    assert (played.metrics["madness/./shouting.py:Shouting"], played.metrics["madness/swearing"]) == (1.0, 0.0)
    assert any("    abnormal: ./shouting.py:Shouting: it shouts STOP" in notice for notice in played.notices)


def test_what_cannot_look_is_no_detector(run, tmp_path: Path):
    (tmp_path / "mute.py").write_text("class Mute: ...\n")
    with pytest.raises(PluginError, match=r"Mute.* has no method `look\(output\)`"):
        run(settings={"rollout": {"compute_madness_checklist": ["./mute.py:Mute"]}})
