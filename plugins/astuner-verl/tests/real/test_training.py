"""Whole runs: learning, several samples and failing episodes, going on, several workers."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from listeners import find_reachable
from quickstart_project import START_S

from .conftest import succeeded

FAILING = '''
import random
from agent import CalculatorAgent


class Failing(CalculatorAgent):
    """Breaks off in 15 of 100 episodes, the same ones every time."""

    async def execute(self, workflow_task, tuner):
        output = await super().execute(workflow_task, tuner)
        if random.Random(workflow_task.episode_id).random() < 0.15:
            raise RuntimeError("broke off")
        # A second conversation, which continues nothing: another sample of the same episode.
        client = tuner.as_raw_openai_sdk_client()
        await client.chat.completions.create(model="any", messages=[{"role": "user", "content": "And now?"}], max_tokens=4)
        return output
'''

LOSS = """
from marks import MARK


class WholeSamples:
    def compute(self, tokens):
        ratio = tokens.average(tokens.log_ratio()).exp()
        # A constant changes no gradient; samples are numbered one after the other, and there is one.
        return MARK * (int(tokens.samples.max()) >= 0) - tokens.advantages * ratio.clamp(0.8, 1.2)
"""


def test_the_quickstart_learns_its_task_on_this_machine_alone(project: Any) -> None:
    listeners = project.finish(project.begin("run", "--conf", "tune.yaml", "--backbone", "verl"))
    assert any("WorkerDict" in what for what in listeners.values())
    assert find_reachable(listeners) == {}
    before, after = project.validations
    assert before <= 0.3
    assert after >= 0.7


def test_two_workers_with_failing_episodes_of_several_samples_go_on_where_they_were(project: Any) -> None:
    (project.home / "failing.py").write_text(FAILING)
    settings = {
        "rollout__user_workflow": "./failing.py:Failing",
        "rollout__max_retries": 0,
        "trainer_common__n_gpus_per_node": 2,
        "trainer_common__mini_batch_num": 2,
        "trainer_common__save_freq": 1,
        "trainer_common__algorithm__use_kl_in_reward": "true",
        "data__train_batch_size": 6,
    }
    succeeded(project.train(steps=2, **settings))
    first = project.metrics
    lost = sum(row["signal/episodes"] - row["signal/episodes_rewarded"] for row in first)
    assert 0 < lost < 24
    assert all(row["signal/rows"] > row["signal/episodes_rewarded"] for row in first)
    # A mini-batch without an advantage makes no update.
    assert sum(row["signal/updates"] for row in first) >= 2
    assert all(row["mismatch/abs_max"] < 1e-3 for row in first if row["signal/updates"])
    succeeded(project.train("--resume", steps=3, **settings))
    assert [row["step"] for row in project.metrics] == [1, 2, 3]
    assert project.metrics[:2] == first
    assert (project.run / "checkpoints" / "step_3" / "model.safetensors").is_file()


def test_a_loss_of_a_file_trains_in_workers_with_corrections_and_an_entropy_that_follows_a_target(project: Any) -> None:
    (project.home / "losses").mkdir()
    (project.home / "losses" / "of-mine.py").write_text(LOSS)
    (project.home / "marks.py").write_text("MARK = 1000.0\n")
    settings = {
        "trainer_common__algorithm__policy_loss": "./losses/of-mine.py:WholeSamples",
        "trainer_common__algorithm__rollout_is": "sequence",
        "trainer_common__algorithm__rollout_is_threshold": 2.0,
        "trainer_common__algorithm__rollout_rs": "seq_mean_k3",
        "trainer_common__algorithm__entropy_ctrl__target": 100.0,
        "trainer_common__algorithm__entropy_ctrl__coeff": 0.01,
        "trainer_common__n_gpus_per_node": 2,
        "trainer_common__mini_batch_num": 2,
        "data__train_batch_size": 6,
    }
    succeeded(project.train(steps=2, **settings))
    rows = project.metrics
    assert [row["entropy/coeff"] for row in rows] == [0.01, 0.015]
    assert sum(row["signal/updates"] for row in rows) >= 2
    for row in rows:
        if row["signal/updates"]:
            assert row["loss/policy"] > 100
            assert row["correction/weight_mean"] == pytest.approx(1, abs=0.01)
            assert row["correction/rejected_mean"] == 0
            assert row["entropy/mean"] > 0


def test_a_teacher_scores_what_is_sampled_on_both_workers(project: Any) -> None:
    settings = {"adv_estimator": "opd", "opd__teacher": "./model"}
    given = {f"trainer_common__algorithm__{name}": value for name, value in settings.items()}
    given |= {"trainer_common__use_kl_loss": "false", "trainer_common__n_gpus_per_node": 2}
    succeeded(project.train(steps=1, **given))
    # Its own teacher asks for nothing, but for rounding; one that is surer of each token asks for much.
    assert abs(project.metrics[0]["loss/policy"]) < 1e-5
    assert "verl/timing_s/score" in project.metrics[0]
    sharpen_answers(project.home / "model", project.home / "teacher")
    shutil.rmtree(project.run)
    given["trainer_common__algorithm__opd__teacher"] = "./teacher"
    succeeded(project.train(steps=1, **given))
    assert abs(project.metrics[0]["loss/policy"]) > 1e-2


def sharpen_answers(model: Path, teacher: Path) -> None:
    """Copy the model with logits that are twice as large."""
    from safetensors.torch import load_file, save_file

    shutil.copytree(model, teacher)
    weights = load_file(teacher / "model.safetensors")
    weights["model.norm.weight"] *= 2
    save_file(weights, teacher / "model.safetensors", {"format": "pt"})


@pytest.mark.slow
def test_adapters_are_trained_saved_evaluated_and_exported(project: Any) -> None:
    from safetensors.numpy import load_file

    succeeded(project.train(steps=2, model__lora_rank=4, trainer_common__optim__lr=5e-3, data__train_batch_size=8))
    rows = project.metrics
    # What serves is what is trained: otherwise the second step would differ from its sampler.
    assert [row["mismatch/abs_max"] < 1e-4 for row in rows] == [True, True]
    checkpoint = project.run / "checkpoints" / "step_2"
    # Only the adapters travel.
    size = sum(value.nbytes for value in load_file(checkpoint / "adapter_model.safetensors").values())
    assert [row["verl/weights_bytes"] for row in rows] == [size, size]
    succeeded(project.cli("export", project.run, "--merge-lora", "--out", project.home / "merged"))
    check = (
        "import sys, torch; from transformers import AutoModelForCausalLM as M; from peft import PeftModel as P;"
        "load = lambda path: M.from_pretrained(path, dtype=torch.float32);"
        "merged, base = load('merged'), load('model'); adapted = P.from_pretrained(load('model'), sys.argv[1]);"
        "ids = torch.tensor([[5, 6, 7, 8]]); a, b, c = (m(ids).logits for m in (merged, adapted, base));"
        "print(torch.allclose(a, b, atol=1e-5), torch.allclose(a, c, atol=1e-5))"
    )
    said = subprocess.run(
        [sys.executable, "-c", check, str(checkpoint)], cwd=project.home, capture_output=True, text=True, check=True
    )
    assert said.stdout.split() == ["True", "False"]
    command = ("eval", "--conf", "tune.yaml", "--backbone", "verl", "--checkpoint", checkpoint)
    # The YAML says nothing of adapters: the checkpoint does.
    succeeded(project.cli(*command, timeout=START_S))
    logs = (project.run.with_name("calculator.eval") / "logs" / "ray").glob("worker-*")
    assert any("Loading pre-trained LoRA adapter" in log.read_text(errors="replace") for log in logs)


def test_one_step_off_plays_the_next_step_while_it_trains(project: Any) -> None:
    with (project.home / "tune.yaml").open("a") as file:
        file.write("\nverl: {trainer: {v1: {trainer_mode: separate_async}}}\n")
    # So many tasks that rewards differ in some group of every step.
    settings = {
        "trainer_common__save_freq": 2,
        "trainer_common__algorithm__rollout_is_threshold": 2.0,
        "data__train_batch_size": 8,
    }
    succeeded(project.train(steps=4, **settings))
    rows = project.metrics
    # The first step was played with the first weights; every other while the one before was trained.
    assert [row["staleness/max"] for row in rows] == [0, 1, 1, 1]
    assert rows[0]["mismatch/abs_max"] < 1e-3
    succeeded(project.train("--resume", steps=5, **settings))
    assert [row["step"] for row in project.metrics] == [1, 2, 3, 4, 5]


@pytest.mark.slow
def test_greedy_validation_is_the_same_as_with_local(project: Any) -> None:
    """The same weights give the same greedy answers, whichever backbone plays them."""
    found = []
    for backbone in ("local", "verl"):
        succeeded(project.cli("eval", "--conf", "tune.yaml", "--backbone", backbone, timeout=START_S))
        found.append(project.validations)
    assert found[0] == found[1]
