"""The backbone with a real server: hatchery-core, which trains and samples on the CPU."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from attrs import evolve, frozen
from forked_runs import ForkedRun, Forker, start_forker
from hatchery_server import KEY, HatcheryServer, serve
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

import astuner_tinker.rows
from astuner.contract.schema import Sample
from astuner.runs.store.directory import RunDirectory
from astuner.runs.training import LossOptions, compute_token_shares
from astuner.settings.config.model import Config
from astuner_devkit.project import write_project
from astuner_devkit.waiting import until
from astuner_local.trainer.options import TrainerOptions
from astuner_local.trainer.rows import TrainRow
from astuner_local.trainer.trainer import Trainer
from astuner_tinker.adapter import AdapterTrainer
from astuner_tinker.checkpoints import STATE
from astuner_tinker.options import Options
from astuner_tinker.probe import PROMPT, find_facts
from astuner_tinker.service import Service, connect

pytest.importorskip("hatchery")

LR = 1e-2
LONGEST_S = 240.0
"""For a run, on a machine that is as busy as it likes."""


@pytest.fixture(scope="module")
def server(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HatcheryServer]:
    with serve(tiny_model, tmp_path_factory.mktemp("hatchery")) as started:
        yield started


@pytest.fixture(scope="module")
def forker() -> Iterator[Forker]:
    with start_forker() as started:
        yield started


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One server is measured once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _key_and_cache(_own_cache_and_key: None, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.setenv("TINKER_API_KEY", KEY)


def open_service(server: HatcheryServer, model: Path, **options: Any) -> Service:
    control: Any = SimpleNamespace(stop=False, notify=lambda *_: None)
    return connect(Options(base_url=server.url, rank=4, **options), str(model), "run", control)


def test_what_the_server_does_is_found(server: HatcheryServer, tiny_model: Path) -> None:
    facts = find_facts(open_service(server, tiny_model))
    expected = {
        "within": "tokens",
        "across": "adds",
        "weights": True,
        "logprobs": "sampled",
        "greedy_at_one": True,
        "whole_top_k": 1000,
        "stops": False,
        "frozen": False,
        "clips": True,
        "repeats": True,
        "exact_resume": False,
        "saves_once": False,
    }
    assert {name: getattr(facts, name) for name in expected} == expected
    assert facts.mismatch < 1e-3
    assert facts.server.startswith("Tinker-Compatible Training Platform 0.3.0")


class Pair:
    """Adapters on the server, and the same ones under the trainer of `astuner-local`."""

    def __init__(self, server: HatcheryServer, model: Path, aggregation: Any, loss: Any, **common: Any) -> None:
        config = Config()
        settings = evolve(config.trainer_common, **{"grad_clip": 1e6, **common})
        config = evolve(config, trainer_common=evolve(settings, optim=evolve(settings.optim, lr=LR)))
        run: Any = SimpleNamespace(config=config, user_keys=frozenset())
        ledger: Any = SimpleNamespace(add=lambda **_: None)
        service = open_service(server, model, loss=loss)
        self.server, self.client = server, service.make_training_client(seed=1)
        self.trainer = AdapterTrainer(
            client=self.client,
            service=service,
            facts=find_facts(service),
            ledger=ledger,
            run=run,
            loss=LossOptions(),
            aggregation=aggregation,
            total_steps=10,
            score_reference=None,
        )
        begun = self.read()
        assert begun["alpha"] == 2 * begun["rank"] == 8
        base = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
        lora = LoraConfig(r=begun["rank"], lora_alpha=begun["alpha"], target_modules=begun["modules"])
        self.twin = get_peft_model(base, lora).eval()
        named = self.twin.named_parameters()
        self.own = {name.replace(".default.", "."): one for name, one in named if one.requires_grad}
        with torch.no_grad():
            for name, one in self.own.items():
                one.copy_(begun["weights"][name])
        decay = config.trainer_common.optim.weight_decay
        options = TrainerOptions(lr=LR, weight_decay=decay, grad_clip=settings.grad_clip, loss_agg_mode=aggregation)
        self.local = Trainer(self.twin, options)

    def read(self) -> dict[str, Any]:
        """Return what the server holds."""
        return self.server.read_model(self.client.model_id)

    def read_moment(self, name: str) -> torch.Tensor:
        """Return the first moment of local's optimizer, of a parameter."""
        moment: torch.Tensor = self.local._optimizer.state[self.own[name]]["exp_avg"]
        return moment

    def make_rows(self, seed: int, apart: float = 0.0) -> list[TrainRow]:
        """Return two groups of three rows of different lengths, with gaps; `apart` is how far the sampler's values are off."""
        draw, samples = np.random.default_rng(seed), []
        for number in range(6):
            ids = np.array([3, 1, 4, number // 3, *draw.integers(3, 60, 6 + 2 * number)], np.int32)
            mask = np.arange(len(ids)) >= 4
            mask[6 : 6 + number % 2] = False
            named = {"episode_id": f"e{number}", "task_id": f"g{number // 3}", "repeat": number % 3, "agent": "agent"}
            samples.append(Sample(**named, ids=ids, mask=mask, logprobs=np.zeros(len(ids), np.float32), calls=(0,)))
        for sample, logprobs in zip(samples, self.trainer.score(samples), strict=True):
            sample.logprobs[sample.mask] = logprobs + apart * draw.normal(size=len(logprobs))
        return [TrainRow(sample=sample, advantage=float(draw.normal()), group=sample.task_id) for sample in samples]


@pytest.mark.parametrize("calls", ["one call", "several calls"])
@pytest.mark.parametrize("aggregation", ["token-mean", "seq-mean-token-sum"])
@pytest.mark.parametrize("loss", ["auto", "importance_sampling", "computed"])
def test_adapters_become_those_of_local(
    server: HatcheryServer, tiny_model: Path, monkeypatch: pytest.MonkeyPatch, loss: str, aggregation: str, calls: str
) -> None:
    """Two steps, so that both matrices have a gradient in the second. Moments show its size, which Adam's steps do not."""
    if calls == "several calls":
        monkeypatch.setattr(astuner_tinker.rows, "MOST_ROWS", 2)
    pair = Pair(server, tiny_model, aggregation, loss)
    assert pair.trainer.uses_server_loss == (loss != "computed")
    told: dict[str, Any] = {}
    compared = 0
    for step in (1, 2):
        rows = pair.make_rows(step)
        before = server.read_jobs()
        pair.trainer.update(rows, step, record=False)
        asked = Counter(job["operation"] for job in server.read_jobs()[len(before) :])
        assert asked["forward_backward"] == (3 if calls == "several calls" else 1)
        pair.local.update(rows, step)
        held = pair.read()
        largest = max(float(pair.read_moment(name).abs().max()) for name in held["exp_avg"])
        assert largest > 1e-5
        for name, own in pair.own.items():
            moment = pair.read_moment(name)
            torch.testing.assert_close(held["exp_avg"][name], moment, rtol=1e-4, atol=1e-4 * largest, msg=name)
            # Where there is hardly a gradient, Adam's step is that of its rounding.
            told[name] = told.get(name, True) & ((moment == 0) | (moment.abs() > 0.1 * largest))
            compared += int(told[name].sum())
            found, expected = held["weights"][name][told[name]], own.detach()[told[name]]
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-4 * LR)
    assert compared > 3_000


@pytest.mark.parametrize("grad_clip", [1e6, 1e-3])
def test_the_servers_loss_is_clipped_and_so_is_its_gradient(server: HatcheryServer, tiny_model: Path, grad_clip: float) -> None:
    """Against the formula, min(r·A, clip(r)·A) with r to the sampler, in one more graph of torch."""
    pair = Pair(server, tiny_model, "token-mean", "auto", grad_clip=grad_clip, clip_ratio_low=0.1, clip_ratio_high=0.3)
    rows = pair.make_rows(3, apart=0.5)
    metrics = pair.trainer.update(rows, 1, record=False)
    loss, clipped = torch.zeros(()), 0
    for row, share in zip(rows, compute_token_shares(rows, "token-mean", 1), strict=True):
        ids, mask = torch.tensor(row.sample.ids)[None].long(), row.sample.mask
        logprobs = pair.twin(ids).logits[0, :-1].log_softmax(-1).gather(1, ids[0, 1:, None])[:, 0][mask[1:]]
        ratio = (logprobs - torch.tensor(row.sample.logprobs[mask])).exp()
        gains = torch.minimum(ratio * row.advantage, ratio.clamp(0.9, 1.3) * row.advantage)
        clipped += int((gains < ratio * row.advantage).sum())
        loss = loss - share * gains.sum()
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(list(pair.own.values()), grad_clip)
    assert (norm > grad_clip) == (grad_clip < 1)
    assert clipped > 5
    assert metrics["clip/low"] + metrics["clip/high"] == pytest.approx(clipped / sum(row.sample.trained for row in rows))
    held = pair.read()["exp_avg"]
    largest = max(float(one.grad.abs().max()) for one in pair.own.values() if one.grad is not None)
    for name, one in pair.own.items():
        torch.testing.assert_close(held[name] / 0.1, one.grad, rtol=1e-4, atol=1e-4 * largest, msg=name)


@frozen
class Project:
    """A project in a directory, and the runs of it in processes of their own."""

    conf: Path
    server: HatcheryServer
    forker: Forker

    @property
    def directory(self) -> RunDirectory:
        """The run directory."""
        return RunDirectory(self.conf.parent / "run")

    @classmethod
    def write(cls, folder: Path, model: Path, server: HatcheryServer, forker: Forker, **settings: Any) -> Project:
        """Write a project of four tasks, in which letters are worth more the nearer they are to the end of the alphabet."""
        judge = (
            "class Letters:\n    def compute_reward(self, task, output):\n"
            "        said = output.metadata['final_answer']\n"
            "        return sum(one.islower() for one in said) / max(len(said), 1)\n"
        )
        tasks = [{"task_id": f"task-{number}", "main_query": f"{number} + 1?"} for number in range(4)]
        given: dict[str, Any] = {
            "model": {"path": str(model), "lora_rank": 8},
            "data": {"train_batch_size": 2, "max_prompt_length": 256, "max_response_length": 32},
            "rollout": {"num_repeat": 4, "max_model_len": 300, "max_response_length_in_one_turn": 6},
            "trainer_common": {
                "total_training_steps": 4,
                "logger": ["jsonl"],
                "save_freq": 1,
                "max_checkpoints_to_keep": 10,
                "val_before_train": False,
                "test_freq": -1,
                "optim": {"lr": 1e-2},
            },
        }
        for section, values in settings.items():
            given[section] = {**given.get(section, {}), **values}
        folder.mkdir(parents=True)
        (folder / "letters.py").write_text(judge)
        native = given.pop("tinker", None)
        conf = write_project(folder, "./letters.py:Letters", backbone="tinker", tasks=tasks, settings=given)
        if native:
            conf.write_text(f"{conf.read_text()}\ntinker: {json.dumps(native)}\n")
        return cls(conf, server, forker)

    def begin(self, command: str = "run", *arguments: str) -> ForkedRun:
        """Start a command."""
        names = ("TINKER_API_KEY", "XDG_CACHE_HOME", "HOME")
        environment = {"TINKER_BASE_URL": self.server.url, **{name: os.environ[name] for name in names}}
        home = self.conf.parent
        given = [command, "--conf", str(self.conf), "--set", "experiment_dir=run", *arguments]
        return self.forker.begin(given, cwd=home, said=home / "said.txt", environment=environment)

    def end(self, command: ForkedRun) -> None:
        """Wait for a command, which is to end well."""
        assert command.wait(LONGEST_S) == 0, (self.conf.parent / "said.txt").read_text()[-3000:]

    def run(self, *arguments: str) -> None:
        """Run or resume it to its end."""
        self.end(self.begin("run", *arguments))

    def read_metrics(self, kind: str = "train") -> list[dict[str, Any]]:
        """Return the metrics of each step."""
        rows = map(json.loads, self.directory.metrics.read_text(encoding="utf-8").splitlines())
        return [row for row in rows if row["kind"] == kind]

    def read_state(self, step: int) -> dict[str, Any]:
        """Return what a checkpoint says of its state on the server."""
        found: dict[str, Any] = json.loads((self.directory.checkpoint(step) / STATE).read_text())
        return found


def test_a_run_trains(server: HatcheryServer, forker: Forker, tiny_model: Path, tmp_path: Path) -> None:
    common = {"total_training_steps": 14, "save_freq": 7, "val_before_train": True, "val_pass_n": 1}
    common |= {"logger": ["jsonl"], "optim": {"lr": 3e-2}, "test_freq": -1}
    data = {
        "task_reader": {
            "dataset_file": {"training": {"file_path": "project.jsonl"}, "validation": {"file_path": "project.jsonl"}}
        }
    }
    project = Project.write(tmp_path / "a", tiny_model, server, forker, trainer_common=common, rollout={"num_repeat": 8}, **data)
    project.run()
    rows = project.read_metrics()
    assert [row["step"] for row in rows] == list(range(1, 15))
    for row in rows:
        kinds = {name.split("/")[0] for name in row}
        assert {"signal", "loss", "mismatch", "reward"} <= kinds
        assert row["mismatch/abs_max"] < 1e-2
        assert row["tinker/tokens_sample"] >= row["tokens/generated"] > 0
        assert row["tinker/tokens_train"] > 0
        assert row["tinker/tokens_prefill"] > 0
    rewards = [row["reward/mean"] for row in rows]
    assert sum(rewards[-3:]) / 3 > rewards[0] + 0.1
    assert project.directory.list_saved_steps() == [7, 14]
    states = [project.read_state(step) for step in (7, 14)]
    assert {state["server"] for state in states} == {server.url}
    assert len({state["path"] for state in states}) == 2
    assert project.directory.run["tinker"]["within"] == "tokens"
    before, after = (row["val/reward/mean"] for row in project.read_metrics("validation"))
    assert after > before
    said = project.conf.parent / "said.txt"
    rewards = []
    for checkpoint in ("last", "base"):
        said.write_text("")
        project.end(project.begin("eval", "--checkpoint", checkpoint, "--json"))
        text = said.read_text()
        found = json.JSONDecoder().raw_decode(text[text.index("{") :])[0]
        rewards.append(found["val/reward/mean"])
    # The server keeps adapters in bfloat16, so that one of the greedy answers may be another.
    assert rewards == pytest.approx([after, before], abs=0.1)


def read_episodes(project: Project) -> list[str]:
    """Return the ids of the training episodes that are stored."""
    file = project.directory.episodes / "train.jsonl"
    lines = file.read_bytes().splitlines(keepends=True) if file.is_file() else []
    records = (json.loads(line) for line in lines if line.endswith(b"\n"))
    return [record["facts"]["id"] for record in records if record.get("kind") == "episode"]


def test_each_checkpoint_is_its_own_where_a_model_is_saved_once(forker: Forker, tiny_model: Path, tmp_path: Path) -> None:
    """As hatchery's own launcher does: every later state holds what the first one held."""
    with serve(tiny_model, tmp_path / "stock", "--stock-store") as stock:
        service = open_service(stock, tiny_model)
        assert find_facts(service).saves_once
        project = Project.write(tmp_path / "a", tiny_model, stock, forker)
        project.run()
        for step in (1, 4):
            path = project.read_state(step)["path"]
            trained = stock.read_model(path.removeprefix("tinker://").split("/")[0])
            loaded = stock.read_model(service.load_training_client(path, optimizer=True).model_id)
            for name, weights in trained["weights"].items():
                torch.testing.assert_close(loaded["weights"][name], weights, rtol=2**-8, atol=0, msg=name)


MOMENTS = (
    ("init_session", 1, "before"),
    # The first sample of an attempt, and one after each update, are of the engine itself.
    ("sample", 2, "before"),
    ("sample", 5, "after"),
    ("sample", 3, "after"),
    ("forward_logprobs", 1, "before"),
    ("optim_step", 1, "before"),
    ("optim_step", 1, "after"),
    ("sample", 5, "after"),
    ("save_weights", 1, "before"),
    ("save_weights", 1, "after"),
    ("optim_step", 3, "after"),
    ("sample", 4, "before"),
)
"""Jobs of the server before or after which a run ends: in the first step before, in and after rollout and update, in the rollout
of the second, in its save, in the third's update and the fourth's rollout. A checkpoint is due after two steps."""

UNDER_WAY = 3


def list_requests(server: HatcheryServer) -> list[tuple[int, tuple[int, ...]]]:
    """Return seed and prompt of every request for tokens of an episode."""
    samples = [job for job in server.read_jobs() if job["operation"] == "sample"]
    return [(job["seed"], tuple(job["prompt"])) for job in samples if job["prompt"] != list(PROMPT)]


def strike(project: Project, moment: tuple[str, int, str], kind: signal.Signals, *arguments: str) -> int:
    """Begin an attempt, send it a signal at a moment, and return its exit code."""
    server = project.server
    until(lambda: all(job["ended"] for job in server.read_jobs()), LONGEST_S)
    server.hold(*moment)
    process = project.begin("run", *arguments)
    until(lambda: server.is_held() or process.poll() is not None, LONGEST_S)
    assert process.poll() is None, (project.conf.parent / "said.txt").read_text()[-3000:]
    process.strike(kind)
    if kind is signal.SIGKILL:
        process.wait(LONGEST_S)
    server.release()
    return process.wait(LONGEST_S)


def test_no_episode_of_a_killed_run_is_paid_twice(
    server: HatcheryServer, forker: Forker, tiny_model: Path, tmp_path: Path
) -> None:
    """But for those whose answers were under way: of an episode of one call nothing else can be asked for again."""
    find_facts(open_service(server, tiny_model))  # the measurement, which is kept
    common = {"save_freq": 2}
    # An episode holds its place until it is stored.
    places = {"max_env_worker": UNDER_WAY}
    project = Project.write(tmp_path / "a", tiny_model, server, forker, trainer_common=common, rollout=places)
    begun, lost = len(list_requests(server)), []
    for number, moment in enumerate(MOMENTS):
        before, stored = len(list_requests(server)), len(read_episodes(project))
        assert strike(project, moment, signal.SIGKILL, *(["--resume"] if number else [])) == -signal.SIGKILL
        lost.append(len(list_requests(server)) - before - (len(read_episodes(project)) - stored))
    project.run("--resume")
    asked = Counter(list_requests(server)[begun:])
    assert max(lost) <= UNDER_WAY
    assert [count for count, (operation, *_) in zip(lost, MOMENTS, strict=True) if operation != "sample"] == [0] * 7
    assert sum(lost) > 0
    assert len(asked) == 32
    assert asked.total() == 32 + sum(lost)
    assert len(read_episodes(project)) == len(set(read_episodes(project))) == 32
    assert {row["step"] for row in project.read_metrics()} == {1, 2, 3, 4}
    assert project.directory.list_saved_steps() == [2, 4]


def test_a_stop_in_an_update_leaves_a_checkpoint_that_goes_on_elsewhere(
    server: HatcheryServer, forker: Forker, tiny_model: Path, tmp_path: Path
) -> None:
    find_facts(open_service(server, tiny_model))  # the measurement, which has steps of its own, is kept
    project = Project.write(tmp_path / "a", tiny_model, server, forker, trainer_common={"save_freq": 100})
    strike(project, ("optim_step", 2, "before"), signal.SIGINT)
    assert project.directory.list_saved_steps() == [2]
    model = project.read_state(2)["path"].removeprefix("tinker://").split("/")[0]
    left = server.read_model(model)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    shutil.rmtree(tmp_path / "a")
    moved = Project(tmp_path / "b" / project.conf.name, server, forker)
    seen = len(server.read_jobs())
    server.hold("optim_step", 1, "before")
    process = moved.begin("run", "--resume")
    until(lambda: server.is_held() or process.poll() is not None, LONGEST_S)
    loaded = next(job["model"] for job in server.read_jobs()[seen:] if job["operation"] == "load_weights")
    found = server.read_model(loaded)
    server.release()
    moved.end(process)
    # The server keeps adapters in bfloat16, and moments whole.
    for name, weights in left["weights"].items():
        torch.testing.assert_close(found["weights"][name], weights, rtol=2**-8, atol=0)
        torch.testing.assert_close(found["exp_avg"][name], left["exp_avg"][name], rtol=0, atol=0)
    assert [row["step"] for row in moved.read_metrics()] == [1, 2, 3, 4]
    assert sum(job["operation"] == "optim_step" for job in server.read_jobs()[seen:]) == 2
