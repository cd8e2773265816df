from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from astuner_devkit.command_line import CommandResult
from astuner_devkit.contracts import CONTRACTS

Cli = Callable[..., CommandResult]

STRICT = '''
from attrs import frozen

class Strict:
    """Compare answers to the letter."""

    @frozen(kw_only=True)
    class Options:
        case: bool = True
        """Whether case counts."""

    def __init__(self, options):
        print("made")

    def compute_reward(self, workflow_task, workflow_output):
        return 1.0
'''
BARE = STRICT.replace('        """Whether case counts."""\n', "")
HALF = '''
from attrs import frozen

class Half:
    """Halves advantages."""

    @frozen(kw_only=True)
    class Options:
        scale: float
        """What to multiply by."""

    def estimate(self, rewards):
        return rewards
'''


@pytest.fixture
def offer(fake_distribution: Callable[..., Path]) -> Callable[..., Path]:
    """Installs a distribution that is right as a whole; what it offers, `files` by module and `entries` by kind, may not be."""

    def install(files: dict[str, str], entries: dict[str, dict[str, str]]) -> Path:
        return fake_distribution(
            "acme-judges",
            "1.2.0",
            files={f"acme_judges/{name}.py": source for name, source in files.items()},
            entry_points={f"astuner.{kind}s": targets for kind, targets in entries.items()},
            requires=["astuner-core>=0.2,<0.3"],
            metadata={"Summary": "Judges that compare.", "Requires-Python": ">=3.11"},
        )

    return install


def offer_strict(offer: Callable[..., Path], source: str = STRICT) -> None:
    offer({"strict": source}, {"judge": {"strict": "acme_judges.strict:Strict"}})


def test_a_sound_distribution_passes(cli: Cli, offer: Callable[..., Path]) -> None:
    offer_strict(offer)
    found = cli("plugin", "check", "acme-judges")
    assert (found.code, "failed  " in found.out) == (0, False)
    assert "judge strict (acme_judges.strict:Strict)\n  passed  It can be imported" in found.out


@pytest.mark.parametrize(("name", "shown"), [("strict", "TestStrict"), ("very_strict", "TestVeryStrict"), ("a-b.c", "TestABC")])
def test_it_says_how_to_run_the_rules_that_wait_for_data(cli: Cli, offer: Callable[..., Path], name: str, shown: str) -> None:
    offer({"strict": STRICT}, {"judge": {name: "acme_judges.strict:Strict"}})
    out = cli("plugin", "check", "acme-judges").out
    assert f"rules wait for data: run them in your tests: class {shown}(JudgeContract)" in out


def test_the_name_is_compared_as_pip_does(cli: Cli, offer: Callable[..., Path]) -> None:
    offer_strict(offer)
    out = cli("plugin", "check", "Acme_Judges").out.splitlines()
    assert (out[0], next(x for x in out if "judge " in x)) == ("acme-judges 1.2.0", "judge strict (acme_judges.strict:Strict)")


def test_a_broken_rule_is_named_with_blame_and_remedy(cli: Cli, offer: Callable[..., Path]) -> None:
    offer_strict(offer, BARE)
    found = cli("plugin", "check", "acme-judges")
    assert found.code == 1
    assert "judge 'strict' from acme-judges 1.2.0 (acme_judges.strict:Strict): document case: write a " in found.out


def test_one_class_under_two_names_is_blamed_under_each(cli: Cli, offer: Callable[..., Path]) -> None:
    target = "acme_judges.strict:Strict"
    offer({"strict": BARE}, {"judge": {"exact": target, "strict": target}})
    out = cli("plugin", "check", "acme-judges").out
    assert [out.count(f"judge '{name}' from acme-judges 1.2.0 ({target}): document") for name in ("exact", "strict")] == [1, 1]


def test_one_that_cannot_be_imported_is_a_failed_row_and_the_others_are_checked(cli: Cli, offer: Callable[..., Path]) -> None:
    targets = {"broken": "acme_judges.broken:Broken", "strict": "acme_judges.strict:Strict"}
    offer({"strict": STRICT, "broken": "1 / 0"}, {"judge": targets})
    found = cli("plugin", "check", "acme-judges", "--json")
    broken, strict = json.loads(found.out)["components"]
    blame = "judge 'broken' from acme-judges 1.2.0 (acme_judges.broken:Broken)"
    assert found.code == 1
    assert [(rule["status"], rule["message"]) for rule in broken["rules"]] == [
        ("failed", f"{blame}: ZeroDivisionError: division by zero")
    ]
    assert {rule["status"] for rule in strict["rules"]} == {"passed"}


def test_what_a_component_prints_stays_out_of_the_document(cli: Cli, offer: Callable[..., Path]) -> None:
    offer_strict(offer, STRICT + "\nprint('hello')\n")
    found = cli("plugin", "check", "acme-judges", "--json")
    assert json.loads(found.out)["passed"] is True
    assert "hello" in found.err


def test_rules_that_need_an_option_wait_for_it(cli: Cli, offer: Callable[..., Path]) -> None:
    offer({"half": HALF}, {"estimator": {"half": "acme_judges.half:Half"}})
    (half,) = json.loads(cli("plugin", "check", "acme-judges", "--json").out)["components"]
    assert "test_shapes_are_kept" in half["waiting"]


def test_a_kind_without_a_contract_is_imported_all_the_same(
    cli: Cli, offer: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(CONTRACTS, "detector")  # type: ignore[arg-type] # a Mapping to all others
    offer({"loops": "class Loops: ..."}, {"detector": {"loops": "acme_judges.loops:Loops"}})
    out = cli("plugin", "check", "acme-judges").out
    assert "  passed  It can be imported, by this core.\n  no contract for the kind 'detector'" in out


def test_a_distribution_without_plugins_fails(cli: Cli, fake_distribution: Callable[..., Path]) -> None:
    fake_distribution("acme-plain")
    found = cli("plugin", "check", "acme-plain")
    assert found.code == 1
    assert "package acme-plain: offers nothing" in found.out


def test_one_that_is_not_installed_is_a_usage_error_with_a_suggestion(cli: Cli, offer: Callable[..., Path]) -> None:
    offer_strict(offer)
    found = cli("plugin", "check", "acme-jugdes")
    assert found.code == 2
    assert "no distribution 'acme-jugdes' is installed" in found.err
    assert "Did you mean 'acme-judges'?" in found.err


def test_core_passes_its_own_check(cli: Cli) -> None:
    found = json.loads(cli("plugin", "check", "astuner-core", "--json").out)
    rules = [rule for part in (*found["components"], {"rules": found["package"]}) for rule in part["rules"]]
    assert [rule for rule in rules if rule["status"] == "failed"] == []


def test_without_assertions_nothing_is_claimed() -> None:
    command = [sys.executable, "-O", "-m", "astuner", "plugin", "check", "astuner-core"]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (found.returncode, found.stdout) == (2, "")
    assert "python -O" in found.stderr
