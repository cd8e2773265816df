"""`docs/hooks.md` says what the code does: it is up to date, each hook has an example, and each example works."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any, cast

import click
import numpy as np
import pytest
import yaml
from attrs import evolve
from harness import REPOSITORY

from astuner import Verdict
from astuner.contract.errors import DataError, PluginError, RunFailed
from astuner.contract.protocols import (
    Candidate,
    EstimatorTraits,
    LossTraits,
    PlayedTask,
    Sampled,
    SandboxSpec,
    TaskDraw,
    TrainedTokens,
)
from astuner.contract.schema import Failure, Notice, StepReport, Task, Unjudged, ValidationReport, WorkflowTask
from astuner_devkit import episode, group, run_info
from astuner_devkit.contracts import HooksContract, list_rules, run_contract

DOCS = REPOSITORY / "docs"
EXAMPLES = sorted((DOCS / "examples" / "hooks").glob("*.py"))


def load(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module


write_hooks = load(DOCS / "write_hooks.py")
PAGE = (DOCS / "hooks.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.partition("## All hooks")[0], re.MULTILINE | re.DOTALL)


def extension_class(file: Path) -> type[Any]:
    """The one public class of an example."""
    (cls,) = [found for name, found in vars(load(file)).items() if not name.startswith("_") and has_hooks(found)]
    return cls


def has_hooks(found: Any) -> bool:
    return isinstance(found, type) and any(name.startswith("astuner_") for name in vars(found))


def example(name: str) -> type[Any]:
    return extension_class(DOCS / "examples" / "hooks" / f"{name}.py")


def asked_for(kind: str, target: str, name: str = "chosen") -> Candidate:
    return Candidate(kind=kind, name=name, target=target)


EXACT = asked_for("judge", "astuner_devkit.judges:ExactAnswer")


def test_the_page_is_what_the_specs_and_the_examples_give():
    assert write_hooks.document() == PAGE, "run: python docs/write_hooks.py"


def test_every_hook_has_an_example():
    assert {hook.name for hook in write_hooks.hooks()} == set(write_hooks.examples())


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_an_example_keeps_the_contract_of_extensions(file: Path):
    contract = type("Example", (HooksContract,), {"component": extension_class(file)})
    found = run_contract(contract)
    assert len(found) == len(list_rules(HooksContract))
    assert [f"{outcome.rule}: {outcome.message}" for outcome in found if outcome.status != "passed"] == []


def test_first_tasks_are_read_and_no_more(hooks: Any, tmp_path: Path):
    cls = example("first_tasks")
    (tmp_path / "tasks.jsonl").write_text("".join(f'{{"main_query": "{n}"}}\n' for n in range(9)))
    info = run_info(tmp_path)
    reader = asked_for("reader", "astuner.episodes.builtin.readers.dataset_file:DatasetFileReader")
    options = options_of(reader, {"training": {"file_path": "tasks.jsonl"}})
    made = hooks(cls(cls.Options(count=4))).make_reader(reader, options, info)
    assert [task.main_query for task in made.read("train")] == ["0", "1", "2", "3"]


def options_of(candidate: Candidate, values: dict[str, Any]) -> Any:
    from astuner.settings.plugins.drivers import load
    from astuner.settings.plugins.options import build_options

    return build_options(load(candidate), values, key=candidate.kind)


def test_few_tasks_are_told(hooks: Any, capsys: pytest.CaptureFixture[str]):
    made = hooks(example("enough_tasks")())
    for split, count in (("train", 200), ("validation", 12)):
        made.tasks_read(split, count)
    assert capsys.readouterr().err.splitlines() == ["enough_tasks: validation has 12 tasks, so its mean reward says little"]


def test_rewards_are_bounded_and_failures_stay(hooks: Any, tmp_path: Path):
    module = load(DOCS / "examples" / "hooks" / "bounded_rewards.py")
    high, low, failed = Verdict(7.0, rationale="long"), Verdict(-2.0), Unjudged(reason="judge_error")
    assert [module._bound(one) for one in (high, low, failed)] == [Verdict(1.0, rationale="long"), Verdict(0.0), failed]
    judge = hooks(module.BoundedRewards()).make_judge(EXACT, None, run_info(tmp_path))
    assert asyncio.run(judge.judge(group(episode()))) == [Verdict(1.0, True)]


def test_groups_without_signal_are_kept_for_training_only(hooks: Any):
    extension = example("groups_without_signal")()
    made = hooks(extension)
    made.group_judged(group(episode(0, 1.0, task="easy"), episode(1, 1.0, task="easy")))
    made.group_judged(group(episode(0, 1.0, task="fair"), episode(1, 0.0, task="fair")))
    made.group_judged(group(episode(0, 1.0, task="seen", split="validation")))
    assert extension.tasks == {"easy"}


def test_samples_are_counted_over_all_trackers(hooks: Any, run: Any, fake_distribution: Any):
    installed(fake_distribution, "counted_samples", "CountedSamples")
    run(tasks=[{"main_query": "1", "answer": "4"}, {"main_query": "2", "answer": "4"}])
    # Made by the run from its own copy of the class: what it counted is read off the modules that are loaded.
    assert sys.modules["counted_samples"].made[0].samples == 2


def installed(fake_distribution: Any, module: str, cls: str) -> None:
    source = (DOCS / "examples" / "hooks" / f"{module}.py").read_text(encoding="utf-8")
    source += f"\n\nmade = []\n\n\ndef make():\n    made.append({cls}())\n    return made[-1]\n\n\nextension = make()\n"
    sys.modules.pop(module, None)
    fake_distribution(
        f"acme-{module}", files={f"{module}.py": source}, entry_points={"astuner.hooks": {module: f"{module}:extension"}}
    )


def test_an_engine_that_is_not_reproducible_ends_the_run(run: Any, fake_distribution: Any):
    source = "from astuner.episodes.builtin.engines.scripted_engine import ScriptedEngine\nclass Wild(ScriptedEngine):\n"
    source += "    @property\n    def capabilities(self):\n        from attrs import evolve\n"
    source += "        return evolve(super().capabilities, reproducible=False)\n"
    fake_distribution("acme-wild", files={"acme_wild.py": source}, entry_points={"astuner.engines": {"wild": "acme_wild:Wild"}})
    installed(fake_distribution, "reproducible_engines", "ReproducibleEngines")
    assert run().rewards == [1.0]
    with pytest.raises(Exception, match="Wild is not reproducible"):
        run(settings={"rollout": {"name": "wild", "wild": {"replies": ["4"]}, "scripted": {}}})


def test_one_logger_is_thinned_out_and_another_is_not(hooks: Any, tmp_path: Path):
    made = hooks(example("every_tenth_step")())
    info = run_info(tmp_path)
    for name in ("wandb", "plain"):
        directory = tmp_path / name
        directory.mkdir()
        logger = made.make_logger(
            asked_for("logger", "astuner.episodes.builtin.loggers.jsonl_logger:JsonlLogger", name),
            None,
            evolve(info, directory=directory),
        )
        for step in range(1, 21):
            logger.log(step, {"reward/mean": 0.5})
        logger.close()
    steps = {name: [json.loads(row)["step"] for row in (tmp_path / name / "metrics.jsonl").open()] for name in ("wandb", "plain")}
    assert steps == {"wandb": [10, 20], "plain": list(range(1, 21))}


def test_advantages_are_clipped(hooks: Any, tmp_path: Path):
    grpo = asked_for("estimator", "astuner.episodes.judging.estimators:Grpo")
    made = hooks(example("clipped_advantages")()).make_estimator(grpo, None, run_info(tmp_path))
    (clipped,) = made.advantages([np.array([0.0] * 99 + [1.0])])
    assert clipped.max() == 3.0
    assert made.traits == EstimatorTraits()


REINFORCE = """\
from astuner.contract.protocols import LossTraits


