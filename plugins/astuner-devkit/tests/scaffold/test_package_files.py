from __future__ import annotations

import ast
import importlib
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from importlib import resources
from importlib.metadata import metadata, version
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from astuner.settings.plugins.kinds import KINDS
from astuner_devkit.contracts.option_fields import describe_fields
from astuner_devkit.scaffold.filling import fill_package, fill_usage, format_range
from astuner_devkit.scaffold.kinds import SCAFFOLDS
from astuner_devkit.scaffold.names import LONGEST, Names, choose_names

TEMPLATES = resources.files("astuner_devkit.scaffold").joinpath("templates")

LONG = "q" * LONGEST

every_kind = pytest.mark.parametrize("kind", SCAFFOLDS)


def named(kind: str) -> Names:
    return choose_names(kind, f"acme-{kind}s", f"acme_{kind}")


def project(kind: str) -> Mapping[str, Any]:
    return tomllib.loads(fill_package(named(kind))["pyproject.toml"])["project"]


Load = Callable[[str], Any]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    """Imports what the entry point of a kind's package names."""

    def load(kind: str) -> Any:
        names = named(kind)
        (tmp_path / f"{names.module}.py").write_text(fill_package(names)[f"src/{names.module}.py"])
        return getattr(importlib.import_module(names.module), SCAFFOLDS[kind].target or names.component)

    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield load
    for module in set(sys.modules) - before:
        if module.startswith("acme_"):
            del sys.modules[module]


def test_every_kind_that_is_published_has_a_scaffold() -> None:
    assert set(KINDS) - set(SCAFFOLDS) == {"workflow"}


@every_kind
def test_the_templates_of_a_kind_are_complete(kind: str) -> None:
    names = {file.name.removesuffix(".in") for file in TEMPLATES.joinpath(kind).iterdir()}
    assert names - {"usage.yaml", "usage.bash"} == {"component.py", "test_component.py", "options.md"}
    assert len(names) == 4


@every_kind
def test_everything_is_filled_in(kind: str) -> None:
    assert "$" not in "".join(fill_package(named(kind)).values())


@every_kind
def test_the_package_has_one_module_and_its_tests(kind: str) -> None:
    module = f"acme_{kind}s"
    assert list(fill_package(named(kind))) == ["README.md", "pyproject.toml", f"src/{module}.py", f"tests/test_{module}.py"]


@every_kind
def test_the_entry_point_names_what_the_module_defines(kind: str) -> None:
    ((group, entries),) = project(kind)["entry-points"].items()
    module, _, target = entries[f"acme_{kind}"].partition(":")
    tree = ast.parse(fill_package(named(kind))[f"src/{module}.py"])
    assert group == KINDS[kind]
    constants = [ast.unparse(node.targets[0]) for node in tree.body if isinstance(node, ast.Assign)]
    assert target in [*constants, *(node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef))]


@every_kind
def test_the_tests_keep_the_contract_of_the_kind_and_of_packages(kind: str) -> None:
    source = fill_package(named(kind))[f"tests/test_acme_{kind}s.py"]
    contract = "HooksContract" if kind == "hook" else f"{kind.title().replace('_', '')}Contract"
    bases = [ast.unparse(node.bases[0]) for node in ast.parse(source).body if isinstance(node, ast.ClassDef)]
    assert bases == [contract, "PackageContract"]


@every_kind
def test_it_needs_the_running_core_and_no_later_minor_one(kind: str) -> None:
    needed = [Requirement(one) for one in project(kind)["dependencies"]]
    assert [one.name for one in needed] == ["astuner-core", *({"sandbox": ["astuner-agents"]}.get(kind, []))]
    for one in needed:
        assert version("astuner-core") in one.specifier
        assert {specifier.operator for specifier in one.specifier} == {">=", "<"}


def test_the_range_ends_before_the_next_minor_version() -> None:
    assert format_range("acme-core[rollout]", running="1.9.3rc1") == "acme-core[rollout]>=1.9,<1.10"


@every_kind
def test_its_tests_need_the_test_kit(kind: str) -> None:
    assert "astuner-devkit" in {Requirement(one).name for one in project(kind)["optional-dependencies"]["test"]}


def test_a_backbone_needs_the_rollout_extra() -> None:
    assert Requirement(project("backbone")["dependencies"][0]).extras == {"rollout"}


@every_kind
def test_it_runs_on_the_pythons_of_core(kind: str) -> None:
    assert SpecifierSet(project(kind)["requires-python"]) == SpecifierSet(metadata("astuner-core")["Requires-Python"])


@every_kind
def test_lines_stay_short_with_the_longest_names(kind: str) -> None:
    texts = fill_package(Names(kind=kind, dist=LONG, name=LONG, module=LONG, component=f"{LONG.title()}Environment")).items()
    long = [line for path, text in texts if path.endswith(".py") for line in text.splitlines() if len(line) > 120]
    assert long == []


@every_kind
def test_every_option_is_documented_in_the_code_and_in_the_readme(kind: str, load: Load) -> None:
    readme = fill_package(named(kind))["README.md"]
    target = load(kind)
    options = describe_fields(getattr(target, "Options", None))
    assert [name for name, doc in options.items() if not doc or f"| `{name}` |" not in readme] == []


@pytest.mark.parametrize(
    "kind", ["reader", "judge", "tracker", "logger", "engine", "environment", "detector", "loss", "sampler", "hook"]
)
def test_a_component_that_has_a_section_has_options(kind: str, load: Load) -> None:
    assert describe_fields(load(kind).Options)


@every_kind
def test_the_readme_shows_how_it_is_used_and_published(kind: str) -> None:
    readme = fill_package(named(kind))["README.md"]
    assert fill_usage(named(kind)) in readme
    assert f"pip install acme-{kind}s" in readme
    assert "python -m build\ntwine upload dist/*" in readme


@pytest.mark.parametrize("kind", [kind for kind in SCAFFOLDS if kind not in ("command", "wire_api")])
def test_the_yaml_that_is_shown_is_right(kind: str, tmp_path: Path) -> None:
    import yaml

    from astuner.settings.config.loading import load_config

    section = yaml.safe_load(fill_usage(named(kind)))["astuner"]
    # Where an environment leads, a workflow is refused.
    whole = {"model": {"path": "some/model"}, "rollout": {"user_workflow": None if kind == "environment" else "m:W"}}
    whole |= {key: {**whole.get(key, {}), **value} if isinstance(value, dict) else value for key, value in section.items()}
    (tmp_path / "run.yaml").write_text(yaml.safe_dump({"astuner": whole}))
    assert load_config(tmp_path / "run.yaml").config is not None


def test_the_keys_of_the_schema_are_all_accounted_for_by_the_backbone(load: Load) -> None:
    from astuner.settings.planning.key_coverage import find_unaccounted_keys

    assert find_unaccounted_keys(load("backbone")) == []
