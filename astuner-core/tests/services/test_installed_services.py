"""Services that packages define, core's own among them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from astuner.contract.errors import PluginError, UsageError
from astuner.runs.driver.launch import start_run
from astuner.runs.driver.run_request import RunRequest
from astuner.settings.planning.plan import plan_run
from astuner.shared import install_hints
from astuner.shared.known_packages import KnownPackages
from astuner.shared.processes import list_programs
from astuner.shared.services import Definition
from astuner.shared.services.ray import ray
from astuner_devkit.project import write_project

CORE = ("astuner-core>=0.2,<0.3",)
DEFINES = """
from astuner.shared.services import Definition, Ready, Service

def shown(run_info):
    service = Service(command=f"echo serving {run_info.experiment_name}; sleep 60", ready=Ready(log="serving"))
    return Definition(service=service, exports={"ACME_URL": "http://x"}, url="http://x/", step_url="http://x/{step}")

def wrong(run_info):
    return 3

def raising(run_info):
    raise KeyError("port")
"""
TELLS = (
    "import os\nfrom astuner import WorkflowOutput\nclass Agent:\n    async def execute(self, workflow_task, tuner):\n"
    "        return WorkflowOutput(reward=float(os.environ['ACME_URL'] == 'http://x'))\n"
)


@pytest.fixture
def acme(fake_distribution: Callable[..., Path]) -> None:
    points = {name: f"acme_services:{name}" for name in ("shown", "wrong", "raising")}
    fake_distribution("acme", "2.0", {"acme_services.py": DEFINES}, {"astuner.services": points}, CORE)


def info(tmp_path: Path, **settings: Any) -> Any:
    return plan_run(write_project(tmp_path, settings=settings)).run_info()


@pytest.mark.usefixtures("acme")
def test_a_package_can_bring_a_service_and_export_variables(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(TELLS)
    conf = write_project(tmp_path, workflow="./agent.py:Agent")
    outcome = start_run(RunRequest(conf=conf, services=["shown"]))
    assert "serving project" in (outcome.directory / "logs" / "service-shown.log").read_text()
    assert list_programs() == []


LINKS = """
from astuner.contract.protocols import LoggerTraits


class Links:
    traits = LoggerTraits(links_steps=True)

    @classmethod
    def from_run(cls, options, run_info):
        made = cls()
        made.file = run_info.directory / "links.txt"
        return made

    def link_steps(self, url):
        self.file.write_text(url)

    def log(self, step, metrics):
        assert self.file.exists()

    def log_episodes(self, step, groups):
        pass

    def close(self):
        pass
"""


@pytest.mark.usefixtures("acme")
def test_the_pages_of_a_service_are_linked_by_loggers_that_can(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "links.py").write_text(LINKS)
    conf = write_project(tmp_path, settings={"trainer_common": {"logger": ["./links.py:Links"]}})
    outcome = start_run(RunRequest(conf=conf, services=["shown"]))
    assert (outcome.directory / "links.txt").read_text() == "http://x/{step}"
    assert "service 'shown': ready at http://x/" in capsys.readouterr().err


def test_a_run_without_such_a_service_links_nothing(tmp_path: Path) -> None:
    (tmp_path / "links.py").write_text(LINKS.replace("assert", "assert not"))
    outcome = start_run(RunRequest(conf=write_project(tmp_path, settings={"trainer_common": {"logger": ["./links.py:Links"]}})))
    assert not (outcome.directory / "links.txt").exists()


@pytest.mark.usefixtures("acme")
@pytest.mark.parametrize(
    ("name", "said"), [("wrong", "returned 3; astuner.services.Definition is expected"), ("raising", "KeyError: 'port'")]
)
def test_a_package_that_defines_none_is_blamed(tmp_path: Path, name: str, said: str) -> None:
    with pytest.raises(PluginError, match=rf"service '{name}' from acme 2.0 \(acme_services:{name}\).*{said}"):
        start_run(RunRequest(conf=write_project(tmp_path), services=[name]))


def test_a_missing_service_of_a_known_package_is_named_with_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = KnownPackages(components={("service", "viewer"): "acme-viewer"}, libraries={}, engines={})
    monkeypatch.setattr(install_hints, "read_known_packages", lambda: known)
    with pytest.raises(UsageError, match=r"--with viewer: no service 'viewer'\. It comes with acme-viewer: pip install"):
        start_run(RunRequest(conf=write_project(tmp_path), services=["viewer"]))


def test_the_services_of_core_are_listed_like_any_component(cli: Any) -> None:
    lines = cli("plugin", "list", "--kind", "service").out.splitlines()
    assert [line.split()[:2] for line in lines if "astuner-core" in line] == [["service", "ray"]]


def test_a_cluster_that_is_there_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    told = "service 'ray': RAY_ADDRESS is set, so the cluster at 10.0.0.1:6379 is used"
    assert ray(info(tmp_path)) == Definition(service=None, notice=told)


def test_without_ray_its_service_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr("astuner.shared.services.ray.find_spec", lambda name: None)
    with pytest.raises(UsageError, match="pip install ray"):
        ray(info(tmp_path))
