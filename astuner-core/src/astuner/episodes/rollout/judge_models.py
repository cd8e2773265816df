"""The model in training as a frozen agent of judges: their calls go over the run's gateway and are part of no episode."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager
from typing import TYPE_CHECKING

from astuner.contract.schema import Sampling
from astuner.episodes.judging.judge_tuner import offer_tuner

if TYPE_CHECKING:
    from astuner.contract.protocols import RunInfo, Tuner
    from astuner.model.gateway import Gateway


class JudgeModels:
    """Opens the gateway to the judges of a run that name the model in training as an auxiliary model."""

    def __init__(self, gateway: Gateway, run_info: RunInfo) -> None:
        """Open nothing yet."""
        self._gateway, self._run_info = gateway, run_info

    def offer(self) -> AbstractContextManager[None]:
        """Offer it to what is called within the context."""
        return offer_tuner(self._open)

    @asynccontextmanager
    async def _open(self, episode_id: str) -> AsyncIterator[Tuner]:
        from astuner.model.gateway import EpisodeSpec
        from astuner.model.gateway.recording.call_seeds import derive_seed

        config, seed = self._run_info.config.rollout, self._run_info.seed
        recorder = self._gateway.open_episode(
            EpisodeSpec(
                episode_id=f"{episode_id}/judge",
                seed=derive_seed(config.seed if config.seed is not None else seed, episode_id, "judge"),
                sampling=Sampling(
                    temperature=config.temperature,
                    top_p=config.top_p,
                    top_k=config.top_k,
                    max_tokens=config.max_response_length_in_one_turn,
                ),
                max_model_len=config.max_model_len,
                trainable_targets=(),
                train=False,
                llm_timeout_s=config.llm_timeout_s,
                auxiliary_models=config.auxiliary_models,
            )
        )
        try:
            yield recorder.tuner
        finally:
            await recorder.close()
