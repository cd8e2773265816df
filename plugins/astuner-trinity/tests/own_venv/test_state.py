"""What is said of an environment before anything is started."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from attrs import evolve

from astuner.contract.protocols import VenvState
from astuner_trinity.own_venv.examination import find_directory, format_python
from astuner_trinity.own_venv.lock_conflicts import explain_conflicts, find_conflicts
from astuner_trinity.own_venv.locked_venv import LockedVenv
from astuner_trinity.own_venv.pins import read_pins
from astuner_trinity.own_venv.record import SetupRecord, delete_record
from astuner_trinity.own_venv.request import SetupRequest, plan_setup

Install = Callable[..., Path]


@pytest.fixture
def record(own: LockedVenv, install: Install) -> Callable[..., Path]:
    """Writes the record of an environment that was just made, with something changed."""

    def write(request: SetupRequest | None = None, **changed: object) -> Path:
        plan = plan_setup("acme", own, request or SetupRequest())
        directory = find_directory("acme")
        directory.mkdir(parents=True, exist_ok=True)
        made = SetupRecord(
            prefix=sys.prefix,
            python=format_python(),
            digest=plan.digest,
            ours=plan.ours,
            others=plan.others,
            left_out=(),
            request=plan.request,
        )
        evolve(made, **changed).write(directory)
        return directory

    return write


def examine(own: LockedVenv) -> VenvState:
    return own.examine("acme")


def test_one_that_was_never_made_names_the_command(own: LockedVenv, install: Install) -> None:
    state = examine(own)
    assert (state.status, state.is_usable, state.command) == ("missing", False, "astuner setup acme")
    assert state.describe() == (
        "the backbone 'acme' has its own virtual environment, which is not set up yet: astuner setup acme"
    )


def test_where_its_libraries_are_installed_nothing_is_needed(own: LockedVenv, install: Install) -> None:
    install("acme-trainer")
    assert (examine(own).status, examine(own).is_usable) == ("in place", True)


def test_one_that_was_completed_is_ready(own: LockedVenv, record: Callable[..., Path]) -> None:
    record()
    assert (examine(own).status, examine(own).reason) == ("ready", "")


def test_one_that_was_interrupted_is_missing(own: LockedVenv, record: Callable[..., Path]) -> None:
    delete_record(record())
    assert examine(own).status == "missing"


def test_another_machine_is_refused_in_words(own: LockedVenv, install: Install) -> None:
    state = examine(evolve(own, systems=(("plan9", "mips"),)))
    assert state.status == "unsupported"
    assert "whose libraries exist for plan9 mips alone" in state.describe()


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"prefix": "/elsewhere"}, "which was made for /elsewhere"),
        ({"python": "3.1"}, "which has Python 3.1"),
        ({"digest": "0"}, "which was made from other requirements"),
        ({"ours": ("astuner-core==0.0.9",)}, "which has other packages of astuner (astuner-core==0.0.9)"),
    ],
)
def test_one_that_no_longer_fits_is_refused(
    own: LockedVenv, record: Callable[..., Path], changed: dict[str, object], reason: str
) -> None:
    record(**changed)
    state = examine(own)
    assert (state.status, state.is_usable) == ("outdated", False)
    assert state.reason.startswith(reason)


def test_a_new_package_of_the_user_is_no_reason_to_refuse(own: LockedVenv, record: Callable[..., Path], install: Install) -> None:
    record(others=("acme-gone==1.0",))
    install("acme-new", "2.0")
    assert (examine(own).status, examine(own).reason) == ("ready", "lacks acme-new==2.0 and still has acme-gone==1.0")


def test_the_command_repeats_what_was_asked_for(own: LockedVenv, record: Callable[..., Path], tmp_path: Path) -> None:
    more = tmp_path / "more needs.txt"
    more.write_text("acme-web\n")
    record(SetupRequest(requirements=(more,), without=("ipython*",)), digest="0")
    assert examine(own).command == f"astuner setup acme --requirements '{more}' --without 'ipython*'"


def test_a_file_of_requirements_that_is_gone_is_named(own: LockedVenv, record: Callable[..., Path], tmp_path: Path) -> None:
    more = tmp_path / "more.txt"
    more.write_text("acme-web\n")
    record(SetupRequest(requirements=(more,)))
    more.unlink()
    assert examine(own).status == "outdated"
    assert str(more) in examine(own).reason


def test_what_the_lock_has_is_left_to_it(own: LockedVenv, install: Install) -> None:
    install("acme-web", "9.9")
    install("acme-agent", "1.0")
    assert plan_setup("acme", own, SetupRequest()).others == ("acme-agent==1.0",)


def test_without_leaves_out_packages_by_pattern_and_plugins_by_name(own: LockedVenv, install: Install) -> None:
    install("acme-agent", "1.0")
    install("acme-judges", "1.0", entry_points={"astuner.judges": {"strict": "acme:S"}})
    assert plan_setup("acme", own, SetupRequest(without=("*",))).packages[0].name == "acme-judges"
    assert plan_setup("acme", own, SetupRequest(without=("Acme_Judges",))).ours == ()


def test_a_conflict_names_the_package_and_both_versions(own: LockedVenv, install: Install, tmp_path: Path) -> None:
    install("acme-agent", "1.0", requires=["acme-arrays<2", "acme-web>=3"])
    more = tmp_path / "more.txt"
    more.write_text("# more\nacme-web>=4 # newer\n-e ./mine\n")
    plan = plan_setup("acme", own, SetupRequest(requirements=(more,)))
    found = list(find_conflicts(plan.packages, plan.request.requirements, plan.pins))
    assert explain_conflicts("acme", found).splitlines() == [
        "the environment of the backbone 'acme' cannot hold everything that you ask for or have installed here:",
        "  acme-agent 1.0 needs acme-arrays<2, and the backbone 'acme' needs acme-arrays 2.4.6",
        f"  {more}:2 needs acme-web>=4, and the backbone 'acme' needs acme-web 3.1",
        "Leave out what the run does not need (--without acme-agent),",
        "or install a release that accepts these versions. --overrides FILE replaces a requirement, untested",
    ]


def test_an_override_of_the_user_takes_a_package_out_of_the_lock(own: LockedVenv, install: Install, tmp_path: Path) -> None:
    install("acme-agent", "1.0", requires=["acme-arrays<2"])
    mine = tmp_path / "overrides.txt"
    mine.write_text("acme-arrays==1.26\n")
    plan = plan_setup("acme", own, SetupRequest(overrides=(mine,)))
    assert list(find_conflicts(plan.packages, (), plan.pins)) == []
    assert "acme-arrays" in read_pins(own.lock)
