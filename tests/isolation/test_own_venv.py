"""A backbone with a virtual environment of its own, from a user's first command to a run in it, with real packages and uv."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from attrs import frozen

from astuner_devkit.distribution import write_wheel
from astuner_devkit.project import write_project

CORE = "astuner-core>=0.2,<0.3"
BACKBONE = """
import os
import sys
from pathlib import Path

from astuner.contract.errors import RunFailed
from astuner.contract.protocols import BackboneTraits
from astuner_trinity.own_venv.locked_venv import LockedVenv

FOLDER = Path(__file__).parent


class Acme:
    name = "acme"
    traits = BackboneTraits(
        honours=("*",),
        own_venv=LockedVenv(
            in_place_with="acme-lib",
            requirements=FOLDER / "requirements.txt",
            lock=FOLDER / "lock.txt",
            overrides=FOLDER / "overrides.txt",
        ),
    )

    def train(self, run, tasks, recipe, control):
        import acme_lib

        print(f"trains in {sys.prefix} with process {os.getpid()}")
        if "ACME_FAILS" in os.environ:
            raise RunFailed("acme failed")
        yield from ()

    def close(self):
        pass
"""
FILES = {
    "acme_backbone/__init__.py": "",
    "acme_backbone/backbone.py": BACKBONE,
    "acme_backbone/requirements.txt": "acme-lib\n",
    "acme_backbone/lock.txt": "acme-lib==1.0\nacme-arrays==2.0\n",
    # The library declares acme-arrays<2, as libraries do.
    "acme_backbone/overrides.txt": "acme-arrays>=2\n",
}
REQUIRES = ["astuner-core[rollout]>=0.2,<0.3", "astuner-trinity>=0.2,<0.3"]
OFFER = {"astuner.backbones": {"acme": "acme_backbone.backbone:Acme"}}


@frozen
class User:
    """A user's environment, with the wheels that its installers find."""

    home: Path
    wheels: Path

    def install(self, *requirements: str) -> None:
        command = ["uv", "pip", "install", "-q", "--python", str(self.home / "venv" / "bin" / "python"), *requirements]
        subprocess.run([sys.executable, "-m", *command], env=self.environment(), check=True, timeout=600)

    def astuner(self, *arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
        command = [str(self.home / "venv" / "bin" / "astuner"), *map(str, arguments)]
        environment = self.environment() | variables
        return subprocess.run(command, cwd=self.home, env=environment, capture_output=True, text=True, check=False, timeout=600)

    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
        links = [str(self.wheels), *filter(None, [os.environ.get("UV_FIND_LINKS")])]
        return kept | {"UV_FIND_LINKS": ",".join(links), "HF_HUB_OFFLINE": "1", "ASTUNER_STATE_DIR": str(self.home / "state")}

    def write_wheel(self, name: str, version: str, requires: Sequence[str] = ()) -> None:
        write_wheel(self.wheels, name, version, {f"{name.replace('-', '_')}.py": ""}, {}, requires)

    def list_states(self) -> dict[str, str]:
        """Return the state of the environment of each backbone that has one."""
        return {row["backbone"]: row["status"] for row in json.loads(self.astuner("setup", "--json").stdout)}

    def list_packages(self) -> dict[str, str]:
        """Return the versions in the backbone's environment."""
        command = ["uv", "pip", "list", "--format", "json", "--python", str(self.home / "venv/astuner/acme/bin/python")]
        done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, check=True, timeout=60)
        return {row["name"]: row["version"] for row in json.loads(done.stdout)}


@pytest.fixture
def user(tmp_path: Path, core_wheel: Path, plugin_wheels: Sequence[Path]) -> User:
    user = User(tmp_path, tmp_path / "wheels")
    user.wheels.mkdir()
    for wheel in (core_wheel, *plugin_wheels):
        shutil.copy2(wheel, user.wheels)
    write_wheel(user.wheels, "acme-backbone", "1.0", FILES, OFFER, REQUIRES)
    user.write_wheel("acme-lib", "1.0", ["acme-arrays<2"])
    user.write_wheel("acme-lib", "1.1", ["acme-arrays<2"])
    for version in ("1.0", "2.0", "2.1"):
        user.write_wheel("acme-arrays", version)
    user.write_wheel("acme-agent", "3.0")
    make = [sys.executable, "-m", "uv", "venv", "-q", "--python", sys.executable, str(tmp_path / "venv")]
    subprocess.run(make, check=True, timeout=120)
    user.install("astuner-core", "astuner-devkit", "acme-backbone", "acme-agent")
    return user


@pytest.fixture
def conf(user: User) -> Path:
    return write_project(user.home, backbone="acme", settings={"data": {"train_batch_size": 1}})


