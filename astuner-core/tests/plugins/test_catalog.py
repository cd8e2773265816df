from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from astuner.contract.errors import ConfigError
from astuner.contract.protocols import Candidate
from astuner.settings.plugins.catalog import Catalog
from astuner.shared.install_hints import install_command

Install = Callable[..., Path]

HERE = Path("/")


def find(kind: str, spec: str, *, config_dir: Path = HERE, disabled: tuple[str, ...] = ()) -> Candidate:
    return Catalog.discover(disabled).find(kind, spec, config_dir=config_dir, key="task_judge.judge_type")


def refusal(kind: str, spec: str, *, config_dir: Path = HERE, disabled: tuple[str, ...] = ()) -> str:
    with pytest.raises(ConfigError) as caught:
        find(kind, spec, config_dir=config_dir, disabled=disabled)
    return str(caught.value)


def test_cores_own_components_come_through_the_same_door() -> None:
    assert find("reader", "dataset_file").dist == "astuner-core"


def test_a_component_is_known_with_its_distribution_and_version(install: Install) -> None:
    install("acme-judges", "1.2.0", entry_points={"astuner.judges": {"strict": "acme_judges.strict:Strict"}})
    assert find("judge", "strict").blame == "judge 'strict' from acme-judges 1.2.0 (acme_judges.strict:Strict)"


def test_discovery_imports_no_plugin(install: Install) -> None:
    install(
        "acme-judges",
        files={"acme_unimportable.py": "raise RuntimeError('imported')"},
        entry_points={"astuner.judges": {"strict": "acme_unimportable:Strict"}},
    )
    Catalog.discover().find("judge", "strict", config_dir=HERE, key="k")
    assert "acme_unimportable" not in sys.modules


def test_what_is_installed_while_the_program_runs_is_found(install: Install) -> None:
    install("acme-one", entry_points={"astuner.judges": {"one": "acme_one:One"}})
    Catalog.discover()
    install("acme-two", entry_points={"astuner.judges": {"two": "acme_two:Two"}})
    assert find("judge", "two").dist == "acme-two"


def test_same_name_from_two_packages_is_ambiguous(install: Install) -> None:
    install("acme-judges", "1.2.0", entry_points={"astuner.judges": {"strict": "acme_judges:Strict"}})
    install("bolt-judges", "0.3", entry_points={"astuner.judges": {"strict": "bolt_judges:Strict"}})
    message = refusal("judge", "strict")
    assert "acme-judges 1.2.0 (acme_judges:Strict), bolt-judges 0.3 (bolt_judges:Strict)" in message
    assert "Write `acme-judges/strict` or `bolt-judges/strict`" in message


def test_distribution_and_name_resolve_an_ambiguity(install: Install) -> None:
    install("acme-judges", entry_points={"astuner.judges": {"strict": "acme_judges:Strict"}})
    install("bolt-judges", entry_points={"astuner.judges": {"strict": "bolt_judges:Strict"}})
    assert find("judge", "bolt_judges/strict").target == "bolt_judges:Strict"


def test_one_name_in_two_kinds_is_no_ambiguity(install: Install) -> None:
    install("acme", entry_points={"astuner.judges": {"both": "acme:Judge"}, "astuner.readers": {"both": "acme:Reader"}})
    assert find("readers", "both").target == "acme:Reader"


def test_unknown_name_says_what_is_installed_and_what_was_probably_meant(install: Install) -> None:
    install("acme", "2.0", entry_points={"astuner.detectors": {"repetition": "acme:R", "leakage": "acme:L"}})
    message = refusal("detector", "repetitoin")
    assert message.startswith("task_judge.judge_type: no detector 'repetitoin'; installed: ")
    assert "leakage, repetition (acme 2.0)" in message
    assert message.endswith(". Did you mean 'repetition'?")


