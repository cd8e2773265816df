"""Forty values are planted in the environment, a YAML takes them in every way that it can, and no command shows one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from astuner.cli import exit_code_of
from astuner.settings.config.trees import put

COUNT = 40
FORMS = {
    "plain": "${oc.env:PLANTED_1}",
    "spaces": "${ oc.env : PLANTED_2 }",
    "quotes": "${oc.env:'PLANTED_3'}",
    "inside a text": "run-${oc.env:PLANTED_4}-${oc.env:PLANTED_5}",
    "a secret-looking name": "${oc.env:MY_API_KEY}",
    "a number": "${oc.decode:${oc.env:PIN}}",
    "a number as text": "${oc.env:PIN}",
    "a section": "${oc.decode:${oc.env:SECTION}}",
    "a made section": "${oc.create:${oc.env:SECTION}}",
    "a list": "${oc.decode:${oc.env:LIST}}",
    "what is no value": "${oc.decode:'${oc.env:PLANTED_6} ['}",
    "a word": "${oc.env:WORD}",
    "a path": "${oc.env:A_PATH}",
    "a relative path": "${oc.env:A_RELATIVE_PATH}",
    "a long text": "${oc.env:LONG}",
    "an address": "${oc.env:ADDRESS}",
    "two lines": "${oc.env:LINES}",
    "a name from a key": "${oc.env:${astuner.task_judge.mine.name}}",
    "a resolver from a key": "${${astuner.task_judge.mine.resolver}:PLANTED_8}",
    "a reference": "${astuner.task_judge.mine.taken}",
    "a key": "${astuner.${oc.env:PLANTED_9}}",
    "a selected key": "${oc.select:${oc.env:PLANTED_10}}",
    "a variable named by a variable": "${oc.env:${oc.env:PLANTED_11}}",
    "a default that is not used": "${oc.env:PLANTED_12,other}",
    "a default that is a variable": "${oc.env:NOT_SET,${oc.env:PLANTED_13}}",
}
OTHERS = {
    "MY_API_KEY": "wandbkeyplanted",
    "PIN": "4815162342",
    "SECTION": "{plantedname: plantedvalue, more: [31415926]}",
    "LIST": "[plantedfirst, plantedsecond]",
    "WORD": "plantedword",
    "A_PATH": "/planted/path",
    "A_RELATIVE_PATH": "../above/./plantedpath",
    "LONG": "longplanted" * 20,
    "ADDRESS": "https://planted.example/secret?x=é",
    "LINES": "planted one\nplanted two",
}
SIGNS = ("4815162342", "31415926", "planted")
"""What no answer may have."""
TEXTS = (
    "experiment_name",
    "project_name",
    "rollout.user_workflow",
    "task_judge.mine.any",
    "task_judge.judge_protocol",
    "services.web.command",
    "services.web.env.A",
    "trainer_common.logger",
    "verl.trainer.any",
)
TYPED = (
    "model.path",
    "seed",
    "rollout.temperature",
    "rollout.name",
    "task_reader.type",
    "services.web.cwd",
    "trainer_common.total_training_steps",
    "trainer_common.optim.lr_scheduler_type",
    "context_tracker.context_tracker_type",
    "task_judge.judges",
)
COMMANDS = {
    ("explain", "--json"): (TEXTS, TYPED, ("backbone", "rollout")),
    ("show",): (TEXTS,),
    ("validate",): (TYPED,),
}
"""With the keys that take a value at the same time; some end the command before another is looked at."""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for number in range(COUNT - len(OTHERS)):
        monkeypatch.setenv(f"PLANTED_{number}", f"planted{number}v{number * 7919}")
    for name, value in OTHERS.items():
        monkeypatch.setenv(name, value)

    def written(form: str, keys: Sequence[str]) -> str:
        mine = {"name": "PLANTED_7", "resolver": "oc.env", "taken": "${oc.env:PLANTED_0}"}
        tree = {"astuner": {"task_judge": {"mine": mine}, "model": {"path": "org/model"}}}
        for key in keys:
            put(tree, key if key.startswith("verl") else f"astuner.{key}", form)
        Path("tune.yaml").write_text(json.dumps(tree))
        return "tune.yaml"

    return written


def find_shown(conf: str, command: Sequence[str], capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the lines that show a planted value; the names of the variables are no secret."""
    assert exit_code_of(["config", command[0], "--conf", conf, *command[1:]]) in (0, 1, 2)
    said = "".join(capsys.readouterr())
    assert "Traceback" not in said
    return [line for line in said.replace("\\n", "\n").splitlines() if any(sign in line for sign in SIGNS)]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("form", FORMS)
def test_no_command_shows_a_value(form: str, command: tuple[str, ...], write, capsys: pytest.CaptureFixture[str]) -> None:
    for keys in COMMANDS[command]:
        assert find_shown(write(FORMS[form], keys), command, capsys) == []


@pytest.mark.parametrize("form", ["spaces", "a path"])
def test_the_doctor_shows_none_either(form: str, write, capsys: pytest.CaptureFixture[str]) -> None:
    conf = write(FORMS[form], ("model.path", "backbone", "services.web.cwd"))
    exit_code_of(["doctor", "--conf", conf])
    assert [line for line in capsys.readouterr().out.splitlines() if any(sign in line for sign in SIGNS)] == []


def test_an_imported_configuration_shows_none(write, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("astuner_verl", reason="a backbone with a configuration of its own")
    write(FORMS["plain"], TEXTS)
    own = {"trainer": {"experiment_name": FORMS["a word"]}, "data": {"train_files": FORMS["a relative path"]}}
    Path("verl.yaml").write_text(json.dumps(own))
    exit_code_of(["config", "import", "--from", "verl", "verl.yaml", "--out", "ours.yaml"])
    said = capsys.readouterr().out + Path("ours.yaml").read_text()
    assert [line for line in said.splitlines() if any(sign in line for sign in SIGNS)] == []
