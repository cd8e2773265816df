"""The warm start: from demonstrations to a model that writes like them, measured before and after by the task's own judge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from astuner.contract.errors import ConfigError, Problem, UsageError
from astuner.contract.protocols import BackboneTraits, Reader, RunInfo, TinyModelJob, WarmStartJob
from astuner.contract.protocols.traits import read_traits
from astuner.contract.schema import Sample
from astuner.episodes.containment.process_state import restore_process_state
from astuner.model.rendering import TemplateRenderer, load_renderer
from astuner.runs.driver.launch import evaluate_run
from astuner.runs.driver.run_request import RunRequest
from astuner.runs.store.atomic import make_beside, move_into_place
from astuner.settings.config.adapters import ADAPTER_FILE
from astuner.settings.memory_estimate.model_file import find_longest_context, read_model_config
from astuner.settings.planning.plan import Plan, plan_run
from astuner.settings.plugins.hooks import Hooks
from astuner_tools.demonstrations.held_out_gap import explain_gap
from astuner_tools.demonstrations.holdout import split_holdout
from astuner_tools.demonstrations.played import read_episodes
from astuner_tools.demonstrations.reading import Demonstration, ReadDemonstrations, read_demonstrations
from astuner_tools.demonstrations.recording import RecordedDemonstration, record_demonstrations
from astuner_tools.demonstrations.report import WarmStartReport
from astuner_tools.demonstrations.request import WarmStartRequest
from astuner_tools.demonstrations.task_texts import list_texts
from astuner_tools.demonstrations.tiny_maker import find_tiny_maker

Report = Callable[[str], object]

REWARD = "val/reward/mean"


def warm_start(request: WarmStartRequest, say: Report) -> WarmStartReport:
    """Train the model of a configuration on demonstrations, and write it to a new directory; `say` shows lines of progress.

    Raises `ConfigError` with everything that is wrong with the demonstrations at once, before anything is trained. The directory
    has the whole model in the end, or does not exist.
    """
    with make_beside(request.out) as beside:
        overrides = list(request.overrides)
        if request.tiny:
            start = beside / "start"
            start.mkdir()
            overrides += [f"model.path={start}", "model.lora_rank=0"]
        parts = _make_parts(request, overrides, beside)
        recorded, renderer = _prepare(request, parts, say)
        trained, held_out = split_holdout(recorded, request.holdout, parts.info.seed)
        if parts.tiny_maker is not None:
            parts.tiny_maker.make_tiny_model(_make_tiny_job(parts, ()))
        job = _make_job(request, parts, beside / "model", (trained, held_out))
        if read_traits(parts.backbone, BackboneTraits).checks_warm_starts:
            parts.backbone.check_warm_start(parts.info, job)
        judged = next(iter(parts.reader.read("validation")), None) is not None
        first = judged and (request.validate_before or not request.tiny)
        before = _measure_reward(request, overrides, parts, "before", None, say) if first else None
        say(f"training: {len(job.train)} rows, {job.epochs} epochs, learning rate {job.lr:g}")
        result = parts.backbone.warm_start(parts.info, job, say)
        after = _measure_reward(request, overrides, parts, "after", job.out, say) if judged else None
        move_into_place(job.out, request.out)
    return WarmStartReport(
        result=result,
        demonstrations={"trained": len(trained), "held out": len(held_out)},
        rewards=(before, after),
        warnings=tuple(explain_gap(result, trained, held_out, renderer.decode)),
        out=request.out,
        conf=request.conf,
        backbone=request.backbone,
        overrides=request.overrides,
    )


@frozen(kw_only=True, eq=False)
class _Parts:
    plan: Plan
    hooks: Hooks
    info: RunInfo
    backbone: Any
    """One whose traits say `warm_starts`."""
    reader: Reader
    tiny_maker: Any
    """The backbone that makes the model to begin with; None begins with `model.path`."""

    @property
    def model(self) -> str:
        return self.info.config.model.path


def _make_parts(request: WarmStartRequest, overrides: Sequence[str], beside: Path) -> _Parts:
    plan = plan_run(request.conf, overrides, request.backbone)
    hooks = Hooks(plan.catalog, on_listener_error=lambda _: None, options=plan.loaded.config.plugins.options)
    hooks.check_pending()
    info = evolve(plan.run_info(), directory=beside, attempt=0)
    made = hooks.make_backbone(plan.backbone.candidate, plan.backbone.options, info)
    name = plan.backbone.candidate.name
    if not read_traits(made, BackboneTraits).warm_starts:
        raise UsageError(
            f"the backbone '{name}' does not train on demonstrations; name one that does with --backbone. `astuner plugin list` "
            "shows what is installed"
        )
    tiny_maker = find_tiny_maker(plan, made) if request.tiny else None
    reader = hooks.make_reader(plan.reader.candidate, plan.reader.options, info)
    return _Parts(plan=plan, hooks=hooks, info=info, backbone=made, reader=reader, tiny_maker=tiny_maker)


def _prepare(request: WarmStartRequest, parts: _Parts, say: Report) -> tuple[list[RecordedDemonstration], TemplateRenderer]:
    """Return the samples of all demonstrations; raises `ConfigError` with all that is wrong with them."""
    read = _read(request, say)
    problems = list(read.problems)
    renderer = _make_renderer(parts, read.sound)
    tracker = parts.plan.recipe.tracker
    make_tracker = parts.hooks.make_tracker(tracker.candidate, tracker.options, parts.info)
    found = record_demonstrations(read.sound, renderer, make_tracker, limit=_find_context(parts))
    problems += found.problems
    if problems:
        raise ConfigError(sorted(problems, key=_get_line))
    for text in renderer.notices:
        say(text)
    untrained = sum((Counter(one.untrained) for one in found.recorded), Counter[str]())
    for reason, tokens in untrained.items():
        name = tracker.candidate.name
        say(f"{tokens} tokens of the assistant are not trained ({reason}), since the tracker '{name}' of the run leaves them out")
    trained = [one for one in found.recorded if any(sample.trained for sample in one.samples)]
    if not trained:
        raise UsageError(
            f"{request.source}: nothing in it would be trained, since the run's tracker leaves out every answer. Choose another "
            "tracker in context_tracker"
        )
    return trained, renderer


def _read(request: WarmStartRequest, say: Report) -> ReadDemonstrations:
    if request.episodes is None:
        assert request.demos is not None
        return read_demonstrations(request.demos)
    played, notes = read_episodes(request.episodes)
    for note in notes:
        say(note)
    return ReadDemonstrations(sound=played, problems=())


def _make_renderer(parts: _Parts, demonstrations: Sequence[Demonstration]) -> TemplateRenderer:
    options = parts.info.config.model.rendering
    if parts.tiny_maker is None:
        return load_renderer(parts.model, **options)
    # Loading it again would import torch, before the demonstrations are checked.
    tokenizer = parts.tiny_maker.make_tiny_tokenizer(_make_tiny_job(parts, list_texts(demonstrations, parts.reader)))
    return TemplateRenderer(tokenizer, (), source=parts.model, **options)


def _get_line(problem: Problem) -> int:
    return problem.line or 0


def _find_context(parts: _Parts) -> int:
    """Return the most tokens of a conversation: what the run allows, and what the model was made for."""
    longest = find_longest_context(read_model_config(parts.model, fetch=False) or {})
    allowed = parts.info.config.rollout.max_model_len
    return allowed if longest is None else min(allowed, longest)


def _make_tiny_job(parts: _Parts, texts: Sequence[str]) -> TinyModelJob:
    config = parts.info.config
    return TinyModelJob(out=Path(parts.model), texts=texts, context=config.rollout.max_model_len, seed=config.seed)


def _make_job(
    request: WarmStartRequest,
    parts: _Parts,
    out: Path,
    demonstrations: tuple[Sequence[RecordedDemonstration], Sequence[RecordedDemonstration]],
) -> WarmStartJob:
    out.mkdir()
    train, held_out = (_list_samples(part) for part in demonstrations)
    return WarmStartJob(
        model=parts.model,
        out=out,
        train=train,
        held_out=held_out,
        epochs=request.choose_epochs(len(train)),
        batch_size=request.batch_size,
        lr=request.choose_lr(adapters=parts.info.config.model.lora_rank > 0),
        seed=parts.info.seed,
    )


def _list_samples(demonstrations: Sequence[RecordedDemonstration]) -> list[Sample]:
    return [sample for demonstration in demonstrations for sample in demonstration.samples if sample.trained]


def _measure_reward(
    request: WarmStartRequest, overrides: Sequence[str], parts: _Parts, when: str, trained: Path | None, say: Report
) -> float | None:
    """Play the validation tasks with the trained model, or else the first; return the mean reward by the task's own judge.

    Adapters are played as a checkpoint: not every backbone takes them as `model.path`.
    """
    adapted = trained is not None and (trained / ADAPTER_FILE).is_file()
    model = parts.model if trained is None or adapted else trained
    home = f"{parts.info.config.experiment_dir}-warm-start-{when}"
    say(f"playing the validation tasks, {when}")
    items = [*overrides, f"model.path={model}", f"experiment_dir={home}"]
    asked = RunRequest(conf=request.conf, backbone=request.backbone, overrides=items)
    with restore_process_state(request.conf.absolute().parent):
        outcome = evaluate_run(asked, trained if adapted else None)
    say(f"  {outcome.directory}")
    return (outcome.after or {}).get(REWARD)
