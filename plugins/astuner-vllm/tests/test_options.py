from __future__ import annotations

from typing import Any

import pytest

from astuner.contract.errors import ConfigError
from astuner.settings.plugins.options import build_options
from astuner_vllm.options import VllmOptions


class Engine:
    Options = VllmOptions


def structured(**section: Any) -> VllmOptions:
    options: VllmOptions = build_options(Engine, section, key="astuner.rollout.vllm")
    return options


def test_one_address_may_stand_where_a_list_is_meant() -> None:
    assert structured(url="http://a:1").url == ("http://a:1",)
    assert structured(url=["http://a:1", "https://b"]).url == ("http://a:1", "https://b")


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"url": "localhost:8000"}, "astuner.rollout.vllm.url: .*http:// or https://"),
        ({"weight_sync": "drop"}, "astuner.rollout.vllm.weight_sync: .*keep"),
        ({"startup_timeout_s": 0}, "astuner.rollout.vllm.startup_timeout_s"),
        ({"max_restarts": -1}, "astuner.rollout.vllm.max_restarts"),
        ({"cpu_kv_cache_gib": 0.5}, "astuner.rollout.vllm.cpu_kv_cache_gib"),
        ({"gpu_memory_utilization": 1.5}, "astuner.rollout.vllm.gpu_memory_utilization"),
        ({"gpu_memory": 0.5}, "gpu_memory.*Did you mean 'gpu_memory_utilization'"),
    ],
    ids=str,
)
def test_values_without_meaning_are_refused_where_they_stand(section: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        structured(**section)


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("model", "set model.path"),
        ("max-model-len", "set rollout.max_model_len"),
        ("--max-num-seqs", "set rollout.max_num_seqs"),
        ("tensor_parallel_size", "set rollout.tensor_model_parallel_size"),
        ("port", "debug.debug_vllm_port"),
        ("logprobs_mode", "training needs the log-probabilities of the sampling distribution"),
    ],
)
def test_an_argument_that_is_ours_is_refused_with_the_key_to_set(name: str, instead: str) -> None:
    with pytest.raises(ConfigError, match=rf"astuner\.rollout\.vllm\.engine_args: .*{name}: .*{instead}"):
        structured(engine_args={name: 1})
