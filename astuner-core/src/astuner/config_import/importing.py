"""Translating another trainer's configuration, with an answer for each of its keys."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import attrs
from attrs import evolve, frozen

from astuner.config.alignment import Alignment
from astuner.config.dialects import GROUP, Answer, Translation, load_dialect
from astuner.config.interpolation import Interpolation
from astuner.config.loading import LoadedConfig, examine_config
from astuner.config.model import Config
from astuner.config.native import align
from astuner.config.places import ROOT
from astuner.config.show import dump_yaml
from astuner.config.trees import Tree, change_leaves, flatten, get, put
from astuner.config.yaml_lines import read_yaml
from astuner.config_import.native_keys import translate_native
from astuner.config_import.shell_overrides import read_shell_overrides
from astuner.errors import AstunerError, ConfigError, Problem, UsageError

__all__ = ["Imported", "import_config", "list_sources"]

MOST_ROUNDS = 20
"""Each leaves out what the one before found wrong; a trainer's own check may name its faults one by one."""

USERS_FILES = tuple(
    f"{ROOT}.{key}" for key in ("model.path", "task_reader", "rollout.user_workflow", "task_judge.judge_protocol")
)

AGENT = '''\
"""Plays one question and one answer, as the trainer that this project comes from did, and rewards an exact answer."""

from astuner import Tuner, Workflow, WorkflowOutput, WorkflowTask


class Agent(Workflow):
    """One call of the model for each task; put your own agent here."""

    async def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> WorkflowOutput:
        client = tuner.as_raw_openai_sdk_client()
        question = {"role": "user", "content": workflow_task.task.main_query}
        reply = await client.chat.completions.create(model=tuner.model, messages=[question])
        return WorkflowOutput(metadata={"final_answer": reply.choices[0].message.content or ""})


def compute_reward(workflow_task: WorkflowTask, workflow_output: WorkflowOutput) -> float:
    """Compare with the column `answer` of the data; put your own reward here, or install a judge."""
    wanted = workflow_task.task.metadata["answer"]
    return float(str(workflow_output.metadata["final_answer"]).strip() == str(wanted).strip())
'''
AGENT_FILE = "agent.py"


@frozen(kw_only=True)
class Imported:
    """A translated configuration."""

    text: str
    """The YAML."""
    answers: tuple[Answer, ...]
    """One for each leaf of the source, in its order."""
    open_problems: tuple[Problem, ...]
    """What the user still has to provide, or to correct."""
    agent: str | None
    """The text of `agent.py` beside it, if the source names no agent that runs here."""
    is_unchecked: bool
    """Whether the trainer could not check the keys that stay its own, since it is not installed here."""


def list_sources() -> tuple[str, ...]:
    """Return what `--from` takes here: the names of installed dialects, and of backbones with a configuration of their own."""
    return tuple(sorted({*_list_dialects(), *_list_aligned()}))


def import_config(source: Path, origin: str, target: Path) -> Imported:
    """Translate a file for a place; raises `UsageError` for an unknown origin, `ConfigError` for a file that cannot be read."""
    values = _read_source(source)
    alignment: Alignment | None = None
    if origin in _list_dialects():
        translation = _complete(load_dialect(origin, source).translate(values, source, is_file=True), values)
    elif origin in (aligned := _list_aligned()):
        alignment = aligned[origin]
        translation = translate_native(alignment, origin, _resolve_own_keys(values))
    else:
        raise UsageError(f"--from {origin}: there is no such source; there are {', '.join(list_sources())}")
    roots: Tree = change_leaves(translation.roots, lambda value, _: value)
    answers = {answer.key: answer for answer in translation.answers}
    agent = _add_agent(roots)
    problems, is_unchecked = _drop_faults(roots, answers, alignment, target, agent)
    return Imported(
        text=_write(roots, answers.values(), source, origin),
        answers=tuple(answers.values()),
        open_problems=tuple(problems),
        agent=agent,
        is_unchecked=is_unchecked,
    )


def _list_dialects() -> tuple[str, ...]:
    return tuple(sorted(point.name for point in entry_points(group=GROUP)))


def _list_aligned() -> Mapping[str, Alignment]:
    """Return the alignments of the installed backbones that have one; importing a backbone's class is light."""
    from astuner.plugins.catalog import Catalog
    from astuner.plugins.drivers import load

    found = {}
    for candidate in Catalog.discover(kinds=("backbone",)).candidates("backbone"):
        try:
            alignment = getattr(load(candidate), "alignment", None)
        except AstunerError:
            continue  # `plugin list` says what it lacks
        if isinstance(alignment, Alignment):
            found[candidate.name] = alignment
    return found


def _read_source(source: Path) -> Mapping[str, Any]:
    try:
        text = source.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError([Problem(message=f"the file cannot be read: {error.strerror}.", file=source)]) from error
    except UnicodeDecodeError as error:
        raise ConfigError([Problem(message=f"the file is not UTF-8 text: {error.reason}.", file=source)]) from error
    values = read_shell_overrides(text, source) if source.suffix in (".sh", ".bash") else read_yaml(text, source).values
    if not isinstance(values, dict) or not values:
        raise ConfigError([Problem(message="the file must be a mapping of keys.", file=source)])
    return values


