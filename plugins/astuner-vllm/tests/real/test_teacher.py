"""A real server scores what others sampled: the teacher of `opd`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from astuner.contract.errors import ConfigError
from astuner.contract.schema import Sample
from astuner.settings.config.model import Config, Model
from astuner.settings.config.rollout import Rollout
from astuner_algorithms.streams import Opd
from astuner_devkit.run_infos import run_info

from .conftest import CONTEXT


def open_teacher(server: Any, home: Any, model: Any, monkeypatch: pytest.MonkeyPatch, **options: Any) -> Any:
    monkeypatch.setenv("TEACHERS_KEY", server.headers["authorization"].removeprefix("Bearer "))
    rollout = {"temperature": 1.0, "max_model_len": CONTEXT - 1, **options}
    run = run_info(home, backbone="local", config=Config(model=Model(path=str(model)), rollout=Rollout(**rollout)))
    return Opd.from_run(Opd.Options(teacher=f"{server.url}/v1", api_key_env="TEACHERS_KEY"), run).server


def make_samples(vocabulary: int) -> list[Sample]:
    """Return samples of several lengths, of which about half of the tokens are trained."""
    random, found = np.random.default_rng(0), []
    for number, size in enumerate((2, 17, 300, 3000)):
        mask = random.random(size) < 0.5
        mask[0], mask[1] = False, True
        ids, logprobs = random.integers(0, vocabulary, size), np.zeros(size)
        whose: dict[str, Any] = {"episode_id": str(number), "task_id": "t", "repeat": 0, "agent": "agent", "calls": (0,)}
        found.append(Sample(ids=ids.astype(np.int32), mask=mask, logprobs=logprobs.astype(np.float32), **whose))
    return [*found, *found]


def test_its_scores_are_those_of_transformers(tied_server, models, tmp_path, monkeypatch):
    teacher = open_teacher(tied_server, tmp_path, models.path("tied-1"), monkeypatch)
    samples = make_samples(teacher_vocabulary(models))
    for sample, found in zip(samples, teacher.score(samples), strict=True):
        logp = models.logits("tied-0", sample.ids[:1].tolist(), sample.ids[1:].tolist()).log_softmax(-1)
        expected = logp.gather(1, torch.tensor(sample.ids[1:, None], dtype=torch.int64))[:, 0].numpy()
        assert found == pytest.approx(expected[sample.mask[1:]], abs=1e-4)


def teacher_vocabulary(models) -> int:
    from transformers import AutoConfig

    return int(AutoConfig.from_pretrained(models.path("tied-0")).vocab_size)


def test_a_model_of_another_family_is_refused(tied_server, quickstart, tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match="has another tokenizer than"):
        open_teacher(tied_server, tmp_path, quickstart / "model", monkeypatch)


def test_one_with_less_room_than_an_episode_is_refused(tied_server, models, tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match=f"has room for {CONTEXT} tokens.*--max-model-len {CONTEXT + 1}"):
        open_teacher(tied_server, tmp_path, models.path("tied-1"), monkeypatch, max_model_len=CONTEXT)
