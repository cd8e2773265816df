"""Runs over the double: the contract of backbones, resumes, spending, several models, export."""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tinker_double import Behaviour, ServiceDouble
from tinker_double.service import RestClientDouble
from tinker_double.training import TrainingClientDouble

from astuner.cli import exit_code_of
from astuner.contract.errors import ConfigError, RunFailed
from astuner.contract.schema import StepReport
from astuner.runs.store.directory import RunDirectory
from astuner.settings.config.adapters import read_adapters
from astuner_devkit.contracts.backbone import BackboneContract
from astuner_devkit.contracts.rehearsal import rehearse
from astuner_devkit.project import write_project
from astuner_tinker.backbone import TinkerBackbone
from astuner_tinker.checkpoints import STATE

Serve = Callable[..., ServiceDouble]


def write(directory: Path, path: Path, name: str = "project", **sections: Any) -> Path:
    """Write a run of four steps with validation."""
    settings: dict[str, Any] = {
        "model": {"path": str(path)},
        "task_reader": {"dataset_file": {"validation": {"file_path": f"{name}.jsonl"}}},
        "data": {"train_batch_size": 2, "max_prompt_length": 256, "max_response_length": 32},
        "rollout": {"num_repeat": 4, "max_model_len": 300, "max_response_length_in_one_turn": 6},
        "trainer_common": {"total_training_steps": 4, "logger": ["jsonl"], "val_pass_n": 1, "save_freq": 1},
    }
    native = sections.pop("tinker", {})
    for section, values in sections.items():
        settings[section] = {**settings.get(section, {}), **values}
    judge = directory / "parity.py"
    directory.mkdir(parents=True, exist_ok=True)
    judge.write_text(
        "class Parity:\n"
        "    def compute_reward(self, task, output):\n"
        "        return float(len(output.metadata['final_answer']) % 2)\n"
    )
    conf = write_project(
        directory,
        "./parity.py:Parity",
        backbone="tinker",
        tasks=[{"task_id": f"task-{number}", "main_query": f"{number} + 1?", "answer": "4"} for number in range(4)],
        settings=settings,
        name=name,
    )
    conf.write_text(f"{conf.read_text()}\ntinker: {json.dumps({'rank': 4, **native})}\n")
    return conf


class TestTinkerBackbone(BackboneContract):
    component = TinkerBackbone

    @pytest.fixture(autouse=True)
    def _prepare(self, serve: Serve, tiny_model: Path) -> None:
        serve()
        self.model = tiny_model

    def conf(self, directory: Path) -> Path:
        return write(directory, self.model)


def play(conf: Path, *, resume: bool = False, stop_after: int | None = None) -> list[dict[str, float]]:
    found = []
    with rehearse(conf, resume=resume) as rehearsal:
        for event in rehearsal.train():
            if isinstance(event, StepReport):
                found.append(dict(event.metrics))
                if len(found) == stop_after:
                    rehearsal.control.request_stop()
    return found


def read_checkpoint(conf: Path, step: int) -> Path:
    return RunDirectory(conf.parent / "contract_run").checkpoint(step)


def of_training(metrics: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in metrics.items() if not name.startswith(("time/", "tokens/per_s"))}


@pytest.mark.parametrize("loss", ["auto", "computed"])
def test_a_run_that_was_stopped_goes_on_to_the_same_bits(tmp_path: Path, tiny_model: Path, serve: Serve, loss: str) -> None:
    serve(root=tmp_path / "whole")
    whole = play(write(tmp_path / "a", tiny_model, tinker={"loss": loss}))
    serve(root=tmp_path / "parts")
    conf = write(tmp_path / "b", tiny_model, tinker={"loss": loss})
    first = play(conf, stop_after=2)
    # Another process, or another machine: nothing of the first one is left but the run directory and the server's.
    serve(root=tmp_path / "parts")
    parts = [*first, *play(conf, resume=True)]
    assert [of_training(one) for one in parts] == [of_training(one) for one in whole]
    assert len(whole) == 4
    assert any(one["signal/rows_trained"] for one in whole)


