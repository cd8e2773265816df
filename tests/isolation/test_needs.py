"""Plugins that need what is not installed, or another core."""

from __future__ import annotations

import pytest
from environments import Environment, Wheel
from sources import BROKEN, JUDGE

OFFER = {"astuner.judges": {"strict": "acme_judges:Strict"}}


def status(environment: Environment, name: str) -> str:
    rows = [line.split(maxsplit=4) for line in environment.astuner("plugin", "list").stdout.splitlines()]
    return next(row[4] for row in rows if row[1] == name)


def test_a_missing_extra_is_listed_and_refused_with_the_one_command(environment: Environment, wheel: Wheel) -> None:
    needs = ("astuner-core>=0.2,<0.3", "acme-absent>=2; extra == 'strict'")
    environment.install(wheel("acme-judges", "1.2.0", OFFER, files={"acme_judges.py": JUDGE}, requires=needs))
    assert status(environment, "strict") == "lacks acme-absent>=2: pip install 'acme-judges[strict]'"
    refused = environment.run(environment.project("strict"))
    assert refused.returncode == 2
    assert "needs acme-absent>=2, which is not installed: pip install 'acme-judges[strict]'" in refused.stderr


def test_another_core_is_listed_and_refused(environment: Environment, wheel: Wheel) -> None:
    files = {"acme_judges.py": JUDGE}
    environment.install(wheel("acme-judges", "1.2.0", OFFER, files=files, requires=("astuner-core>=9,<10",)))
    assert status(environment, "strict").startswith("it needs astuner-core>=9,<10, and astuner-core ")
    refused = environment.run(environment.project("strict"))
    assert refused.returncode == 2
    assert "judge 'strict' from acme-judges 1.2.0 (acme_judges:Strict): it needs astuner-core>=9,<10" in refused.stderr
    assert "pip install --upgrade acme-judges" in refused.stderr


def test_another_core_does_not_stop_runs_without_the_plugin(environment: Environment, wheel: Wheel) -> None:
    files = {"acme_judges.py": JUDGE}
    environment.install(wheel("acme-judges", "1.2.0", OFFER, files=files, requires=("astuner-core>=9,<10",)))
    finished = environment.run(environment.project())
    assert finished.returncode == 0, finished.stderr


@pytest.mark.parametrize("backbone", ["local", "verl", "trinity"])
def test_a_backbone_that_is_not_installed_names_the_one_command(environment: Environment, backbone: str) -> None:
    refused = environment.run(environment.project(settings={"rollout": {"num_repeat": 2}}), "--backbone", backbone)
    assert refused.returncode == 2
    assert refused.stderr.rstrip().endswith(f"It comes with astuner-{backbone}: pip install astuner-{backbone}")


def test_a_backbone_whose_engine_is_missing_names_the_one_command(environment: Environment, wheel: Wheel) -> None:
    needs = ("astuner-core>=0.2,<0.3", "acme-verl-engine>=0.9,<0.10")
    offer = {"astuner.backbones": {"verl": "astuner_verl:Backbone"}}
    environment.install(wheel("astuner-verl", "0.2.0", offer, files={"astuner_verl.py": BROKEN}, requires=needs))
    refused = environment.run(environment.project(settings={"rollout": {"num_repeat": 2}}), "--backbone", "verl")
    assert refused.returncode == 2
    assert "needs acme-verl-engine>=0.9,<0.10, which is not installed: pip install astuner-verl" in refused.stderr


def test_debug_without_an_engine_names_what_brings_one(environment: Environment) -> None:
    refused = environment.run(environment.project(settings={"rollout": {"name": "auto"}}))
    assert refused.returncode == 2
    assert "pip install astuner-local" in refused.stderr


def test_a_core_without_its_rollout_extra_names_the_one_command(environment: Environment, wheel: Wheel) -> None:
    # Goes before the right one, so that the requirement of the extra is not met.
    environment.install(wheel("uvicorn", "0.0.1", {}, files={"uvicorn.py": BROKEN}, requires=()))
    refused = environment.run(environment.project())
    assert refused.returncode == 2
    assert "uvicorn>=0.30 (0.0.1 is installed)" in refused.stderr
    assert "pip install 'astuner-core[rollout]'" in refused.stderr
    assert "Traceback" not in refused.stderr