def _resolve_own_keys(values: Mapping[str, Any]) -> Tree:
    """Replace what refers to other keys of the file, which will have other names; the environment is read by the run."""
    resolved = Interpolation(dict(values)).resolve()

    def choose(value: Any, path: Any) -> Any:
        found = resolved
        for part in path:
            found = found[part]
        return value if isinstance(value, str) and "oc.env" in value else found

    tree: Tree = change_leaves(values, choose)
    return tree


def _complete(translation: Translation, values: Mapping[str, Any]) -> Translation:
    """Answer each leaf: one that a dialect does not mention has the name of its section's answer, or its own."""
    given = {answer.key: answer for answer in translation.answers}
    answers = []
    for leaf in flatten(values):
        parts = leaf.split(".")
        above = [".".join(parts[:count]) for count in range(len(parts), 0, -1)]
        answer = next((given[key] for key in above if key in given), None)
        if answer is None:
            answer = Answer(key=leaf, kind="translated", keys=(leaf,))
        elif answer.key != leaf:
            answer = evolve(answer, key=leaf, keys=tuple(key + leaf[len(answer.key) :] for key in answer.keys))
        answers.append(answer)
    return evolve(translation, answers=tuple(answers))


def _add_agent(roots: Tree) -> str | None:
    if get(roots, f"{ROOT}.rollout.user_workflow") is not None:
        return None
    put(roots, f"{ROOT}.rollout.user_workflow", f"./{AGENT_FILE}:Agent")
    if get(roots, f"{ROOT}.task_judge.judge_type") is None:
        put(roots, f"{ROOT}.task_judge.judge_type", "customized_protocol")
        put(roots, f"{ROOT}.task_judge.judge_protocol", f"./{AGENT_FILE}:compute_reward")
    return AGENT


def _drop_faults(
    roots: Tree, answers: dict[str, Answer], alignment: Alignment | None, target: Path, agent: str | None
) -> tuple[Sequence[Problem], bool]:
    """Leave out what this configuration may not hold, each with the reason; return what is left to the user."""
    ask_trainer = True
    problems: list[Problem] = []
    for _ in range(MOST_ROUNDS):
        loaded = _load(roots, target)
        problems = [*loaded.problems]
        if alignment is not None and all(_is_for_the_user(problem.key or "", roots) for problem in problems):
            try:
                problems += align(alignment, loaded, ask_trainer=ask_trainer).problems
            except (AstunerError, ImportError):
                ask_trainer = False
                problems += align(alignment, loaded, ask_trainer=False).problems
        if sum(_drop(problem, roots, answers) for problem in problems) == 0:
            break
    return [evolve(problem, file=None, line=None) for problem in problems if not _is_agent(problem, agent)], not ask_trainer


def _load(roots: Tree, target: Path) -> LoadedConfig:
    # Beside the target, from where its relative paths start.
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", dir=target.parent, encoding="utf-8") as file:
        file.write(dump_yaml(roots))
        file.flush()
        return examine_config(Path(file.name))


def _drop(problem: Problem, roots: Tree, answers: dict[str, Answer]) -> bool:
    """Leave out the keys that a problem is about, or else those that it names, if they came from the source."""
    wrong = problem.key or ""
    placed = {
        key: answer
        for key, answer in answers.items()
        if answer.kind == "translated" and not any(_is_for_the_user(ours, roots) for ours in answer.keys)
    }
    meant = [key for key, answer in placed.items() if any(_is_part(wrong, ours) or _is_part(ours, wrong) for ours in answer.keys)]
    named = [key for key in placed if re.search(rf"(?<![\w.]){re.escape(key)}(?![\w.])", problem.message)]
    for key in meant or named:
        for ours in placed[key].keys:
            _remove(roots, ours)
        answers[key] = Answer(key=key, kind="dropped", reason=problem.message.rstrip("."))
    return bool(meant or named)


def _is_part(key: str, section: str) -> bool:
    return key == section or key.startswith((f"{section}.", f"{section}["))


def _is_for_the_user(key: str, roots: Tree) -> bool:
    """Whether a key stays although something is wrong with it: it names a file of the user's, or a variable to be set."""
    return key.startswith(USERS_FILES) or "${oc.env" in str(get(roots, key))


def _remove(roots: Tree, key: str) -> None:
    *above, last = key.split(".")
    section = get(roots, ".".join(above)) if above else roots
    if isinstance(section, dict):
        section.pop(last, None)
        if not section and above:
            _remove(roots, ".".join(above))


def _is_agent(problem: Problem, agent: str | None) -> bool:
    return agent is not None and problem.key in (f"{ROOT}.rollout.user_workflow", f"{ROOT}.task_judge.judge_protocol")


def _write(roots: Mapping[str, Any], answers: Iterable[Answer], source: Path, origin: str) -> str:
    lines = [f"# From {source.name}, a configuration of {origin}."]
    left_out = [answer for answer in answers if answer.kind == "dropped"]
    if left_out:
        lines.append("# Left out:")
        lines += [f"#   {answer.key}: {answer.reason}" for answer in left_out]
    order = list(attrs.fields_dict(Config))
    ours = dict(sorted(roots[ROOT].items(), key=lambda item: order.index(item[0]) if item[0] in order else len(order)))
    return "\n".join(lines) + "\n" + dump_yaml({**roots, ROOT: ours})
