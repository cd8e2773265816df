"""A run that is killed again and again, without a warning, ends as one that was not, and pays for no episode twice."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import torch
from forked_runs import Forker, start_forker
from test_backbone import write
from tinker_double import ServiceDouble

from astuner.runs.store.directory import RunDirectory
from astuner_tinker.checkpoints import STATE
from astuner_tinker.probe import PROMPT

HERE = Path(__file__).parent
MOMENTS = (3, 3, 5, 8, 1, 2, 6, 4, 7, 2)
"""After how many acts of the server each attempt is killed; what was measured of it is known from the first run."""


def play(forker: Forker, root: Path, model: Path, conf: Path, acts: int, *more: str) -> int:
    said = conf.parent / "said"
    run = forker.begin(
        ["run", "--conf", str(conf), *more],
        cwd=conf.parent,
        said=said,
        environment={"TINKER_BASE_URL": "http://127.0.0.1:9", "XDG_CACHE_HOME": os.environ["XDG_CACHE_HOME"]},
        prepare=[str(HERE / "run_on_a_double.py"), str(root), str(model), str(acts)],
    )
    code = run.wait(600)
    assert code in (0, -9), said.read_text()
    return code


def read_weights(root: Path, conf: Path) -> dict[str, torch.Tensor]:
    (directory,) = (conf.parent / "launcher_record").iterdir()
    path = json.loads((RunDirectory(directory).checkpoint(4) / STATE).read_text())["path"]
    client = ServiceDouble(root).create_training_client_from_state(path)
    return {name: parameter.detach() for name, parameter in client.model.parameters.items()}


def count_samples(root: Path) -> Counter[tuple[int, int]]:
    """Return how often each request for tokens of an episode was answered; the probe's prompt is shorter than any of theirs."""
    requests = ServiceDouble(root).store.requests()
    return Counter(
        (one["seed"], one["prompt_tokens"]) for one in requests if one["kind"] == "sample" and one["prompt_tokens"] > len(PROMPT)
    )


def test_ten_kills_cost_no_episode_and_no_bit(tmp_path: Path, tiny_model: Path) -> None:
    common = {"optim": {"lr": 1e-3}, "val_before_train": True}
    confs = [
        write(tmp_path / name, tiny_model, trainer_common=common, rollout={"max_env_worker": 1}) for name in ("whole", "killed")
    ]
    roots = [tmp_path / "server-whole", tmp_path / "server-killed"]
    with start_forker() as forker:
        assert play(forker, roots[0], tiny_model, confs[0], 0) == 0
        for number, acts in enumerate(MOMENTS):
            more = ["--resume"] if number else []
            assert play(forker, roots[1], tiny_model, confs[1], acts, *more) == -9, number
        assert play(forker, roots[1], tiny_model, confs[1], 0, "--resume") == 0
    whole, killed = (read_weights(root, conf) for root, conf in zip(roots, confs, strict=True))
    for name, values in whole.items():
        assert torch.equal(values, killed[name]), name
    once, again = (count_samples(root) for root in roots)
    assert set(once) == set(again)
    # One episode is played at a time: at most the one that was under way is asked for again.
    assert sum(again.values()) - len(again) <= len(MOMENTS)
