"""A run whose YAML, `.env` and command line hold a secret of every kind leaves none of them on disk, whatever the logger."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from astuner.runs.store.store_lines import read_records

pytest.importorskip("openai", reason="the debug backbone needs astuner-core[rollout]")

ALL = [name for name in ("tensorboard", "wandb", "swanlab", "trackio", "mlflow") if find_spec(name)]
JUDGE = """\
from attrs import field, frozen

class Mine:
    @frozen(kw_only=True)
    class Options:
        api_key: str
        note: str
        headers: dict = field(factory=dict)
        endpoint: str = ""
        urls: tuple = ()

    def __init__(self, options):
        self._options = options

    def compute_reward(self, task, output):
        if task.task_id == "fails":
            raise ValueError(f"the server refused {self._options!r}")
        return 1.0
"""


def plant(kind: str) -> str:
    """Return a secret that is found nowhere by chance."""
    return f"Zq7Kx9Lm{kind.title().replace(' ', '')}8Wv4"


KINDS = [
    "api key", "token", "header", "cookie", "option", "option equals", "argument", "variable", "env", "env embedded", "dotenv",
    "dotenv default", "service env", "bearer", "query", "slack", "discord", "redis", "slash password", "stripe", "github",
    "hugging", "gitlab", "command line", "native", "native env", "webhook", "private key", "basic", "project", "experiment",
    "spaces", "structure",
]  # fmt: skip
SECRET = {kind: plant(kind) for kind in KINDS}
BASIC = base64.b64encode(f"me:{SECRET['basic']}".encode()).decode()
SECRET["basic"] = BASIC
VARIABLES = {"LEAK_NOTE": SECRET["env"], "LEAK_PART": SECRET["env embedded"], "LEAK_NATIVE": SECRET["native env"]}
VARIABLES |= {"LEAK_PROJECT": SECRET["project"], "LEAK_RUN": SECRET["experiment"], "LEAK_SPACES": SECRET["spaces"]}
VARIABLES |= {"LEAK_STRUCTURE": f"{{{SECRET['structure']}: [1, 27182818284]}}"}
DOTENV = {"LEAK_DOTENV": SECRET["dotenv"], "LEAK_SERVICE": SECRET["dotenv default"]}
ORDINARY = ["MAX_TOKENS=512", "some/tokenizer-name", "a plain note: value", "http://127.0.0.1:9/v1"]
"""What must be shown as it is."""


def make_settings(loggers: Any) -> dict[str, Any]:
    options = {
        "api_key": SECRET["api key"],
        "note": "${oc.env:LEAK_NOTE}",
        "headers": {
            "Authorization": f"Bearer {SECRET['header']}",
            "X-Trace": f"Bearer {SECRET['bearer']}",
            "Cookie": f"session={SECRET['cookie']}",
            "X-Note": "part-${oc.env:LEAK_PART}-end",
            "X-Spaces": "${ oc.env : LEAK_SPACES }",
            "X-Again": "${astuner.experiment_name}/${astuner.project_name}",
            "X-Structure": "${oc.decode:${oc.env:LEAK_STRUCTURE}}",
            "limits": ORDINARY[0],
            "tokenizer": ORDINARY[1],
            "remark": ORDINARY[2],
        },
        "endpoint": f"http://host/v1?limit=3&access_token={SECRET['query']}",
        "urls": [
            f"https://hooks.slack.com/services/T0AAAAAAA/B0BBBBBBB/{SECRET['slack']}",
            f"https://discord.com/api/webhooks/123456789012345678/{SECRET['discord']}",
            f"redis://:{SECRET['redis']}@127.0.0.1:6379/0",
            f"https://me:p@ss/{SECRET['slash password']}/x@127.0.0.1/db",
            "sk_live_" + SECRET["stripe"],
            "ghp_" + SECRET["github"],
            "hf_" + SECRET["hugging"],
            "glpat-" + SECRET["gitlab"],
            ORDINARY[3],
        ],
    }
    serve = (
        f"sleep 600 # --note ${{oc.env:LEAK_DOTENV}} ACCESS_TOKEN={SECRET['variable']} "
        f"--password {SECRET['option']} --token={SECRET['option equals']} Basic {BASIC}"
    )
    return {
        "project_name": "${oc.env:LEAK_PROJECT}",
        "experiment_name": "run-${oc.env:LEAK_RUN}",
        "experiment_dir": "auto",
        "task_judge": {"judges": [{"judge": "./judge.py:Mine", "options": options}]},
        "trainer_common": {"logger": loggers},
        "services": {
            "web": {
                "command": ["sh", "-c", serve, "--api-token", SECRET["argument"]],
                "env": {
                    "SERVICE_TOKEN": SECRET["service env"],
                    "HARMLESS": "${oc.env:LEAK_SERVICE,none}",
                    "HOOK_WEBHOOK": f"http://hook/{SECRET['webhook']}",
                    "PEM": f"-----BEGIN PRIVATE {'KEY'}-----\n{SECRET['private key']}\n-----END PRIVATE {'KEY'}-----",
                },
            }
        },
    }


def find_leaks(directory: Path) -> list[tuple[str, str]]:
    found = [(str(path), kind) for path in directory.rglob("*") for kind, secret in SECRET.items() if secret in path.name]
    for path in directory.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            if path.parent.name == "episodes":
                # Calls are compressed.
                content += str(list(read_records(path))).encode()
            found += [(str(path.relative_to(directory)), kind) for kind, secret in SECRET.items() if secret.encode() in content]
    return found


@pytest.mark.parametrize("fails", [False, True], ids=["", "a judge that quotes its options"])
def test_no_secret_of_any_kind_is_on_disk(
    fails: bool, cli: Callable[..., Any], tmp_path: Path, machine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import yaml

    from astuner_devkit.project import write_project

    monkeypatch.chdir(tmp_path)
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    for name in DOTENV:
        monkeypatch.setenv(name, "to be removed after the test")
        monkeypatch.delenv(name)
    loggers = ["console", *({name: {"mode": "offline"} if name == "wandb" else {}} for name in ALL)]
    for logger in loggers[1:]:
        for name, options in logger.items():
            options.update({} if name == "tensorboard" else {"timeout_s": 600.0})
    (tmp_path / "judge.py").write_text(JUDGE)
    (tmp_path / ".env").write_text("".join(f"{name}={value}\n" for name, value in DOTENV.items()))
    tasks = [{"task_id": "fails" if fails else "sum", "main_query": "What is 2 + 2?", "answer": "4"}]
    conf = write_project(tmp_path, settings=make_settings(loggers), tasks=tasks)
    document = yaml.safe_load(conf.read_text())
    document["verl"] = {"extra": {"api_key": SECRET["native"], "note": "${oc.env:LEAK_NATIVE}"}}
    conf.write_text(yaml.safe_dump(document, sort_keys=False))
    override = f"task_judge.extra_section={{password: {SECRET['command line']}}}"
    before = os.umask(0)
    try:
        answered = cli("run", "--conf", conf, "--backbone", "debug", "--with", "web", "--set", override)
    finally:
        os.umask(before)
    (run,) = (tmp_path / "launcher_record").iterdir()
    assert re.fullmatch(r"run-LEAK_RUN-[0-9a-f]{4}\.debug", run.name)
    assert answered.code == (1 if fails else 0), answered.err
    assert find_leaks(tmp_path / "launcher_record") == []
    assert [kind for kind, secret in SECRET.items() if secret in answered.out + answered.err] == []
    assert [str(path) for path in (run, *run.rglob("*")) if not path.is_symlink() and path.stat().st_mode & 0o077] == []
    config = yaml.safe_load((run / "config.yaml").read_text())
    (judge,) = config["resolved"]["astuner"]["task_judge"]["judges"]
    assert judge["options"]["note"] == "${oc.env:LEAK_NOTE}"
    assert judge["options"]["headers"]["X-Note"] == "part-${oc.env:LEAK_PART}-end"
    assert config["resolved"]["astuner"]["experiment_name"] == "run-${oc.env:LEAK_RUN}"
    assert [text for text in ORDINARY if text not in json.dumps(config["resolved"])] == []
    assert re.search(r"--note \$\{oc\.env:LEAK_DOTENV\}", (run / "logs" / "service-web.log").read_text())
