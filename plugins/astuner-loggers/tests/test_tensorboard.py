from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator as PluginEventAccumulator
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
from tensorboard.plugins.hparams import metadata as hparams
from tensorboard.plugins.hparams.api_pb2 import STATUS_SUCCESS
from tensorboard.util import tensor_util

from astuner.contract.schema import Call, Episode, Group, Split, Task, Unjudged, Verdict, WorkflowOutput
from astuner.settings.config.model import Config
from astuner.shared.install_hints import install_command
from astuner_devkit.run_infos import run_info
from astuner_devkit.waiting import until
from astuner_loggers.tensorboard import TensorboardLogger

ALWAYS = {"configuration", "_hparams_/session_start_info", "_hparams_/session_end_info"}
"""Tags that every run has."""


def make_logger(directory: Path, /, **options: Any) -> TensorboardLogger:
    return TensorboardLogger.from_run(TensorboardLogger.Options(**options), run_info(directory, directory=directory))


def read(directory: Path, accumulator: Any = EventAccumulator) -> dict[str, list[tuple[int, Any]]]:
    events = accumulator(str(directory)).Reload()
    return {
        tag: [(event.step, tensor_util.make_ndarray(event.tensor_proto)) for event in events.Tensors(tag)]
        for tag in events.Tags()["tensors"]
        if tag not in ALWAYS
    }