def test_a_rate_of_0_trains_nothing_where_a_server_refuses_it(tmp_path: Path, tiny_model: Path, serve: Serve) -> None:
    serve(Behaviour.hatchery())
    (metrics,) = play(write(tmp_path, tiny_model, trainer_common={"optim": {"lr": 0.0}}), stop_after=1)
    assert (metrics["lr"], metrics["signal/rows_trained"] > 0) == (0.0, True)


def test_what_was_measured_and_spent_is_in_the_run(tmp_path: Path, tiny_model: Path, serve: Serve) -> None:
    double = serve(Behaviour.hatchery())
    metrics = play(conf := write(tmp_path, tiny_model, tinker={"prices": {"prefill": 1.0, "sample": 2.0, "train": 3.0}}))
    directory = RunDirectory(conf.parent / "contract_run")
    state, measured = directory.state, directory.run["tinker"]
    assert (measured["within"], measured["greedy_at_one"], measured["server"]) == ("tokens", True, "double")
    spent = state["tinker_tokens"]
    assert spent["sample"] <= double.counts["sampled_tokens"]
    cost = (spent["prefill"] + 2 * spent["sample"] + 3 * spent["train"]) / 1e6
    assert metrics[-1]["tinker/cost"] == pytest.approx(cost, rel=0.2)
    for kind in ("prefill", "sample", "train"):
        assert 0 < sum(one[f"tinker/tokens_{kind}"] for one in metrics) <= spent[kind]


def test_a_limit_ends_the_run_after_a_whole_step(tmp_path: Path, tiny_model: Path, serve: Serve) -> None:
    serve()
    prices = {"prefill": 100.0, "sample": 100.0, "train": 100.0}
    conf = write(tmp_path, tiny_model, tinker={"prices": prices, "max_spend": 0.1}, trainer_common={"val_before_train": False})
    with pytest.raises(RunFailed, match=r"are spent, of tinker.max_spend: 0.1. The last whole step is saved") as raised:
        play(conf)
    assert raised.value.resumable
    saved = RunDirectory(conf.parent / "contract_run").list_saved_steps()
    assert saved[-1:] != [4]
    # What the first attempt spent counts in the next.
    with pytest.raises(RunFailed, match="are spent"):
        play(conf, resume=True)
    assert RunDirectory(conf.parent / "contract_run").list_saved_steps() == saved


