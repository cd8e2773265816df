"""The page that writes a configuration, and shows what each backbone makes of it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from astuner.settings.plugins.catalog import Catalog
from astuner.shared.private_files import open_private
from astuner_logview.errors import BadRequest, Unanswerable
from astuner_logview.library import Library
from astuner_logview.parameters import Parameters

TIMEOUT_S = 60.0
LONGEST = 200_000
MOST_BACKBONES = 8
EXAMPLES = [
    {
        "title": "One machine",
        "yaml": """astuner:
  project_name: my-project
  experiment_name: first
  backbone: local
  model:
    path: ./model
  task_reader:
    type: dataset_file
    dataset_file:
      training:
        file_path: ./tasks/train.jsonl
  rollout:
    user_workflow: ./agent.py:MyAgent
    num_repeat: 8
  task_judge:
    judge_type: customized_protocol
    judge_protocol: ./judge.py:MyJudge
  trainer_common:
    total_training_steps: 40
""",
    }
]

KEPT = re.compile(r"PATH|HOME|LANG|TMPDIR|VIRTUAL_ENV|LD_LIBRARY_PATH|SYSTEMROOT|(PYTHON|LC_|XDG_)\w+")
"""Variables that Python and its packages are found with; a question sees no others of the viewer's."""

_one_at_a_time = threading.Lock()
"""Each question starts a process of its own."""


def show_schema(library: Library, parameters: Parameters) -> dict[str, Any]:
    """Return the JSON Schema of the YAML, the installed backbones and an example."""
    return {"schema": json.loads(read_schema_text()), "backbones": list_backbones(), "examples": EXAMPLES}


def explain(library: Library, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return what each backbone makes of a YAML alone: nothing is started, and no variable or file that it names is looked at."""
    text, names = body.get("yaml"), body.get("backbones") or []
    if not isinstance(text, str) or len(text) > LONGEST:
        raise BadRequest(f"yaml: must be a text of at most {LONGEST} characters", "shorten it")
    known = list_backbones()
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or len(names) > MOST_BACKBONES:
        raise BadRequest("backbones: must be a list of names", f"there are {', '.join(known)}")
    if unknown := [name for name in names if name not in known]:
        raise BadRequest(f"backbones: there is no backbone '{unknown[0][:40]}'", f"there are {', '.join(known)}")
    found = {}
    with _one_at_a_time, tempfile.TemporaryDirectory(prefix="astuner-logview-") as directory:
        conf = Path(directory) / "tune.yaml"
        with open_private(conf, "w") as file:
            file.write(text)
        for name in names or [None]:
            found[name] = _explain_one(conf, name)
    general = [one for document in found.values() for one in document["problems"] if one["general"]]
    return {
        "problems": [_strip(one) for one in {json.dumps(one): one for one in general}.values()],
        "by_backbone": {
            name: {
                "keys": document["keys"],
                "native": document["native"],
                "notices": document.get("notices", []),
                "problems": [_strip(one) for one in document["problems"] if not one["general"]],
            }
            for name, document in found.items()
            if name is not None
        },
        "yaml": text,
    }


def list_backbones() -> list[str]:
    """Return the names of the backbones that are installed."""
    catalog = Catalog.discover((), kinds=("backbone",))
    return sorted({candidate.name for candidate in catalog.candidates("backbone")})


@lru_cache(maxsize=1)
def read_schema_text() -> str:
    """Return what `astuner config schema` prints; the plugins of this environment do not change while the viewer runs."""
    done = _run(["config", "schema"])
    if done.returncode:
        raise BadRequest(*(done.stderr.strip().splitlines()[-1:] or ["astuner config schema: it ended without an answer"]))
    return done.stdout


def _explain_one(conf: Path, backbone: str | None) -> dict[str, Any]:
    chosen = ["--backbone", backbone] if backbone else []
    done = _run(["config", "explain", "--conf", str(conf), "--json", "--isolated", *chosen])
    try:
        document = json.loads(done.stdout)
    except (ValueError, RecursionError):
        message = done.stderr.strip().splitlines()[-1:] or ["it ended without an answer"]
        problem = {"place": "", "line": None, "message": message[0], "remedy": "", "general": True}
        return {"keys": [], "native": [], "notices": [], "problems": [problem]}
    problems = [_describe_problem(one, conf) for one in document["problems"]]
    refused = {one["key"]: one.get("reason") for one in document.get("keys", ()) if one["status"] == "refused"}
    return {
        "keys": [_describe_key(one, document["native"] or ()) for one in document.get("keys", ())],
        "native": document.get("native") or [],
        "notices": document.get("notices", []),
        "problems": [{**one, "general": one["place"].removeprefix("astuner.") not in refused} for one in problems],
    }


def _describe_key(one: Mapping[str, Any], native: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    values = {value["key"]: value["value"] for value in native}
    return {
        "key": one["key"],
        "value": one["value"],
        "origin": "default" if one["source"] == "default" else str(one["place"]).rpartition("/")[2],
        "native": [{"key": key, "value": values.get(key)} for key in one.get("native") or ()],
        "honoured": one["status"] in ("core", "backbone", "engine", "aligned"),
        "note": one.get("reason") or "",
    }


def _describe_problem(one: Mapping[str, Any], conf: Path) -> dict[str, Any]:
    suggestion = one.get("suggestion")
    return {
        "place": one.get("key") or "",
        "line": one.get("line"),
        "message": str(one["message"]).replace(f"{conf.parent}/", ""),
        "remedy": f"did you mean '{suggestion}'?" if suggestion else "",
    }


def _strip(problem: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in problem.items() if key != "general"}


def _run(arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    command, environment = [sys.executable, "-m", "astuner", *arguments], os.environ.items()
    with tempfile.TemporaryDirectory(prefix="astuner-logview-") as empty:
        try:
            return subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=TIMEOUT_S,
                check=False,
                cwd=empty,
                env={name: value for name, value in environment if KEPT.fullmatch(name)},
            )
        except subprocess.TimeoutExpired as error:
            raise Unanswerable(f"this took longer than {TIMEOUT_S:g} s", "the machine is busy: try again later") from error
