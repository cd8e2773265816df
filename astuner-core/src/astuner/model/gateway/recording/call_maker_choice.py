"""Puts together what makes the calls of an episode, for the kind of engine that it has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from astuner.model.gateway.recording.call_policy import CallPolicy
from astuner.model.gateway.recording.call_seeds import CallIds

if TYPE_CHECKING:
    from astuner.contract.protocols import Engine
    from astuner.model.gateway.recording.call_ledger import CallLedger
    from astuner.model.gateway.recording.call_maker import CallMaker
    from astuner.model.gateway.recording.call_seeds import Seeds
    from astuner.model.gateway.recording.chat_call import ChatEngine
    from astuner.model.gateway.recording.episode_spec import EpisodeSpec
    from astuner.model.gateway.recording.request_order import RequestOrder
    from astuner.model.rendering import TemplateRenderer


def choose_call_maker(
    spec: EpisodeSpec,
    engine: Engine,
    renderer: TemplateRenderer | None,
    *,
    serial: int,
    ledger: CallLedger,
    order: RequestOrder,
    seeds: Seeds,
) -> CallMaker[Any]:
    """Return what makes the calls; an engine of token ids needs a renderer. `serial` distinguishes episodes sharing an id."""
    policy = CallPolicy(spec, engine.capabilities, ledger.notice)
    ids = CallIds(spec.episode_id)
    if not engine.capabilities.token_ids:
        from astuner.model.gateway.recording.chat_call_maker import ChatCallMaker

        return ChatCallMaker(
            engine=cast("ChatEngine", engine),
            ledger=ledger,
            policy=policy,
            seeds=seeds,
            ids=ids,
            timeout_s=spec.llm_timeout_s,
        )
    from astuner.model.gateway.recording.engine_sessions import EngineSessions
    from astuner.model.gateway.recording.length_limits import Lengths
    from astuner.model.gateway.recording.prompt_placer import PromptPlacer
    from astuner.model.gateway.recording.sampled_answer import AnswerExaminer
    from astuner.model.gateway.recording.token_call_maker import TokenCallMaker

    assert renderer is not None
    return TokenCallMaker(
        renderer=renderer,
        ledger=ledger,
        order=order,
        prompts=PromptPlacer(renderer, Lengths(spec, engine.capabilities.max_model_len)),
        policy=policy,
        seeds=seeds,
        ids=ids,
        sessions=EngineSessions(engine, spec.episode_id, serial),
        examiner=AnswerExaminer(spec.examine, renderer),
        timeout_s=spec.llm_timeout_s,
        names_changes=spec.names_changes,
    )