def test_a_backbone_is_set_up_once_and_then_entered_by_its_commands(user: User, conf: Path) -> None:
    run = ("run", "--conf", conf)
    before = user.astuner(*run)
    assert before.returncode == 2
    assert "which is not set up yet: astuner setup acme" in before.stderr
    made = user.astuner("setup", "acme")
    assert made.returncode == 0, made.stderr
    # The lock's versions, the override, and what the user has.
    found = user.list_packages()
    assert {name: found[name] for name in found if name.startswith("acme")} == {
        "acme-agent": "3.0",
        "acme-arrays": "2.0",
        "acme-backbone": "1.0",
        "acme-lib": "1.0",
    }
    assert user.list_states()["acme"] == "ready"
    trained = user.astuner(*run)
    assert trained.returncode == 0, trained.stderr
    assert f"trains in {user.home / 'venv/astuner/acme'}" in trained.stdout
    failed = user.astuner(*run, "--set", "experiment_name=fails", ACME_FAILS="1")
    assert (failed.returncode, "acme failed" in failed.stderr) == (1, True)
    # A second call changes nothing; another version of a plugin does.
    again = user.astuner("setup", "acme")
    assert again.returncode == 0, again.stderr
    write_wheel(user.wheels, "acme-backbone", "1.1", FILES, OFFER, REQUIRES)
    user.install("acme-backbone==1.1")
    outdated = user.astuner(*run)
    assert outdated.returncode == 2
    assert "which has other packages of astuner (acme-backbone==1.0, acme-backbone==1.1): astuner setup acme" in outdated.stderr


def test_the_command_stays_the_same_process(user: User, conf: Path) -> None:
    assert user.astuner("setup", "acme").returncode == 0
    command = [str(user.home / "venv" / "bin" / "astuner"), "run", "--conf", str(conf)]
    with subprocess.Popen(command, cwd=user.home, env=user.environment(), stdout=subprocess.PIPE, text=True) as process:
        out, _ = process.communicate(timeout=120)
    assert f"with process {process.pid}\n" in out


def test_a_package_that_excludes_the_backbone_is_named_with_both_versions(user: User) -> None:
    user.write_wheel("acme-old", "1.0", ["acme-arrays<2"])
    user.write_wheel("acme-older", "1.0", ["acme-lib<1"])
    user.write_wheel("acme-lib", "0.9", ["acme-arrays<2"])
    user.install("acme-old")
    refused = user.astuner("setup", "acme")
    assert refused.returncode == 2
    assert "acme-old 1.0 needs acme-arrays<2, and the backbone 'acme' needs acme-arrays 2.0" in refused.stderr
    assert "--without acme-old" in refused.stderr
    planned = user.astuner("setup", "acme", "--without", "acme-old", "--dry-run")
    assert planned.returncode == 0, planned.stderr
    assert {"acme-lib==1.0", "acme-agent==3.0"} < set(planned.stdout.splitlines())
    assert not (user.home / "venv" / "astuner").exists()


def test_the_lock_gives_way_where_the_backbone_allows_another_version(user: User) -> None:
    user.write_wheel("acme-new", "1.0", ["acme-lib>=1.1"])
    user.install("acme-new", "acme-arrays==2.1", "--no-deps")
    planned = user.astuner("setup", "acme", "--dry-run")
    assert planned.returncode == 0, planned.stderr
    assert "not in the versions that were tried: acme-lib 1.1 (tried: 1.0)" in planned.stderr
    assert "acme-arrays==2.0" in planned.stdout.splitlines()


def test_a_plugin_that_excludes_the_backbone_stays_behind(user: User) -> None:
    offer = {"astuner.judges": {"strict": "acme_strict:Strict"}}
    write_wheel(user.wheels, "acme-strict", "1.0", {"acme_strict.py": ""}, offer, [CORE, "acme-arrays<2"])
    user.install("acme-strict")
    planned = user.astuner("setup", "acme", "--dry-run")
    assert planned.returncode == 0, planned.stderr
    assert "left out: acme-strict 1.0 needs acme-arrays<2" in planned.stderr
    assert "acme-strict==1.0" not in planned.stdout


def test_another_directory_is_linked_and_never_emptied(user: User) -> None:
    elsewhere, papers = user.home / "elsewhere", user.home / "papers"
    papers.mkdir()
    (papers / "thesis.txt").write_text("mine")
    refused = user.astuner("setup", "acme", "--dir", papers)
    assert refused.returncode == 2
    assert "is not empty and not a virtual environment" in refused.stderr
    assert (papers / "thesis.txt").read_text() == "mine"
    made = user.astuner("setup", "acme", "--dir", elsewhere)
    assert made.returncode == 0, made.stderr
    assert (user.home / "venv/astuner/acme").resolve() == elsewhere
    assert user.list_states()["acme"] == "ready"
