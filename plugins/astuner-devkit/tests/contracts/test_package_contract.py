"""Each rule of the packages' contract is broken by a distribution, on disk, that does one thing wrong."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from astuner_devkit.contracts import Contract, list_rules
from astuner_devkit.contracts.package import PackageContract

JUDGE = "class Strict:\n    def compute_reward(self, workflow_task, workflow_output):\n        return 1.0\n"
UNDOCUMENTED = "import attrs\n\n\nclass Strict:\n    @attrs.frozen(kw_only=True)\n    class Options:\n        field: str = 'a'\n"
MISSPELT = "from astuner import hookimpl\n\n\nclass Strict:\n    @hookimpl\n    def astuner_step_finish(self, report): ...\n"

GOOD: Mapping[str, Any] = {
    "files": {"acme_strict.py": JUDGE},
    "entry_points": {"astuner.judges": {"strict": "acme_strict:Strict"}},
    "requires": ("astuner-core>=0.2,<0.3",),
    "metadata": {"Summary": "A strict judge.", "Requires-Python": ">=3.11"},
}

Install = Callable[..., Any]

BAD: list[tuple[str, Mapping[str, Any], str]] = [
    ("test_it_has_a_summary", {"metadata": {"Requires-Python": ">=3.11"}}, "set `description` in pyproject.toml"),
    ("test_it_says_which_pythons_it_needs", {"metadata": {"Summary": "x"}}, "set `requires-python`"),
    ("test_it_is_made_for_a_range_of_core", {"requires": ()}, "does not depend on astuner-core"),
    ("test_it_is_made_for_a_range_of_core", {"requires": ("astuner-core>=0.1",)}, "lacks a lower or an upper bound"),
    ("test_it_is_made_for_a_range_of_core", {"requires": ("astuner-core<0.2",)}, "lacks a lower or an upper bound"),
    ("test_it_is_made_for_a_range_of_core", {"requires": ("astuner-core>=7,<8",)}, "widen the range"),
    ("test_it_offers_something", {"entry_points": {"console_scripts": {"acme": "acme_strict:Strict"}}}, "offers nothing"),
    (
        "test_it_offers_something",
        {"entry_points": {"astuner.judge": {"strict": "acme_strict:Strict"}}},
        "did you mean 'astuner.judges'?",
    ),
    (
        "test_what_shows_runs_is_a_command",
        {
            "entry_points": {
                "astuner.judges": {"strict": "acme_strict:Strict"},
                "astuner.shows_runs": {"strict": "acme_strict:Strict"},
            }
        },
        "'strict' in astuner.shows_runs is none of its commands",
    ),
    ("test_names_are_plain", {"entry_points": {"astuner.judges": {"Strict-2": "acme_strict:Strict"}}}, "does not match [a-z]"),
    ("test_names_are_plain", {"entry_points": {"astuner.commands": {"a.b.c": "acme_strict:Strict"}}}, "does not match ([a-z]"),
    (
        "test_names_of_core_are_not_taken",
        {"entry_points": {"astuner.trackers": {"timeline": "acme_strict:Strict"}}},
        "is a name of astuner-core's own",
    ),
    ("test_targets_exist", {"entry_points": {"astuner.judges": {"strict": "acme_strict:Lax"}}}, "has no attribute 'Lax'"),
    (
        "test_targets_exist",
        {"files": {"acme_strict.py": "import nothing_of_the_kind\n"}},
        "No module named 'nothing_of_the_kind'",
    ),
    ("test_targets_exist", {"files": {"acme_strict.py": "import os\n\nos._exit(3)\n"}}, "ends the process"),
    (
        "test_importing_is_light",
        {"files": {"torch.py": "", "acme_strict.py": f"import torch\n{JUDGE}"}},
        "importing acme_strict:Strict imports torch",
    ),
    (
        "test_it_imports_only_what_is_public",
        {"files": {"acme_strict.py": f"\nfrom astuner.runs.driver import launch\n{JUDGE}"}},
        "acme_strict.py:2: imports astuner.runs.driver.launch, which is internal",
    ),
    (
        "test_it_imports_only_what_is_public",
        {"files": {"acme_strict.py": f"{JUDGE}\n\ndef late():\n    import astuner.episodes.judging.composition as judging\n"}},
        "docs/api.md lists what a plugin may import",
    ),
    (
        "test_it_imports_only_what_is_public",
        {"files": {"acme_strict.py": f"from astuner.contract.schema import _hidden\n{JUDGE}"}},
        "acme_strict.py:1: imports astuner.contract.schema._hidden, which is internal",
    ),
    ("test_options_of_every_component_are_documented", {"files": {"acme_strict.py": UNDOCUMENTED}}, "document field"),
    (
        "test_hooks_register",
        {"files": {"acme_strict.py": MISSPELT}, "entry_points": {"astuner.hooks": {"strict": "acme_strict:Strict"}}},
        "there is no hook 'astuner_step_finish'",
    ),
    (
        "test_hooks_register",
        {"entry_points": {"astuner.hooks": {"strict": "acme_strict:Strict"}}},
        "has no method marked @astuner.hookimpl",
    ),
]


@pytest.mark.parametrize(("rule", "changes", "words"), BAD, ids=[f"{rule}-{words}" for rule, _, words in BAD])
def test_a_bad_package_breaks_its_rule(
    outcome_of: Any, fake_distribution: Install, rule: str, changes: Mapping[str, Any], words: str
):
    fake_distribution("acme-strict", **{**GOOD, **changes})
    outcome = outcome_of(PackageContract, rule, distribution="acme-strict")
    assert (outcome.status, words in outcome.message) == ("failed", True), outcome.message


def test_a_package_that_is_not_installed_is_named(outcome_of: Any):
    outcome = outcome_of(PackageContract, "test_it_is_installed", distribution="acme-nowhere")
    assert (outcome.status, outcome.message) == (
        "failed",
        "package acme-nowhere is not installed; `pip install -e .` in its directory",
    )


def test_every_rule_is_broken_by_a_bad_package():
    assert {"test_it_is_installed", *(rule for rule, *_ in BAD)} == set(list_rules(PackageContract))


def test_rules_for_one_component_are_none_for_a_package():
    assert not set(list_rules(PackageContract)) & set(list_rules(Contract))


@pytest.mark.parametrize("rule", list_rules(PackageContract))
def test_a_good_package_keeps_every_rule(outcome_of: Any, fake_distribution: Install, rule: str):
    fake_distribution("acme-strict", **GOOD)
    outcome = outcome_of(PackageContract, rule, distribution="acme-strict")
    assert outcome.status == "passed", outcome.message


@pytest.mark.parametrize("requirement", ["astuner-core~=0.2.0", "astuner-core==0.2.*", "astuner_core[rollout]>=0.2,<0.3"])
def test_a_range_may_be_written_in_other_ways(outcome_of: Any, fake_distribution: Install, requirement: str):
    fake_distribution("acme-strict", **{**GOOD, "requires": (requirement,)})
    assert outcome_of(PackageContract, "test_it_is_made_for_a_range_of_core", distribution="acme-strict").status == "passed"


@pytest.mark.parametrize(
    ("requirement", "status"), [("astuner-core[rollout]==0.2.0", "skipped"), ("astuner-core==0.2.*", "failed")]
)
def test_a_package_that_requires_one_version_of_core_may_import_all_of_it(
    outcome_of: Any, fake_distribution: Install, requirement: str, status: str
):
    files = {"acme_strict.py": f"from astuner.runs.driver import launch\n{JUDGE}"}
    fake_distribution("acme-strict", **{**GOOD, "files": files, "requires": (requirement,)})
    assert outcome_of(PackageContract, "test_it_imports_only_what_is_public", distribution="acme-strict").status == status


class TestCore(PackageContract):
    distribution = "astuner-core"


def test_contracts_import_nothing_that_an_author_may_lack():
    code = (
        "import importlib, pkgutil, sys, astuner_devkit.contracts as c, astuner_devkit.calls\n"
        "for module in pkgutil.iter_modules(c.__path__): importlib.import_module(f'{c.__name__}.{module.name}')\n"
        "print([name for name in ('pytest', 'torch', 'transformers', 'openai', 'httpx', 'starlette') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
