"""The contract of extensions: every hook is spelt right, handles its events, and returns what it should."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from attrs import evolve, field, frozen

from astuner.contract.errors import AstunerError, PluginError, ServiceUnavailable
from astuner.contract.hookspecs import PROJECT, SPECS
from astuner.contract.protocols import Candidate, RunInfo, Sampled, Sandboxes, SandboxSession, SandboxSpec
from astuner.contract.schema import Failure, Notice, StepReport, Task, ValidationReport, WorkflowTask
from astuner.episodes.judging.composition import WeightedJudge
from astuner.episodes.judging.simple_judges import make_judge
from astuner.settings.plugins.catalog import Catalog
from astuner.settings.plugins.extension import DECIDING
from astuner.settings.plugins.hooks import Hooks
from astuner.settings.plugins.options import build_options
from astuner.shared.services import Definition
from astuner_devkit.contracts.base import Contract, self_contained
from astuner_devkit.episodes import episode, group
from astuner_devkit.judges import ExactAnswer

_TASK = WorkflowTask(Task("2 + 2?", task_id="example"), task_id="example", env_type="", episode_id="train/1/example/0")
REWARD = "reward"


@frozen(kw_only=True)
class Example:
    """A request to a deciding hook; see `deciding_hooks.toml`."""

    target: str
    options: Mapping[str, Any] = field(factory=dict)
    methods: Sequence[str]
    factory: bool = False


@cache
def read_examples() -> Mapping[str, Example]:
    """Return the request to each deciding hook, by the word after `astuner_make_`."""
    text = Path(__file__).with_name("deciding_hooks.toml").read_text(encoding="utf-8")
    return {kind: Example(**asked) for kind, asked in tomllib.loads(text).items()}


class ClosedSandboxes(Sandboxes):
    """Sandboxes to be made."""

    async def open(self, spec: SandboxSpec) -> SandboxSession:
        """Open none."""
        raise ServiceUnavailable("these sandboxes are only made")

    async def close(self) -> None:
        """Close none."""


class FindsNothing:
    """A detector to be made."""

    def look(self, output: Sampled) -> str | None:
        """Return no evidence."""


class EmptyRoom:
    """An environment to be made."""

    def __init__(self, workflow_task: Any) -> None:
        """Ignore the task."""

    async def reset(self) -> Sequence[Mapping[str, Any]]:
        """Return the first messages."""
        return [{"role": "user", "content": "2 + 2?"}]

    async def step(self, action: Any) -> tuple[Sequence[Mapping[str, Any]], float, bool, Mapping[str, Any]]:
        """End with the first answer."""
        return [], 1.0, True, {}

    async def evaluate(self) -> float:
        """Return 1."""
        return 1.0

    async def close(self) -> None:
        """Do nothing."""


def empty_service(run_info: RunInfo) -> Definition:
    """Return a service that starts nothing."""
    return Definition(service=None)


class HooksContract(Contract):
    """Rules for extensions (the group `astuner.hooks`): a class, or an object, with methods marked `@astuner.hookimpl`."""

    kind: ClassVar[str] = "hook"

    def make(self, directory: Path) -> Any:
        """Return the extension as core makes it: an object as it is, a class with its options and no run."""
        from astuner.settings.plugins.drivers import construct

        self.prepare(directory)
        target = self.target()
        options = build_options(target, self.options, key=self.kind)
        return construct(self.candidate(), target, options, None) if isinstance(target, type) else target

    @self_contained
    def test_every_hook_registers(self) -> None:
        """Each method marked `@hookimpl` names a hook and takes arguments that it has, without defaults or `async`."""
        self._register(self.target(), [])

    @self_contained
    def test_it_implements_a_hook(self) -> None:
        """At least one method is marked `@hookimpl`: an extension without one is left out."""
        _, found = self._register(self.target(), [])
        assert found, f"{self._blame}: has no method marked @astuner.hookimpl"

    @self_contained
    def test_no_hook_is_left_unmarked(self) -> None:
        """A method that is named as a hook is marked as one: without `@hookimpl` it would never be called."""
        target = self.target()
        hooks = {name for specs in SPECS for name in vars(specs) if name.startswith(f"{PROJECT}_")}
        unmarked = sorted(name for name in hooks & set(dir(target)) if not hasattr(getattr(target, name), f"{PROJECT}_impl"))
        assert not unmarked, f"{self._blame}: {unmarked[0]} is never called; write @astuner.hookimpl above it"

    def test_it_bears_every_event(self, tmp_path: Path) -> None:
        """No listener raises at any of its events, whatever the outcome of the episodes: done, failed, no reward."""
        errors: list[str] = []
        hooks, _ = self._register(self.make(tmp_path), errors)
        for tell in self._list_events(hooks, self._run(tmp_path)):
            tell()
        assert not errors, "\n".join(errors)

    def test_what_it_makes_is_of_its_kind(self, tmp_path: Path) -> None:
        """Each deciding hook that it implements makes a component with the methods of its kind, and never None."""
        hooks, found = self._register(self.make(tmp_path), [])
        info = self._run(tmp_path)
        for hook in dict.fromkeys(name for name in found if name.startswith(DECIDING)):
            kind = hook.removeprefix(DECIDING)
            asked = read_examples()[kind]
            # A reward is made of judges.
            candidate = Candidate(kind="judge" if kind == REWARD else kind, name="example", target=asked.target)
            made = self._ask(hooks, kind, candidate, _structure_options(candidate, asked.options), info)
            if kind == "service":
                assert isinstance(made, Definition), (
                    f"{self._blame}: {hook} left {made!r:.200}; return an astuner.services.Definition"
                )
            missing = [name for name in asked.methods if not callable(getattr(made, name, None))]
            assert not missing, (
                f"{self._blame}: {hook} was asked for {asked.target} and left {made!r:.200}, which has no {', '.join(missing)}; "
                f"return a {kind}{', or what makes one' if asked.factory else ''}"
            )

    def _register(self, extension: Any, errors: list[str]) -> tuple[Hooks, tuple[str, ...]]:
        """Return the hooks of a process with this extension alone, and which of them it implements."""
        hooks = Hooks(Catalog(), on_listener_error=errors.append)
        try:
            return hooks, hooks.register(extension, self._blame)
        except PluginError as error:
            raise AssertionError(str(error)) from error

    def _run(self, directory: Path) -> RunInfo:
        info = self.run_info(directory)
        info.directory.mkdir(parents=True, exist_ok=True)
        (directory / "tasks.jsonl").write_text('{"main_query": "2 + 2?", "answer": "4"}\n', encoding="utf-8")
        return info

    def _ask(self, hooks: Hooks, kind: str, candidate: Candidate, options: Any, info: RunInfo) -> Any:
        try:
            if kind == REWARD:
                judges = [WeightedJudge(name, 0.5, make_judge(ExactAnswer)) for name in ("first", "second")]
                return hooks.make_reward(judges, info)
            if kind == "command":
                return hooks.make_command(candidate)
            if kind == "service":
                return hooks.make_service(candidate, info)
            made = getattr(hooks, f"make_{candidate.kind}")(candidate, options, info)
            if read_examples()[kind].factory:
                assert callable(made), (
                    f"{self._blame}: {DECIDING}{candidate.kind} left {made!r:.200}; return a function that makes a "
                    f"{candidate.kind}: it is called again and again"
                )
                return made(_TASK) if kind == "environment" else made()
        except AstunerError as error:
            raise AssertionError(str(error)) from error
        return made

    def _list_events(self, hooks: Hooks, info: RunInfo) -> Sequence[Callable[[], None]]:
        failed = evolve(
            episode(1, None), output=None, verdict=None, samples=(), failures=(Failure(reason="timeout", detail="after 60 s"),)
        )
        siblings = group(episode(0, 1.0, success=True), failed, episode(2, None), episode(3, 0.0, success=False))
        checked = group(episode(0, 1.0, split="validation"))
        checkpoint = info.directory / "checkpoints" / "step_1"
        checkpoint.mkdir(parents=True, exist_ok=True)
        plugins = [{"kind": "judge", "name": "strict", "distribution": "acme-strict", "version": "1.0"}]
        metrics = {"reward/mean": 0.5, "time/step_s": 1.25}
        return [
            lambda: hooks.tasks_read("train", 1),
            lambda: hooks.tasks_read("validation", 0),
            lambda: hooks.run_started(info, plugins),
            *(lambda one=one: hooks.notice(Notice(text="made up", level=one)) for one in ("info", "warning")),
            *(lambda one=one: hooks.group_judged(one) for one in (siblings, checked)),
            *(lambda one=one: hooks.episode_finished(one) for one in (*siblings.episodes, *checked.episodes)),
            lambda: hooks.step_finished(StepReport(step=1, metrics=metrics, groups=(siblings,))),
            lambda: hooks.step_finished(StepReport(step=2, metrics={}, clock="explorer")),
            lambda: hooks.validation_finished(ValidationReport(step=1, metrics={"val/reward/mean": 1.0}, groups=(checked,))),
            lambda: hooks.checkpoint_saved(1, checkpoint),
            lambda: hooks.run_finished(info, 0),
            lambda: hooks.run_finished(info, 130),
        ]


def _structure_options(candidate: Candidate, values: Mapping[str, Any]) -> Any:
    from astuner.settings.plugins.drivers import load

    return build_options(load(candidate), values, key=candidate.kind)
