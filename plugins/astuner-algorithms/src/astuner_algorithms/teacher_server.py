"""A teacher that is served by vLLM: the log-probabilities that it gives to tokens that another model sampled."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray

from astuner.contract.errors import ConfigError, Problem
from astuner.contract.protocols import RunInfo
from astuner.contract.schema import Sample
from astuner.settings.config.adapters import read_adapters
from astuner.shared.clients import LLMFailed, Patience, Sender, Taken, find_endpoint, run_blocking

PLACES = ("http://", "https://")
AT_START = Patience(max_retries=1, timeout_s=60.0)
IN_TRAINING = Patience(concurrency=32, max_retries=10, timeout_s=900.0)
"""A server that is restarted loads its model for minutes."""
PROBE_TOKENS = 200
"""How many tokens of the vocabulary are compared, besides all that were added to it."""
SCORED_AT_START = 8


@frozen(kw_only=True, eq=False)
class TeacherServer:
    """A model behind the API of a vLLM server."""

    name: str
    """The model's, at the server."""
    sender: Sender

    @classmethod
    def open(cls, url: str, *, name: str | None, api_key_env: str | None, run_info: RunInfo, section: str) -> TeacherServer:
        """Find the model, and try it; raises `ConfigError` if it cannot score what the run samples."""
        rollout = run_info.config.rollout
        if rollout.temperature != 1:
            message = (
                f"{rollout.temperature:g}: the server at {url} gives log-probabilities at temperature 1, which are not those of "
                f"another one. Set it to 1, or {section}.teacher to a folder, which the backbones 'local' and 'verl' load."
            )
            raise ConfigError([Problem(key="astuner.rollout.temperature", message=message)])
        key = os.environ.get(api_key_env or "", "")
        if api_key_env is not None and not key:
            message = (
                f"{api_key_env}: there is no such environment variable. Set it, or remove this key if the server needs none."
            )
            raise ConfigError([Problem(key=f"{section}.api_key_env", message=message)])
        endpoint = find_endpoint({"OPENAI_BASE_URL": url, "OPENAI_API_KEY": key}, "opd")
        endpoint = evolve(endpoint, keys_from=api_key_env or f"that {section}.api_key_env names")
        trial = Sender(endpoint, AT_START, "the teacher")
        try:
            found = run_blocking(_choose(trial, name, rollout.max_model_len, f"{section}.served_name"))
            run_blocking(cls(name=found, sender=trial)._check_ids(url, run_info.config.model.path))
        except (LLMFailed, ValueError) as error:
            message = f"{error}. It must be a server of vLLM" if isinstance(error, LLMFailed) else str(error)
            raise ConfigError([Problem(key=f"{section}.teacher", message=message)]) from error
        return cls(name=found, sender=Sender(endpoint, IN_TRAINING, f"the teacher {found!r}"))

    def score(self, samples: Sequence[Sample]) -> list[NDArray[np.float64]]:
        """Return, per sample, the log-probability of each of its trained tokens, at temperature 1; raises `LLMFailed`."""

        async def score_all() -> list[NDArray[np.float64]]:
            return await asyncio.gather(*(self._score(one) for one in samples))

        return run_blocking(score_all())

    async def _score(self, sample: Sample) -> NDArray[np.float64]:
        trained = np.flatnonzero(sample.mask)
        if not len(trained):
            return np.zeros(0)
        return (await self._score_ids(sample.ids[: trained[-1] + 1].tolist()))[trained]

    async def _score_ids(self, ids: Sequence[int]) -> NDArray[np.float64]:
        """Return the log-probability of each id after those before it; that of the first one is unknown."""
        # A prompt's log-probabilities come with an answer, of one token at least.
        asked = {
            "model": self.name,
            "prompt": list(ids),
            "max_tokens": 1,
            "temperature": 1.0,
            "extra_body": {"prompt_logprobs": 0},
        }
        async with self.sender.slots:
            answer = await self.sender.send(lambda client: client.completions.create(**asked), Taken())
        given: Any = getattr(answer.choices[0], "prompt_logprobs", None) if answer.choices else None
        try:
            known = [entry[str(one)]["logprob"] for one, entry in zip(ids[1:], given[1:], strict=True)]
            return np.array([np.nan, *known], np.float64)
        except (KeyError, TypeError, ValueError) as error:
            raise LLMFailed(
                f"{self.sender.where} gave no log-probabilities of the tokens that were sent (prompt_logprobs)"
            ) from error

    async def _check_ids(self, url: str, model: str) -> None:
        """Raise `ValueError` if the server reads text as other ids than the run's tokenizer; `LLMFailed` if it cannot score."""
        text, ids = _make_probe(model)
        place = f"{url.rstrip('/').removesuffix('/v1')}/tokenize"
        asked = {"model": self.name, "prompt": text, "add_special_tokens": False}
        answer = await self.sender.send(lambda client: client.post(place, cast_to=object, body=asked), Taken())
        found = answer.get("tokens") if isinstance(answer, dict) else None
        if found != ids:
            raise ValueError(f"{self.name!r} at {url} has another tokenizer than {model}: serve a model of the same family")
        await self._score_ids(ids[:SCORED_AT_START])


async def _choose(sender: Sender, name: str | None, longest: int, key: str) -> str:
    """Return the name of the model; raises `ValueError` if it is open, unknown, or reads less than an episode may have."""
    served = {
        one.id: getattr(one, "max_model_len", None)
        for one in (await sender.send(lambda client: client.models.list(), Taken())).data
    }
    if name not in served and (name is not None or len(served) != 1):
        wanted = f"no {name!r}" if name is not None else f"{len(served)} models, and {key} names none"
        raise ValueError(f"{sender.where} serves {wanted}: set {key} to one of {', '.join(served)}")
    found = next(iter(served)) if name is None else name
    # The answer that comes with the scores is one token long.
    if (room := served[found]) is not None and room <= longest:
        raise ValueError(
            f"{found!r} has room for {room} tokens, and episodes may have {longest} (rollout.max_model_len): serve it with "
            f"--max-model-len {longest + 1} or more"
        )
    return found


def _make_probe(model: str) -> tuple[str, list[int]]:
    """Return a text with tokens from all over the vocabulary, and its ids."""
    from astuner.model.rendering import load_renderer

    adapters = read_adapters(Path(model))
    bare = adapters is not None and not (Path(model) / "tokenizer_config.json").is_file()
    tokenizer = load_renderer(adapters.base if adapters is not None and bare else model).tokenizer
    vocabulary = sorted(tokenizer.get_vocab().values())
    spread = tokenizer.decode(vocabulary[:: max(1, len(vocabulary) // PROBE_TOKENS)])
    text = "".join([*tokenizer.get_added_vocab(), "\n", spread])
    return text, tokenizer.encode(text, add_special_tokens=False)