def test_a_run_that_reached_its_limit_goes_on_with_a_higher_one(
    tmp_path: Path, tiny_model: Path, serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    serve()
    prices = {"prefill": 100.0, "sample": 100.0, "train": 100.0}
    conf = write(tmp_path, tiny_model, tinker={"prices": prices, "max_spend": 0.1}, trainer_common={"val_before_train": False})
    assert exit_code_of(["run", "--conf", str(conf)]) == 1
    assert "are spent, of tinker.max_spend: 0.1" in capsys.readouterr().err
    conf.write_text(conf.read_text().replace('"max_spend": 0.1', '"max_spend": 100.0'))
    assert exit_code_of(["run", "--conf", str(conf), "--resume"]) == 0, capsys.readouterr().err


def test_a_limit_needs_prices(tmp_path: Path, tiny_model: Path, serve: Serve) -> None:
    serve()
    with pytest.raises(ConfigError, match=r"no prices are known of .*: set tinker.prices"):
        play(write(tmp_path, tiny_model, tinker={"max_spend": 1.0}))


@pytest.mark.parametrize("behaviour", [Behaviour(), Behaviour.hatchery()], ids=["frozen", "live"])
def test_each_target_has_adapters_of_its_own(tmp_path: Path, tiny_model: Path, serve: Serve, behaviour: Behaviour) -> None:
    serve(behaviour)
    (tmp_path / "pair.py").write_text(
        "from astuner import Workflow\nfrom astuner.contract.schema import WorkflowOutput\n"
        "class Pair(Workflow):\n"
        "    async def execute(self, workflow_task, tuner):\n"
        "        said = ''\n"
        "        for tag in ('speaker', 'listener', 'other'):\n"
        "            api = tuner.as_oai_baseurl_apikey(tag)\n"
        "            client = tuner.as_raw_openai_sdk_client(tag)\n"
        "            messages = workflow_task.task.messages\n"
        "            answer = await client.chat.completions.create(model=api.model, messages=messages)\n"
        "            said += answer.choices[0].message.content or ''\n"
        "        return WorkflowOutput(metadata={'final_answer': said})\n"
    )
    model = {"lora_rank": 4, "adapters": {"speaker": {"lora_rank": 2}, "listener": {}}}
    conf = write(tmp_path, tiny_model, model=model, rollout={"user_workflow": "./pair.py:Pair"})
    metrics = play(conf, stop_after=2)
    assert metrics[1]["adapter/speaker/signal/rows"] == metrics[1]["adapter/listener/signal/rows"] == 8
    assert metrics[1]["signal/rows"] == 16
    states = {tag: json.loads((read_checkpoint(conf, 2) / tag / STATE).read_text())["path"] for tag in ("speaker", "listener")}
    assert len(set(states.values())) == 2
    # One of them is exported by its name.
    described = {tag: read_adapters(read_checkpoint(conf, 2) / tag) for tag in states}
    assert {tag: one.lora_rank for tag, one in described.items() if one} == {"speaker": 2, "listener": 4}
    assert len(play(conf, resume=True)) == 2


def test_states_of_checkpoints_that_are_gone_are_deleted(tmp_path: Path, tiny_model: Path, serve: Serve) -> None:
    double = serve()
    conf = write(tmp_path, tiny_model, trainer_common={"max_checkpoints_to_keep": 1, "keep_best": False})
    with rehearse(conf) as rehearsal:
        for event in rehearsal.train():
            if isinstance(event, StepReport) and event.step > 1:
                # What core does after each checkpoint.
                for step in rehearsal.directory.list_saved_steps()[:-1]:
                    shutil.rmtree(rehearsal.directory.checkpoint(step))
        state = rehearsal.directory.state
    assert "1" not in state["tinker_saved"]
    left = [path for path in double.store.root.rglob("weights/*") if path.is_dir() and path.name.startswith("astuner-")]
    assert len(left) == len(state["tinker_saved"])


def offer_files(monkeypatch: pytest.MonkeyPatch, double: ServiceDouble, directory: Path) -> None:
    """Have the double offer what newer SDKs download: an address for each file, in place of an archive."""

    def list_files(client: Any, path: str) -> Any:
        with tarfile.open(client._archive(path).url.removeprefix("file://")) as archive:
            archive.extractall(directory / "files", filter="data")
        files = [place for place in (directory / "files").rglob("*") if place.is_file()]
        return double.submit(lambda: SimpleNamespace(urls={f"model/{place.name}": place.as_uri() for place in files}))

    save = TrainingClientDouble.save_weights_for_sampler
    monkeypatch.setattr(TrainingClientDouble, "save_weights_external", save, raising=False)
    monkeypatch.setattr(RestClientDouble, "get_external_weights_urls", list_files, raising=False)


@pytest.mark.parametrize("when", ["download", "export", "export of files"])
def test_exported_adapters_are_whole(
    tmp_path: Path, tiny_model: Path, serve: Serve, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The archive's configuration names no modules, as SkyRL's: PEFT would load adapters of `q` and `v` alone."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    double = serve(Behaviour())
    if when == "export of files":
        offer_files(monkeypatch, double, tmp_path)
    conf = write(tmp_path, tiny_model, tinker={"download": when == "download"}, trainer_common={"optim": {"lr": 0.01}})
    play(conf)
    checkpoint = read_checkpoint(conf, 4)
    assert (checkpoint / "adapter_model.safetensors").is_file() == (when == "download")
    described = read_adapters(checkpoint)  # what `astuner export` takes it for
    assert described is not None
    assert described.base == str(tiny_model)
    with monkeypatch.context() as elsewhere:
        elsewhere.delenv("TINKER_BASE_URL")  # the checkpoint says where its server is
        TinkerBackbone().export(checkpoint, tmp_path / "merged", merge_lora=True)
    state = json.loads((checkpoint / STATE).read_text())
    client = double.create_training_client_from_state(state["path"])
    ids = torch.arange(3, 40)[None]
    exported = AutoModelForCausalLM.from_pretrained(tmp_path / "merged", dtype=torch.float32)
    with torch.no_grad():
        found, expected = exported(ids).logits, client.model.merge()(ids).logits
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    base = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32)
    assert (base(ids).logits - expected).abs().max() > 1e-2
    own, kept = (AutoTokenizer.from_pretrained(folder) for folder in (tiny_model, tmp_path / "merged"))
    assert (kept.get_vocab(), kept.chat_template) == (own.get_vocab(), own.chat_template)
    # A run with that model, as the next stage is, begins with the state on the server, and measures divergences from it.
    common = {"use_kl_loss": True, "optim": {"lr": 0.0}}
    following = write(tmp_path / "next", tmp_path / "merged", trainer_common=common, tinker={"rank": 16})
    assert all(one["mismatch/abs_max"] < 1e-3 for one in play(following))
    begun = json.loads((read_checkpoint(following, 4) / STATE).read_text())
    assert (begun["base_model"], begun["rank"]) == (str(tiny_model), 4)  # whatever the YAML says of new adapters
    again = double.create_training_client_from_state(begun["path"])
    torch.testing.assert_close(again.model.merge()(ids).logits, expected, rtol=1e-5, atol=1e-5)
    # Its adapters are those of the base of the first run, and not added to the merged model a second time.
    TinkerBackbone().export(read_checkpoint(following, 4), tmp_path / "next_merged", merge_lora=True)
    exported = AutoModelForCausalLM.from_pretrained(tmp_path / "next_merged", dtype=torch.float32)
    torch.testing.assert_close(exported(ids).logits, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("sections", "says"),
    [
        ({"model": {"lora_rank": 0}}, "0 trains all weights, and the Tinker API trains LoRA adapters only"),
        ({"model": {"lora_rank": 4, "lora_alpha": 8.0}}, "lora_alpha"),
        ({"model": {"lora_rank": 4, "lora_alpha": 16.0}}, "the server decides it: 32 by the hosted service"),
        ({"model": {"target_modules": ["q_proj"]}}, "train_attn, train_mlp and train_unembed choose the layers"),
        ({"model": {"opponents": {"rival": {"checkpoint": 1}}}}, "sampled from the newest weights alone"),
        ({"rollout": {"temperature": 0.7}}, "trains the distribution of temperature 1"),
        ({"rollout": {"top_p": 0.9}}, "trains the distribution of temperature 1"),
        ({"trainer_common": {"algorithm": {"entropy_ctrl": {"coeff": 0.01}}}}, "gives no entropy"),
        ({"rollout": {"max_model_len": 1000}}, "contexts of 512 tokens"),
        ({"model": {"adapters": {"one": {"lora_rank": 4, "lora_alpha": 4.0}}}}, "the server decides it, for all of its adapters"),
        ({"tinker": {"train_attn": False, "train_mlp": False}}, "nothing would be trained"),
        ({"tinker": {"loss": "dro"}}, "importance_sampling"),
    ],
)
def test_what_no_server_can_do_is_refused(
    tmp_path: Path, tiny_model: Path, serve: Serve, sections: dict[str, Any], says: str
) -> None:
    double = serve()
    with pytest.raises(ConfigError, match=says):
        play(write(tmp_path, tiny_model, **sections))
    assert not double.counts["sample_requests"]


def test_what_was_measured_and_what_a_step_costs_is_shown_before_a_run(
    tmp_path: Path, tiny_model: Path, serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    """In `astuner run --dry-run`, in `doctor` and in `config explain`: none of them asks the server."""
    double = serve(Behaviour.hatchery())
    conf = write(tmp_path, tiny_model, tinker={"prices": {"prefill": 1.0, "sample": 2.0, "train": 3.0}})
    play(conf, stop_after=1)
    asked = double.counts.total()
    # A step of 2 tasks with 4 episodes in contexts of 300 tokens.
    bound = (
        f"a training step costs at most ${8 * 300 * (2 + 3) / 1e6:.2f} where an episode is one call, by prices in tinker.prices"
    )
    for command in (["run", "--dry-run"], ["doctor"]):
        exit_code_of([*command, "--conf", str(conf)])
        said = " ".join(capsys.readouterr().out.split())
        assert "takes the mean over tokens" in said
        assert bound in said
    assert double.counts.total() == asked
