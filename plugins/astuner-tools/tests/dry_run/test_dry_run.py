"""`astuner run --dry-run`: what it shows, and that it starts nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from planned_project import give_gpus, write_planned_project

from astuner_devkit.command_line import CommandResult
from astuner_devkit.project import write_project

Cli = Callable[..., CommandResult]
AUDIT = """
from attrs import frozen

from astuner import hookimpl


class Audit:
    @frozen(kw_only=True)
    class Options:
        file: str

    def __init__(self, options):
        self._file = options.file

    @hookimpl(wrapper=True)
    def astuner_make_judge(self):
        return (yield)
"""
SETTLES = """
    @classmethod
    def settle_values(cls, run_info):
        from astuner.contract.protocols import SettledValue

        return [SettledValue(key="acme.lanes", value=4, because="two for each of 2 cores")]
"""


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return write_planned_project(tmp_path)


def test_it_shows_what_a_run_takes_and_touches_nothing(conf: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    give_gpus(monkeypatch, 2, 6)
    acme = conf.with_name("acme.py")
    acme.write_text(acme.read_text().replace("plans_memory=True", "plans_memory=True, trains=True"))
    shown = cli("run", "--conf", conf, "--dry-run")
    assert shown.code == 0, shown.err
    assert "3 of 1 tasks x 4 episodes" in shown.out
    assert "does not fit" in shown.out
    assert "at most 1: every 20 steps, the last; about " in shown.out
    assert "model.lora_rank up" in shown.out
    assert not (conf.parent / "launcher_record").exists()


def test_it_shows_what_the_backbone_settles_of_its_own_keys(conf: Path, cli: Cli) -> None:
    acme = conf.with_name("acme.py")
    acme.write_text(acme.read_text().replace("plans_memory=True", "plans_memory=True, settles_values=True") + SETTLES)
    shown = cli("run", "--conf", conf, "--dry-run")
    assert shown.code == 0, shown.err
    assert "4 (two for each of 2 cores)" in shown.out


def test_it_names_the_services_and_starts_none(tmp_path: Path, cli: Cli) -> None:
    conf = write_project(tmp_path, settings={"services": {"web": {"command": "sleep 60"}}})
    assert "web" in cli("run", "--conf", conf, "--dry-run", "--with", "web").out
    assert cli("run", "--conf", conf, "--dry-run", "--with", "wep").code == 2


def test_it_tells_its_reader_that_nothing_is_run(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "own_reader.py").write_text(
        "from astuner.contract.errors import DataError\n"
        "class Reader:\n"
        "    @classmethod\n"
        "    def from_run(cls, options, run_info):\n"
        "        raise DataError(f'made in attempt {run_info.attempt}')\n"
    )
    conf = write_project(tmp_path, settings={"task_reader": {"type": f"{tmp_path}/own_reader.py:Reader"}})
    assert "made in attempt 0" in cli("run", "--conf", conf, "--dry-run").err
    assert "made in attempt 1" in cli("run", "--conf", conf).err


def test_it_gives_extensions_their_options(cli: Cli, fake_distribution: Callable[..., Path], tmp_path: Path) -> None:
    hooks = {"astuner.hooks": {"audit": "acme_audit:Audit"}}
    fake_distribution("acme-audit", "0.3", {"acme_audit.py": AUDIT}, hooks, ("astuner-core>=0.2,<0.3",))
    conf = write_project(tmp_path / "project", settings={"plugins": {"options": {"audit": {"file": str(tmp_path / "code")}}}})
    shown: Any = cli("run", "--conf", conf, "--dry-run")
    assert (shown.code, "left out" in shown.err) == (0, False)