class Reinforce:
    traits = LossTraits(per_token=True)

    def compute(self, tokens):
        return -tokens.advantages * tokens.logp
"""


def test_tokens_that_were_certain_count_nothing(hooks: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "acme_reinforce.py").write_text(REINFORCE)
    made = hooks(example("open_decisions")()).make_loss(asked_for("loss", "acme_reinforce:Reinforce"), None, run_info(tmp_path))
    # Arrays stand in for tensors.
    logp: Any = np.array([-0.001, -1.0])
    tokens = TrainedTokens(logp=logp, old=logp, sampler=logp, advantages=logp / logp, samples=logp)
    assert cast("Any", made.compute(tokens)).tolist() == [0.0, 1.0]
    assert made.traits == LossTraits(per_token=True)


def test_tasks_that_always_fail_are_given_up(hooks: Any, tmp_path: Path):
    uniform = asked_for("sampler", "astuner.episodes.rollout.sampler:Uniform")
    made = hooks(example("given_up_tasks")()).make_sampler(uniform, None, run_info(tmp_path))
    failed = PlayedTask(task_id="a", step=1, rewards=(0.0, 0.0), successes=(False, False))
    solved = PlayedTask(task_id="b", step=1, rewards=(1.0, 0.0), successes=(True, False))
    state: Mapping[str, Any] = {}

    def choose(count: int, seed: int) -> set[str]:
        return set(made.choose(TaskDraw(step=1, count=count, tasks=("a", "b", "c"), rng=Random(seed)), state))

    for _ in range(3):
        assert {task for seed in range(20) for task in choose(2, seed)} == {"a", "b", "c"}
        state = made.observe([failed, solved], state)
    assert {task for seed in range(20) for task in choose(2, seed)} == {"b", "c"}
    assert choose(3, 1) == {"a", "b", "c"}


def test_first_messages_are_cut(hooks: Any, tmp_path: Path):
    room = asked_for("environment", "astuner_devkit.contracts.hooks:EmptyRoom")
    module = load(DOCS / "examples" / "hooks" / "shortened_messages.py")
    module.LONGEST = 3
    make = hooks(module.ShortenedMessages()).make_environment(room, None, run_info(tmp_path))
    (message,) = asyncio.run(make(WorkflowTask(Task("2 + 2?"), task_id="t", env_type="", episode_id="e")).reset())
    assert message == {"role": "user", "content": "2 +"}


OPENED = """\
from astuner.contract.protocols import Sandboxes