@contextmanager
def serve(records: Path, *options: str) -> Iterator[Callable[[str], Any]]:
    """Start `tensorboard` on a directory; yields what answers a path of its API, once it shows a run."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(records), "--port", str(port), "--host", "127.0.0.1"]
    server = subprocess.Popen([*command, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def ask(path: str) -> Any:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/data/{path}", timeout=60) as answer:
            return json.load(answer)

    def find_runs() -> bool:
        with suppress(OSError):
            return bool(ask("runs"))
        return False

    try:
        until(find_runs, limit_s=300)
        yield ask
    finally:
        server.terminate()
        server.wait()


def list_runs(records: Path) -> dict[str, set[str]]:
    """Return the runs that `tensorboard --logdir` shows, with their tags."""
    multiplexer = EventMultiplexer().AddRunsFromDirectory(str(records)).Reload()
    return {name: set(tags["tensors"]) - ALWAYS for name, tags in multiplexer.Runs().items()}


def episode(number: int, reward: float | None, said: str = "answer") -> Episode:
    reply = {"role": "assistant", "content": f"{said} *{number}*"}
    call = Call(
        index=0,
        agent="agent",
        target_tag="agent",
        parent=None,
        kept=0,
        prompt_ids=np.array([1], np.int32),
        output_ids=np.array([2], np.int32),
        logprobs=np.array([-1.0], np.float32),
        finish_reason="stop",
        messages=({"role": "user", "content": "2 + 2?"},),
        reply=reply,
    )
    return Episode(
        id=f"e{number}",
        task=Task("2 + 2?"),
        step=1,
        repeat=number,
        output=WorkflowOutput(),
        calls=(call,),
        verdict=Unjudged(reason="judge_error") if reward is None else Verdict(reward),
    )


def group(rewards: Sequence[float | None], split: Split = "train") -> Group:
    episodes = tuple(episode(number, reward) for number, reward in enumerate(rewards))
    return Group(task=Task("2 + 2?"), step=1, split=split, episodes=episodes)


def test_each_metric_is_a_scalar_of_its_step(tmp_path: Path) -> None:
    logger = make_logger(tmp_path)
    logger.log(1, {"reward/mean": 0.25, "signal/calls": 8})
    logger.log(2, {"reward/mean": 0.5})
    logger.close()
    assert read(tmp_path) == {"reward/mean": [(1, 0.25), (2, 0.5)], "signal/calls": [(1, 8.0)]}


def test_what_was_logged_can_be_read_while_the_run_goes_on(tmp_path: Path) -> None:
    logger = make_logger(tmp_path)
    logger.log(1, {"reward/mean": 0.25})
    assert read(tmp_path)["reward/mean"] == [(1, 0.25)]
    logger.close()


def test_rewards_are_a_histogram_in_which_an_unjudged_episode_is_no_zero(tmp_path: Path) -> None:
    logger = make_logger(tmp_path)
    logger.log_episodes(1, [group([1.0, 3.0, None]), group([3.0])])
    logger.close()
    ((step, buckets),) = read(tmp_path)["reward/distribution"]
    assert step == 1
    assert (buckets[0, 0], buckets[-1, 1], buckets[:, 2].sum()) == (1.0, 3.0, 3)


def test_a_few_episodes_are_text_from_the_lowest_reward_to_the_highest(tmp_path: Path) -> None:
    logger = make_logger(tmp_path, episodes=2)
    logger.log_episodes(4, [group([0.5, 1.0, 0.0])])
    logger.close()
    found = read(tmp_path)
    ((_, lowest),), ((_, highest),) = found["episode/1"], found["episode/2"]
    assert "answer *2*" in lowest.item().decode()
    assert "reward 0" in lowest.item().decode()
    assert "answer *1*" in highest.item().decode()
    assert "episode/3" not in found


def test_a_transcript_has_no_secret_and_no_half_of_a_character(tmp_path: Path) -> None:
    config = evolve(Config(), plugins=evolve(Config().plugins, options={"mine": {"api_key": "secret-of-the-agent-7"}}))
    logger = TensorboardLogger.from_run(None, run_info(tmp_path, directory=tmp_path, config=config))
    said = episode(1, 1.0, "I am secret-of-the-agent-7, and half \ud800 of one")
    logger.log_episodes(4, [Group(task=Task("2 + 2?"), step=1, split="train", episodes=(said,))])
    logger.close()
    ((_, text),) = read(tmp_path)["episode/1"]
    assert "I am <redacted>, and half \ufffd of one" in text.item().decode()


def test_episodes_of_a_validation_have_their_own_names(tmp_path: Path) -> None:
    logger = make_logger(tmp_path)
    logger.log_episodes(4, [group([0.5, 1.0], "validation")])
    logger.close()
    assert set(read(tmp_path)) == {"val/reward/distribution", "val/episode/1", "val/episode/2"}


def test_a_step_without_a_reward_writes_no_episodes(tmp_path: Path) -> None:
    logger = make_logger(tmp_path)
    logger.log_episodes(1, [group([None])])
    logger.close()
    assert list(tmp_path.iterdir()) == []


def test_each_run_has_its_own_name(tmp_path: Path) -> None:
    for name in ("first", "second"):
        logger = make_logger(tmp_path / name)
        logger.log(1, {"reward/mean": 0.25})
        logger.close()
    assert list_runs(tmp_path) == {"first": {"reward/mean"}, "second": {"reward/mean"}}


def test_a_metric_has_the_description_of_the_document(tmp_path: Path) -> None:
    logger = make_logger(tmp_path)
    logger.log(1, {"reward/mean": 0.25, "verl/actor/lr": 1.0})
    logger.log(2, {"reward/mean": 0.25})
    logger.close()
    events = PluginEventAccumulator(str(tmp_path)).Reload()
    about = {tag: events.SummaryMetadata(tag).summary_description for tag in ("reward/mean", "verl/actor/lr")}
    assert about == {
        "reward/mean": "Mean over the episodes of the step that have a reward. Unit: reward.",
        "verl/actor/lr": "",
    }


def test_the_configuration_is_a_text_and_hyperparameters_without_its_secrets(tmp_path: Path) -> None:
    config = evolve(Config(), seed=3, plugins=evolve(Config().plugins, options={"mine": {"api_key": "secret-of-the-agent-7"}}))
    logger = TensorboardLogger.from_run(None, run_info(tmp_path, directory=tmp_path, config=config))
    logger.log(1, {"reward/mean": 0.25})
    logger.astuner_run_finished(exit_code=0)
    logger.close()
    events = PluginEventAccumulator(str(tmp_path)).Reload()
    text = tensor_util.make_ndarray(events.Tensors("configuration")[0].tensor_proto).item().decode()
    assert "    seed: 3" in text
    began = hparams.parse_session_start_info_plugin_data(
        events.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    )
    assert began.group_name == "experiment"
    assert began.hparams["seed"].number_value == 3
    assert began.hparams["rollout.temperature"].number_value == config.rollout.temperature
    assert "experiment_name" not in began.hparams
    ended = hparams.parse_session_end_info_plugin_data(events.SummaryMetadata("_hparams_/session_end_info").plugin_data.content)
    assert ended.status == STATUS_SUCCESS
    assert [path for path in tmp_path.rglob("*") if b"secret-of-the-agent-7" in path.read_bytes()] == []


@pytest.mark.parametrize("exit_code", [1, 130])
def test_a_run_that_can_be_resumed_is_not_marked_as_ended(tmp_path: Path, exit_code: int) -> None:
    logger = make_logger(tmp_path)
    logger.log(1, {"reward/mean": 0.25})
    logger.astuner_run_finished(exit_code=exit_code)
    logger.close()
    events = PluginEventAccumulator(str(tmp_path)).Reload()
    assert "_hparams_/session_end_info" not in events.Tags()["tensors"]


@pytest.mark.parametrize("fast", ["true", "false"])
def test_a_resumed_run_replaces_the_steps_after_its_checkpoint(tmp_path: Path, fast: str) -> None:
    first = make_logger(tmp_path / "mine")
    for step in (1, 2, 3):
        first.log(step, {"reward/mean": 0.0})
    first.close()
    resumed = make_logger(tmp_path / "mine")
    resumed.truncate_after(1)
    resumed.log(2, {"reward/mean": 1.0})
    resumed.close()
    # The server has two readers of its own; the plain one forgets only what has the older form of scalars.
    with serve(tmp_path, f"--load_fast={fast}") as ask:

        def read_curve() -> list[tuple[int, float]]:
            return [(step, value) for _, step, value in ask("plugin/scalars/scalars?run=mine&tag=reward%2Fmean")]

        # The server reads the files while it answers.
        until(lambda: read_curve() == [(1, 0.0), (2, 1.0)], limit_s=300)
        assert ask("runs") == ["mine"]
        about = ask("plugin/timeseries/tags")["scalars"]["tagDescriptions"]["reward/mean"]
    assert "Mean over the episodes of the step that have a reward. Unit: reward." in about


def test_a_run_of_an_earlier_version_goes_on_where_its_curve_is(tmp_path: Path) -> None:
    earlier = make_logger(tmp_path / "mine", directory="tensorboard")
    earlier.log(1, {"reward/mean": 0.0})
    earlier.log(2, {"reward/mean": 0.0})
    earlier.close()
    # Files are read in the order of their names, which begin with the second; within one, file 10 is read before file 9.
    for written in (tmp_path / "mine" / "tensorboard").glob("events.out.tfevents.*"):
        written.rename(written.with_name(re.sub(r"\d+", lambda second: f"{int(second[0]) - 60}", written.name, count=1)))
    resumed = make_logger(tmp_path / "mine")
    resumed.truncate_after(1)
    resumed.log(2, {"reward/mean": 1.0})
    resumed.close()
    assert list(list_runs(tmp_path)) == ["mine/tensorboard"]
    assert read(tmp_path / "mine" / "tensorboard", PluginEventAccumulator)["reward/mean"] == [(1, 0.0), (2, 1.0)]


@pytest.mark.parametrize(("directory", "logdir"), [(".", "records"), ("charts", "records"), ("../../all charts", "'all charts'")])
def test_the_command_that_opens_the_files_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, directory: str, logdir: str
) -> None:
    monkeypatch.chdir(tmp_path)
    logger = make_logger(Path("records/mine"), directory=directory)
    assert logger.format_viewer_command() == f"tensorboard --logdir {logdir}"


def test_a_missing_tensorboard_is_answered_with_the_command_that_brings_it(tmp_path: Path) -> None:
    code = f"""
import sys
sys.modules["tensorboard"] = None  # what an import finds where the package is not installed
from pathlib import Path
from astuner.contract.errors import PluginError
from astuner_loggers.tensorboard import TensorboardLogger
from astuner_devkit.run_infos import run_info
from astuner_devkit.waiting import until
try:
    TensorboardLogger(TensorboardLogger.Options(), run_info(Path({str(tmp_path)!r})))
except PluginError as error:
    print(error)
"""
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert install_command("astuner-loggers[tensorboard]") in shown


@pytest.mark.parametrize("package", ["tensorboard", "torch", "tensorflow"])
def test_importing_the_logger_does_not_import(package: str) -> None:
    code = f"import sys, astuner_loggers.tensorboard; print({package!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
