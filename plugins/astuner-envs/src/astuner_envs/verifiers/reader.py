"""The reader `verifiers`: the tasks of an environment of the package `verifiers`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import Any

from attrs import field, frozen

from astuner.contract.errors import DataError
from astuner.contract.protocols import ReaderTraits, RunInfo
from astuner.contract.schema import Message, Split, Task
from astuner_envs.verifiers.loading import check_installed, load_environment, resolve_environment
from astuner_envs.verifiers.requirements import check_requirements
from astuner_envs.verifiers.task_record import TaskRecord

KEY = "astuner.task_reader.verifiers"


@frozen(kw_only=True)
class SplitTasks:
    """Which tasks of the environment belong to a split."""

    taskset: Mapping[str, Any] = field(factory=dict)
    """Values of `env.taskset` for this split alone, for example `{split: test}`, where the taskset has such an option."""
    select: Mapping[str, Any] = field(factory=dict)
    """Which of its tasks: `include`, `exclude`, `shuffle`, `seed`, `skip`, `limit`, as `vf-eval --select` takes them."""


def _check_has_taskset(_: Any, attribute: Any, value: Mapping[str, Any]) -> None:
    taskset = value.get("taskset")
    if not isinstance(taskset, Mapping) or not isinstance(taskset.get("id"), str) or not taskset["id"]:
        raise ValueError(f"'{attribute.name}' names no taskset: write {attribute.name}: {{taskset: {{id: NAME}}}}")


class VerifiersReader:
    """Reads the tasks of a taskset in its own order; each carries what the workflow plays it with."""

    traits = ReaderTraits(lists_revisions=True)

    @frozen(kw_only=True)
    class Options:
        """Options of the reader `verifiers`."""

        env: Mapping[str, Any] = field(validator=_check_has_taskset)
        """The environment, as in the block `[env]` of a configuration of verifiers: `taskset` with its `id`, and the agents
        with their harness and runtime, as in `{taskset: {id: gsm8k-v1}, agent: {harness: {id: "null"}}}`."""
        training: SplitTasks = field(factory=SplitTasks)
        """Training tasks; by default all."""
        validation: SplitTasks | None = None
        """Validation tasks; null for none."""
        success_reward: float | None = None
        """The reward from which an episode is a success; null counts no successes."""

    def __init__(self, options: Options) -> None:
        """Check the environment and what it needs. Raises `DataError` and, if verifiers is not installed, `PluginError`."""
        check_installed("reader 'verifiers'")
        self._success_reward = options.success_reward
        self._splits: dict[Split, tuple[Any, Any]] = {"train": _open(options.env, options.training, "training")}
        if options.validation is not None:
            self._splits["validation"] = _open(options.env, options.validation, "validation")

    @classmethod
    def from_run(cls, options: Options, run_info: RunInfo) -> VerifiersReader:
        """Make the reader; it uses nothing of the run."""
        return cls(options)

    def read(self, split: Split) -> Iterator[Task]:
        """Yield the tasks of a split. Raises `DataError` if the taskset cannot load them."""
        if split not in self._splits:
            return
        config, taskset = self._splits[split]
        environment = config.model_dump(mode="json", exclude_none=True)
        for task in _load(taskset, config.taskset.id):
            data = task.data.model_dump(mode="json", exclude_none=True)
            record = TaskRecord(environment=environment, data=data, success_reward=self._success_reward)
            yield Task(
                main_query=task.data.prompt_text,
                init_messages=_list_messages(data),
                task_id=f"{task.data.id or config.taskset.id}-{task.data.idx}",
                metadata=record.to_metadata(),
            )

    def list_revisions(self) -> Mapping[str, str]:
        """Return the version of the library."""
        return {"verifiers": version("verifiers")}


def _open(env: Mapping[str, Any], split: SplitTasks, name: str) -> tuple[Any, Any]:
    """Return the environment's configuration for a split, and its tasks."""
    from pydantic import ValidationError
    from verifiers.v1 import SelectConfig

    key = f"{KEY}.env"
    config = resolve_environment({**env, "taskset": {**env["taskset"], **split.taskset}}, key)
    environment = load_environment(config, key)
    check_requirements(environment, key)
    _check_whole_on_the_wire(environment, key)
    try:
        taskset = environment.taskset.select(SelectConfig.model_validate(dict(split.select)))
    except (ValidationError, ValueError) as error:
        raise DataError(f"{KEY}.{name}.select: {error}") from error
    if not taskset.bounded:
        raise DataError(
            f"{KEY}.{name}.select: taskset '{config.taskset.id}' never ends; say how many tasks to read: select: {{limit: 1000}}"
        )
    return config, taskset


def _load(taskset: Any, name: str) -> Iterator[Any]:
    """Yield the tasks of a taskset: the boundary for its code, which loads data sets from anywhere."""
    tasks: Iterator[Any] | None = None
    while True:
        try:
            tasks = iter(taskset) if tasks is None else tasks
            task = next(tasks, None)
        except Exception as error:
            raise DataError(f"{KEY}: taskset '{name}' cannot load: {type(error).__name__}: {error}") from error
        if task is None:
            return
        yield task


def _check_whole_on_the_wire(environment: Any, key: str) -> None:
    kind = type(environment.taskset).task_type().data_type()
    if left_out := [name for name, info in kind.model_fields.items() if info.exclude]:
        raise DataError(
            f"{key}.taskset: {kind.__name__} leaves {', '.join(left_out)} out when it is written, so its tasks cannot be stored; "
            "remove exclude=True there"
        )


def _list_messages(data: Mapping[str, Any]) -> tuple[Message, ...]:
    """Return the messages that a prompt begins with; none if the prompt is a text alone."""
    prompt, system = data.get("prompt"), data.get("system_prompt")
    first: tuple[Message, ...] = ({"role": "system", "content": system},) if system else ()
    if isinstance(prompt, str):
        return (*first, {"role": "user", "content": prompt}) if first else ()
    return (*first, *(prompt or ()))
