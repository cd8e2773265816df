"""Checks between the keys of a configuration that need no plugin."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from operator import attrgetter
from pathlib import Path
from typing import Any

from attrs import define, field

from astuner.contract.errors import ConfigError, Problem, ProblemKind
from astuner.settings.config.adapters import find_conflicts, read_adapters
from astuner.settings.config.agent import COMMAND, is_command
from astuner.settings.config.auxiliary_models import find_faults
from astuner.settings.config.model import Config
from astuner.settings.config.paths import find_model_directory, find_similar_path, resolve_path
from astuner.settings.config.places import ROOT, Locate, make_problem
from astuner.settings.config.rewards import RewardComposition, order_by_requirements
from astuner.settings.config.sections import ALTERNATIVES, COMPONENT_KEYS, COMPONENT_SECTIONS, TRACKERS
from astuner.settings.config.structure_errors import find_closest
from astuner.shared.known_packages import read_known_packages

_OWN: Mapping[str, Collection[str]] = {"task_reader": ("dataset_file",), "context_tracker": TRACKERS}
"""Core's own components, whose sections are always allowed."""

MODEL_EXAMPLE = "a directory, or a Hugging Face id such as Qwen/Qwen2.5-0.5B-Instruct"


@define(eq=False, kw_only=True)
class Checks:
    """The conflicts between keys, and what a user should know."""

    config: Config
    config_dir: Path
    file: str
    """The YAML, as commands name it."""
    user_keys: Collection[str]
    locate: Locate
    names_of: Callable[[str], Collection[str]]
    problems: list[Problem] = field(factory=list)
    notices: list[str] = field(factory=list)

    def run(self, *, isolated: bool = False) -> None:
        """Collect the problems and notices; `isolated` looks at no file and no environment variable."""
        if not isolated:
            self._check_model()
            for key, message in find_faults(self.config.rollout.auxiliary_models, os.environ):
                self._add_problem(f"rollout.auxiliary_models.{key}", message)
            self._check_services()
        self._check_several_models()
        self._check_workflow()
        self._check_lengths()
        self._check_batches()
        self._check_validation()
        self._check_judges()
        self._check_composition()
        self._check_unused_sections()
        self._check_agent()

    def _add_problem(self, key: str, message: str, suggestion: str | None = None, kind: ProblemKind | None = None) -> None:
        self.problems.append(make_problem(f"{ROOT}.{key}", message, self.locate, suggestion, kind))

    def _check_model(self) -> None:
        path, template = self.config.model.path, self.config.model.chat_template
        if template is not None:
            from astuner.settings.config.chat_template import explain_bad_template

            if (message := explain_bad_template(template)) is not None:
                self._add_problem("model.chat_template", message)
        if not path:
            return
        directory = find_model_directory(path, self.config_dir)
        if directory and not os.path.isdir(directory):
            # Loading has made the path absolute; the suggestion is for the file.
            inside = directory.is_relative_to(self.config_dir)
            written = f"./{directory.relative_to(self.config_dir)}" if inside else path
            similar = find_similar_path(written, self.config_dir)
            make = f"astuner warm-start --conf {self.file} --demos DEMOS.jsonl --tiny --out {os.path.relpath(directory)}"
            message = f"there is no directory {directory}. Give {MODEL_EXAMPLE}; or make a tiny model there: {make}."
            self._add_problem("model.path", message, similar, "missing_path")
        try:
            adapters = read_adapters(directory) if directory else None
        except ConfigError as error:
            self._add_problem("model.path", error.problems[0].message)
            return
        if adapters is not None:
            for key, message in find_conflicts(adapters, self.config.model, self.user_keys):
                self._add_problem(key, message)
            self.notices.append(
                f"model.path holds LoRA adapters (rank {adapters.lora_rank}) of {adapters.base}: training continues from them, "
                "and any divergence is measured from their present state."
            )
            return
        unused = [key for key in ("lora_alpha", "target_modules") if f"model.{key}" in self.user_keys]
        if unused and self.config.model.lora_rank == 0 and not self.config.model.adapters:
            self.notices.append(
                f"model.{', model.'.join(unused)}: without effect, since model.lora_rank is 0 (all weights are trained)."
            )

    def _check_workflow(self) -> None:
        rollout = self.config.rollout
        if rollout.use_agentscope_protocol and not rollout.user_workflow:
            message = (
                "no workflow is given. Name one (`my_agent->MyWorkflow`), or let an environment lead: environment.leads: true."
            )
            self._add_problem("rollout.user_workflow", message)
        elif not rollout.use_agentscope_protocol and rollout.user_workflow:
            message = (
                "a workflow is named, and environment.leads: true (or rollout.use_agentscope_protocol: false) lets the "
                "environment lead without one. Remove this key to play the environment, or the other to play the workflow."
            )
            self._add_problem("rollout.user_workflow", message)
        if rollout.use_agentscope_protocol and self.config.environment.env_action_preference is not None:
            self.notices.append(
                "environment.env_action_preference: without effect, since a workflow plays the episodes and chooses its actions."
            )

    def _check_several_models(self) -> None:
        model, trainer = self.config.model, self.config.trainer_common
        for name, adapter in model.adapters.items():
            if "/" in name or name in ("", ".", ".."):
                self._add_problem(
                    "model.adapters", f"{name!r} cannot name a folder, which each checkpoint has for it. Rename the target."
                )
            if adapter.lora_rank is None and model.lora_rank == 0:
                message = "adapters need a rank: set lora_rank here, or model.lora_rank for all of them."
                self._add_problem(f"model.adapters.{name}", message)
        for name, chosen in model.opponents.items():
            key, step, kept = f"model.opponents.{name}", chosen.checkpoint, trainer.max_checkpoints_to_keep
            if name in model.adapters:
                self._add_problem(key, "model.adapters has it too, and an opponent is not trained. Remove one of the two.")
            if chosen.adapter not in (model.adapters or (None,)):
                wanted = (
                    f"Name one of {', '.join(model.adapters)}." if model.adapters else "Remove it: the run has no model.adapters."
                )
                self._add_problem(f"{key}.adapter", f"{chosen.adapter!r} is none of the run's adapters. {wanted}")
            if step != "latest" and step and (step < 0 or trainer.save_freq <= 0 or step % trainer.save_freq):
                message = (
                    f"no checkpoint is due at step {step}. Give a multiple of trainer_common.save_freq ({trainer.save_freq})."
                )
                self._add_problem(f"{key}.checkpoint", message)
            if step and kept is not None and (step != "latest" or kept == 1):
                message = f"this deletes checkpoints, and the opponent {name!r} answers with an earlier one. Remove it"
                self._add_problem("trainer_common.max_checkpoints_to_keep", message + ", or keep 2." * (step == "latest"))

    def _check_lengths(self) -> None:
        data, room = self.config.data, self.config.rollout.max_model_len
        needed = data.max_prompt_length + data.max_response_length
        if needed > room:
            self._add_problem(
                self._find_key_set_by_user("rollout.max_model_len", "data.max_response_length", "data.max_prompt_length"),
                f"data.max_prompt_length ({data.max_prompt_length}) + data.max_response_length ({data.max_response_length}) "
                f"= {needed} tokens do not fit into rollout.max_model_len ({room}). Raise that one, or lower one of these.",
            )

    def _check_batches(self) -> None:
        trainer = self.config.trainer_common
        if trainer.mini_batch_num > self.config.data.train_batch_size:
            tasks = self.config.data.train_batch_size
            message = f"{trainer.mini_batch_num} mini-batches cannot be made of {tasks} tasks (data.train_batch_size)."
            self._add_problem(self._find_key_set_by_user("trainer_common.mini_batch_num", "data.train_batch_size"), message)

    def _check_validation(self) -> None:
        trainer, val = self.config.trainer_common, self.config.rollout.val_kwargs
        if val.temperature > 0 and not val.do_sample:
            self.notices.append(
                f"rollout.val_kwargs.temperature ({val.temperature}) is not used: do_sample is false, so validation is greedy. "
                "Set rollout.val_kwargs.do_sample: true to sample."
            )
        if trainer.val_pass_n > 1 and val.greedy:
            self.notices.append(
                f"trainer_common.val_pass_n is {trainer.val_pass_n}, but validation is greedy, so all samples of a task come out "
                "the same. Set it to 1, or set rollout.val_kwargs.do_sample: true and a temperature above 0."
            )

    def _check_judges(self) -> None:
        judge = self.config.task_judge
        custom = judge.judge_type == "customized_protocol"
        if judge.judges and (judge.judge_protocol or not custom):
            other = "judge_protocol" if judge.judge_protocol else "judge_type"
            self._add_problem(
                "task_judge.judges", f"judges are named twice, here and in task_judge.{other}. Move that one into the list."
            )
        elif judge.judge_protocol and not custom:
            self.notices.append(
                f"task_judge.judge_protocol is not used: task_judge.judge_type is '{judge.judge_type}'. "
                "Set it to customized_protocol to use the protocol."
            )

    def _check_composition(self) -> None:
        judge = self.config.task_judge
        requires: dict[str, Mapping[str, float]] = {}
        for position, choice in enumerate(judge.judges):
            name = choice.known_as or f"judges[{position}]"
            if name in requires:
                message = f"two judges are known as '{name}', under which their rewards are logged. Give one of them a `name`."
                self._add_problem(f"task_judge.judges[{position}].judge", message)
            requires[name] = choice.requires
        try:
            order_by_requirements(requires)
        except ValueError as error:
            self._add_problem("task_judge.judges", f"{error}. Name judges of this list by their `name`, or by `judge`.")
        shapes = {f"task_judge.judges[{position}].shape": choice.shape for position, choice in enumerate(judge.judges)}
        for key, shape in {**shapes, "task_judge.reward.shape": judge.reward.shape}.items():
            if shape.low is not None and shape.high is not None and shape.high < shape.low:
                self._add_problem(
                    f"{key}.high", f"high ({shape.high:g}) is below low ({shape.low:g}), so no reward is between them."
                )
        has_judge = judge.judges or judge.judge_protocol or judge.judge_type != "customized_protocol"
        if judge.reward != RewardComposition() and not has_judge:
            self.notices.append(
                "task_judge.reward has no effect: there is no judge, and rewards of workflows are left as they are."
            )

    def _check_services(self) -> None:
        for name, service in self.config.services.items():
            if service.cwd is not None and not os.path.isdir(resolve_path(service.cwd, self.config_dir)):
                message = f"there is no directory {resolve_path(service.cwd, self.config_dir)}."
                self._add_problem(
                    f"services.{name}.cwd", message, find_similar_path(service.cwd, self.config_dir), "missing_path"
                )

    def _check_agent(self) -> None:
        if not is_command(self.config.rollout.user_workflow) and any(key.partition(".")[0] == "agent" for key in self.user_keys):
            self.notices.append(f"agent: without effect, since rollout.user_workflow is not {COMMAND}.")

    def _check_unused_sections(self) -> None:
        for kind, sections, chosen in self._list_components():
            others = [name for name in sections if name not in chosen and name not in _OWN.get(kind, ())]
            offered: set[str] = set()
            if others and kind in ALTERNATIVES:
                # Called only if needed: it reads the metadata of everything installed.
                installed = (name for group in ALTERNATIVES[kind] for name in self.names_of(group))
                known_names = (name for one in COMPONENT_SECTIONS[kind] for name in read_known_packages().names(one))
                offered = {*installed, *known_names}
            known = offered | set(chosen) | set(_OWN.get(kind, ()))
            for name in others:
                if name in offered:
                    continue
                if suggestion := find_closest(name, known - set(sections)):
                    self._add_problem(f"{kind}.{name}", "no component of this name is chosen.", suggestion)
                else:
                    self.notices.append(f"{kind}.{name} is not used: chosen is {', '.join(chosen) or 'none'}.")

    def _list_components(self) -> Iterator[tuple[str, Mapping[str, Any], list[str]]]:
        config, judge = self.config, self.config.task_judge
        named = judge.judge_protocol if judge.judge_type == "customized_protocol" else judge.judge_type
        chosen = {
            place: [attrgetter(key)(config) for key in COMPONENT_KEYS if key.rpartition(".")[0] == place]
            for place in COMPONENT_SECTIONS
        }
        chosen["task_judge"] = [item.judge for item in judge.judges] + ([named] if named else [])
        for kind, names in chosen.items():
            sections = attrgetter(kind)(config).sections
            # With `auto` the tasks choose among environments, and the backbone an engine, whose options it may take from there.
            yield kind, sections, list(sections) if names == ["auto"] else _list_section_names(names)

    def _find_key_set_by_user(self, *keys: str) -> str:
        return next((key for key in keys if key in self.user_keys), keys[0])


def _list_section_names(chosen: list[str]) -> list[str]:
    # `distribution/name` keeps its options under the plain name.
    return [name if "->" in name or ":" in name else name.rpartition("/")[2] for name in chosen]