class Opened(Sandboxes):
    async def open(self, spec):
        return f"sandbox of {spec.episode_id}"

    async def close(self):
        pass
"""


def test_sandboxes_that_open_slowly_are_reported(
    hooks: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "opened_sandboxes.py").write_text(OPENED)
    monkeypatch.syspath_prepend(tmp_path)
    module = load(DOCS / "examples" / "hooks" / "slow_sandboxes.py")
    module.LONGEST_S = -1.0
    made = hooks(module.SlowSandboxes()).make_sandbox(asked_for("sandbox", "opened_sandboxes:Opened"), None, run_info(tmp_path))
    assert asyncio.run(made.open(SandboxSpec(episode_id="e"))) == "sandbox of e"
    assert capsys.readouterr().out.startswith("e: its sandbox took ")


def test_short_answers_are_not_looked_at(hooks: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "acme_found.py").write_text("class Found:\n    def look(self, output):\n        return output.text\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    cls = example("long_answers_only")
    detector = asked_for("detector", "acme_found:Found")
    short, long = (Sampled(call=cast("Any", None), text="é" * count) for count in (3, 9))
    options = options_of(detector, {})
    made = hooks(cls(cls.Options(at_least=9))).make_detector(detector, options, run_info(tmp_path))
    assert made.look(short) is None
    assert made.look(long) is not None


def test_services_have_ten_minutes(hooks: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "acme_served.py").write_text(
        "from astuner.shared.services import Definition, Service\ndef served(run_info):\n"
        "    return Definition(service=Service(command='serve', timeout_s=5.0))\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    made = hooks(example("patient_services")()).make_service(asked_for("service", "acme_served:served"), run_info(tmp_path))
    assert made.service.timeout_s == 600.0


def test_one_command_is_switched_off(hooks: Any):
    made = hooks(example("no_judge_command")())
    assert made.make_command(asked_for("command", "astuner.cli.run:run", "acme")).name == "run"
    with pytest.raises(click.UsageError, match="is switched off"):
        made.make_command(asked_for("command", "astuner.cli.run:run", "judge")).main(["eval"], standalone_mode=False)
    assert [row.made_by.partition(" ")[0] for row in made.provenance] == ["astuner-core", "extension"]


def test_a_full_disk_stops_the_run_before_its_backbone(hooks: Any, tmp_path: Path):
    cls = example("room_on_disk")
    info = run_info(tmp_path, directory=tmp_path)
    debug = asked_for("backbone", "astuner.episodes.builtin.debug.debug_backbone:DebugBackbone")
    assert hooks(cls(cls.Options(at_least_gb=1e-9))).make_backbone(debug, None, info).name == "debug"
    with pytest.raises(PluginError, match=r"RoomOnDisk.* raised in astuner_make_backbone: OSError: .* 1e\+09 are needed"):
        hooks(cls(cls.Options(at_least_gb=1e9))).make_backbone(debug, None, info)


def test_the_clock_names_run_judges_and_ending(hooks: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    made, info = hooks(example("run_clock")()), run_info(tmp_path, experiment_name="tuned")
    made.run_started(info, [{"kind": "judge", "name": "strict", "distribution": "acme-strict", "version": "1.0"}])
    made.run_finished(info, 130)
    began, ended = capsys.readouterr().err.splitlines()
    assert began == "run_clock: tuned begins; judges: strict (acme-strict)"
    assert ended == "run_clock: tuned ended with 130 after 0 s"


def test_failures_are_counted_by_step(hooks: Any, capsys: pytest.CaptureFixture[str]):
    made = hooks(example("failures")())
    lost = evolve(episode(0, None), output=None, verdict=None, failures=(Failure(reason="timeout"),))
    for one in (lost, episode(), lost):
        made.episode_finished(one)
    for step in (1, 2):
        made.step_finished(StepReport(step=step, metrics={}))
    assert capsys.readouterr().err.splitlines() == ["failures: step 1: 2 x timeout", "failures: step 2: none"]


def test_the_last_validation_lies_in_the_run_directory(hooks: Any, tmp_path: Path):
    made, info = hooks(example("last_validation")()), run_info(tmp_path, directory=tmp_path)
    made.run_started(info, [])
    for step in (5, 10):
        made.validation_finished(ValidationReport(step=step, metrics={"val/reward/mean": step / 10}))
    assert json.loads((tmp_path / "last_validation.json").read_text()) == {"step": 10, "val/reward/mean": 1.0}


def test_a_link_leads_to_the_newest_checkpoint(hooks: Any, tmp_path: Path):
    made = hooks(example("latest_link")())
    for step in (1, 2):
        (tmp_path / f"step_{step}").mkdir()
        made.checkpoint_saved(step, tmp_path / f"step_{step}")
    assert (tmp_path / "latest").resolve() == tmp_path / "step_2"


def test_warnings_are_told_again_at_the_end(hooks: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    made = hooks(example("warnings_kept")())
    made.notice(Notice(text="a step was slow", level="warning"))
    made.notice(Notice(text="loading the model", level="info"))
    made.run_finished(run_info(tmp_path), 0)
    assert capsys.readouterr().err.splitlines() == ["warnings_kept: a step was slow"]


ORDER = """
import threading
from astuner import hookimpl
from astuner.contract.hookspecs import SPECS