@pytest.mark.parametrize(
    ("kind", "name", "command"),
    [
        ("backbone", "verl", "pip install astuner-verl"),
        ("backbone", "trinity", "pip install astuner-trinity"),
        ("engine", "vllm", "pip install astuner-vllm"),
        ("logger", "swanlab", "pip install 'astuner-loggers[swanlab]'"),
        ("detector", "nonsense", "pip install astuner-judges"),
    ],
)
def test_a_known_name_names_the_one_command_that_brings_it(
    kind: str, name: str, command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert refusal(kind, name).endswith(f"It comes with {command.split()[-1].strip(chr(39)).partition('[')[0]}: {command}")


def test_a_known_name_that_the_installed_package_lacks_asks_for_a_newer_one(install: Install) -> None:
    install("astuner-vllm", "0.0.1")
    newer = install_command("astuner-vllm").replace("install", "install --upgrade", 1)
    assert f"astuner-vllm 0.0.1 does not have it; a newer one may: {newer}" in refusal("engine", "vllm")


def test_a_requirement_that_is_not_installed_is_missing(install: Install) -> None:
    install("acme", requires=["acme-absent>=2,<3", "attrs"], entry_points={"astuner.judges": {"strict": "acme:S"}})
    candidate = find("judge", "strict")
    assert (candidate.missing, candidate.remedy) == (("acme-absent>=2,<3",), "pip install acme")


def test_a_requirement_out_of_its_range_is_missing_with_the_version_that_is_there(install: Install) -> None:
    install("acme-lib", "1.0")
    install("acme", requires=["acme-lib>=2"], entry_points={"astuner.judges": {"strict": "acme:S"}})
    assert find("judge", "strict").missing == ("acme-lib>=2 (1.0 is installed)",)


def test_the_extra_of_a_components_name_is_needed_by_that_component_alone(install: Install) -> None:
    install(
        "acme-loggers",
        requires=["acme-absent; extra == 'board'"],
        entry_points={"astuner.loggers": {"board": "acme:Board", "plain": "acme:Plain"}},
    )
    assert find("logger", "board").remedy == "pip install 'acme-loggers[board]'"
    assert find("logger", "plain").missing == ()


def test_the_extra_that_an_entry_point_declares_is_needed(install: Install) -> None:
    install("acme", requires=["acme-absent; extra == 'fast'"], entry_points={"astuner.judges": {"strict": "acme:S [fast]"}})
    candidate = find("judge", "strict")
    assert (candidate.target, candidate.missing) == ("acme:S", ("acme-absent",))


def test_the_extra_of_a_requirement_is_followed(install: Install) -> None:
    install("acme-lib", requires=["acme-absent; extra == 'gpu'", "acme-other-absent"])
    install("acme", requires=["acme-lib[gpu]"], entry_points={"astuner.judges": {"strict": "acme:S"}})
    assert find("judge", "strict").missing == ("acme-absent",)


def test_a_requirement_for_another_platform_is_not_missing(install: Install) -> None:
    requires = ["acme-absent; sys_platform == 'plan9'"]
    install("acme", requires=requires, entry_points={"astuner.judges": {"strict": "acme:S"}})
    assert find("judge", "strict").missing == ()


@pytest.mark.parametrize("disabled", ["strict", "acme-judges/strict", "acme_judges", "Acme.Judges/strict"])
def test_a_disabled_component_is_not_offered_and_the_error_says_why(install: Install, disabled: str) -> None:
    install("acme-judges", entry_points={"astuner.judges": {"strict": "acme:S"}})
    assert "judge 'strict' from acme-judges 1.0 is disabled" in refusal("judge", "strict", disabled=(disabled,))


def test_disabling_one_of_two_resolves_an_ambiguity(install: Install) -> None:
    install("acme-judges", entry_points={"astuner.judges": {"strict": "acme:S"}})
    install("bolt-judges", entry_points={"astuner.judges": {"strict": "bolt:S"}})
    assert find("judge", "strict", disabled=("acme-judges",)).dist == "bolt-judges"


@pytest.mark.parametrize("spec", ["acme.judges:Strict", "acme.judges->Strict"])
def test_a_class_in_a_module_is_accepted_where_a_name_is(spec: str) -> None:
    candidate = find("judge", spec)
    assert (candidate.source, candidate.target, candidate.name) == ("path", "acme.judges:Strict", spec)


@pytest.mark.parametrize("spec", ["./rewards.py:Strict", "rewards.py->Strict", "../project/rewards.py:Strict"])
def test_a_class_in_a_file_is_found_from_the_configurations_folder(config_dir: Path, spec: str) -> None:
    (config_dir / "rewards.py").touch()
    assert find("judge", spec, config_dir=config_dir).target == f"{config_dir.resolve()}/rewards.py:Strict"


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("./absent.py:Strict", "there is no file /absent.py"),
        ("./rewards.py", "which class of the file? Write `./rewards.py:ClassName`"),
        ("acme.judges.Strict", "for a class in a module write `acme.judges:Strict`"),
        ("acme.judges:", "'' is not the name of a class"),
        ("acme judges:Strict", "'acme judges' is neither a module nor a `.py` file"),
        ("", "is empty"),
    ],
)
def test_a_path_that_cannot_be_meant_says_what_to_write(spec: str, words: str) -> None:
    assert words in refusal("judge", spec)


def test_workflows_are_given_by_path_only() -> None:
    assert "a workflow is given as `package.module:Class` or `./file.py:Class`" in refusal("workflows", "math")


def test_a_candidate_reaches_a_worker_unchanged(install: Install) -> None:
    install("acme", entry_points={"astuner.judges": {"strict": "acme:S"}})
    candidate = find("judge", "strict")
    assert pickle.loads(pickle.dumps(candidate)) == candidate