called = []
elsewhere = []


def note(name):
    called.append(name)
    if threading.current_thread() is not threading.main_thread():
        elsewhere.append(name)


def listening(name):
    return lambda self: note(name)


def wrapping(name):
    def wrap(self):
        note(name)
        return (yield)

    return wrap


class Order:
    pass


for specs in SPECS:
    for name in [name for name in vars(specs) if name.startswith("astuner_")]:
        if name.startswith("astuner_make_"):
            setattr(Order, name, hookimpl(wrapping(name), wrapper=True))
        else:
            setattr(Order, name, hookimpl(listening(name)))
"""


@pytest.fixture
def order(fake_distribution: Any) -> Callable[[], Any]:
    """Installs an extension that implements every hook; returns what gives its module, once a run has imported it."""
    fake_distribution("acme-order", files={"acme_order.py": ORDER}, entry_points={"astuner.hooks": {"order": "acme_order:Order"}})
    return lambda: sys.modules["acme_order"]


def test_the_hooks_of_a_run_are_called_in_the_order_of_the_page(run: Any, order: Callable[[], Any]):
    # Beside those that are named, each run has the logger `jsonl`, and that of the fixture.
    run(settings={"trainer_common": {"logger": []}})
    documented = next(text for text in blocks("text") if text.startswith("astuner_make_reader\n")).split()
    assert [name for name in order().called if name != "astuner_notice"] == documented


def test_only_notices_come_from_other_threads_than_the_main_one(run: Any, order: Callable[[], Any]):
    run()
    assert set(order().elsewhere) <= {"astuner_notice"}


def test_what_is_said_before_there_are_loggers_is_told_once_they_are_made(run: Any, order: Callable[[], Any]):
    run()
    called = order().called
    assert called.index("astuner_make_logger") < called.index("astuner_notice") < called.index("astuner_run_started")


def test_the_end_is_told_of_a_run_that_failed(run: Any, order: Callable[[], Any]):
    with pytest.raises(RunFailed):
        run(tasks=[{"main_query": "a task without an answer"}])
    assert order().called[-1] == "astuner_run_finished"
    assert "astuner_step_finished" not in order().called


def test_a_run_that_fails_before_its_start_has_no_end(run: Any, order: Callable[[], Any]):
    with pytest.raises(DataError):
        run(tasks=[{"main_query": 7}])
    assert order().called == ["astuner_make_reader"]


def test_the_extension_of_the_page_and_its_test_work(fake_distribution: Any, tmp_path: Path):
    extension, test = (next(text for text in blocks("python") if words in text) for words in ("class Audit:", "class TestAudit"))
    (toml,) = blocks("toml")
    (name, target) = re.findall(r'(\w+) = "(.*)"', toml)[0]
    site = fake_distribution("acme-audit", files={"acme_audit.py": extension}, entry_points={"astuner.hooks": {name: target}})
    (tmp_path / "test_audit.py").write_text(test)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path / "test_audit.py")]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=site, timeout=120, check=False)
    assert ended.returncode == 0, ended.stdout
    assert f"{len(list_rules(HooksContract)) + 1} passed" in ended.stdout


OPTIONS = """
from astuner import hookimpl
from attrs import frozen

said = []


class Audit:
    @frozen
    class Options:
        path: str

    def __init__(self, options):
        said.append(options.path)

    @hookimpl
    def astuner_run_finished(self):
        said.append("finished")
"""


def test_the_options_of_the_page_reach_one_extension_and_leave_out_another(run: Any, fake_distribution: Any):
    fake_distribution(
        "acme-audit", files={"acme_audit.py": OPTIONS}, entry_points={"astuner.hooks": {"audit": "acme_audit:Audit"}}
    )
    fake_distribution("acme-mail", files={"acme_mail.py": "1 / 0"}, entry_points={"astuner.hooks": {"mail": "acme_mail:Mail"}})
    (written,) = blocks("yaml")
    run(settings=yaml.safe_load(written)["astuner"])
    assert sys.modules["acme_audit"].said == ["audit.log", "finished"]
