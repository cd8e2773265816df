"""What a server really does, measured on adapters that are thrown away: servers differ, and none says how."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, cast

import numpy as np
from attrs import asdict, field, fields, frozen
from numpy.typing import NDArray

from astuner.contract.errors import ConfigError, Problem, RunFailed
from astuner.contract.schema import Sample
from astuner.settings.config.structuring import make_converter
from astuner.shared.user_cache import keep_cached, read_cached
from astuner_tinker.rows import Across, Within, make_datum, make_scoring_data, read_logprobs
from astuner_tinker.service import Service

PROMPT = (10, 11, 12, 13, 14)
TRAINED, SHORT = (20, 21, 22, 23, 24, 25, 26, 27), 2
"""An answer of hardly any probability, which can rise, and how much of it is trained."""
ANSWER = 8
"""Tokens of a sampled answer."""
MANY = 1000
"""The largest `top_k` that every server takes, for those at which -1 means a smaller number."""
ROUNDED = 0.01
"""A difference of log-probabilities that is looked into, in nats."""
VALID = timedelta(days=1)
"""How long a measurement is taken for true."""
HAIR = 1.00001
"""A temperature beside 1, at which a server samples that is greedy at 1."""
NEAR = 0.2
"""How far the logarithm of a measured ratio may be from the expected one: they differ by 0.4 and more."""
FASTEST = 10.0
"""The largest learning rate that every server takes: with it the advantage, and so the gradient, can be smallest."""


@frozen(kw_only=True)
class ServerFacts:
    """What was measured."""

    within: Within
    across: Across
    weights: bool = True
    """Whether the loss takes a weight for each token; without it every token of a row counts in a mean."""
    logprobs: str = "temperature_1"
    """Of which distribution those of sampled tokens are at other temperatures: `temperature_1`, or the one `sampled` from."""
    greedy_at_one: bool = False
    """Whether it takes the most probable token at temperature 1, top_p 1 and one sample."""
    whole_top_k: int = -1
    """The `top_k` that leaves out as few tokens as can be."""
    stops: bool = True
    """Whether a stop token ends an answer."""
    frozen: bool = True
    """Whether a sampling client keeps its weights when the model is trained on."""
    clips: bool = True
    """Whether it limits the norm of the gradient."""
    repeats: bool = True
    """Whether a seed gives the same answer again."""
    exact_resume: bool = True
    """Whether a loaded state is trained on to the same bits."""
    saves_once: bool = False
    """Whether all states that it saves of a model hold what the first one held."""
    mismatch: float = 0.0
    """The largest difference of the log-probabilities of sampler and trainer."""
    server: str = ""
    sdk: str = ""
    models: str = ""
    measured: str = field(factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))

    def describe(self) -> str:
        """Return it in a line."""
        loss = {"sum": "sums losses", "tokens": "takes the mean over tokens", "rows": "takes the mean over rows"}[self.within]
        found = [
            f"{loss}{' of all calls' * (self.across == 'averages')}",
            "resumes to the bit" if self.exact_resume else "does not resume to the bit",
            *(
                ["saves the first state of a model again and again (each is trained on as a new model)"]
                if self.saves_once
                else []
            ),
            *(["samples from the newest weights"] if not self.frozen else []),
            *(["is greedy at temperature 1 (asked for 1.00001)"] if self.greedy_at_one else []),
            *([f"samples from the most probable tokens unless top_k is set (to {MANY})"] if self.whole_top_k > 0 else []),
            *(["ignores stop tokens (answers are cut here)"] if not self.stops else []),
            *(["does not repeat an answer by its seed"] if not self.repeats else []),
            *(["does not limit gradients"] if not self.clips else []),
        ]
        return f"{self.server}, SDK {self.sdk}: {', '.join(found)}; measured {self.measured[:10]}"


def find_facts(service: Service) -> ServerFacts:
    """Return what is known of the server, or measure it."""
    name, models = _name(service.server.url, service.base_model, service.sdk), json.dumps(service.list_models())
    known = read_facts(service.server.url, service.base_model, service.sdk)
    if known is not None and (known.server, known.models) == (_title(service), models):
        return known
    service.control.notify(f"measuring what {service.describe()} does", "info")
    facts = Probe(service).measure(models)
    keep_cached("tinker", name, json.dumps(asdict(facts)).encode(), most_bytes=1_000_000)
    return facts


def read_facts(url: str, base_model: str, sdk: str) -> ServerFacts | None:
    """Return what was measured in the last day; None if nothing was."""
    if (content := read_cached("tinker", _name(url, base_model, sdk))) is None:
        return None
    facts = make_converter().structure(json.loads(content), ServerFacts)
    return facts if datetime.now(UTC) - datetime.fromisoformat(facts.measured) < VALID else None


def _name(url: str, base_model: str, sdk: str) -> str:
    facts = " ".join(one.name for one in fields(ServerFacts))  # another release of this package may measure more
    return sha256(f"{url} {base_model} {sdk} {facts}".encode()).hexdigest()


def _title(service: Service) -> str:
    return service.server.title or service.server.name


class Probe:
    """Measures one server, with a model of its own."""

    def __init__(self, service: Service) -> None:
        """Make the model."""
        self._service = service
        self._client = service.make_training_client(seed=1)
        self._advantage = 1e-5
        self._weights = True
        self._sampling: dict[str, Any] = {"seed": 7, "temperature": 1.0, "top_k": -1}

    def measure(self, models: str) -> ServerFacts:
        """Measure everything. Raises `ConfigError`, with the measurement, for a server that nothing can be trained on."""
        sampler = self._service.ask(self._client.save_weights_and_get_sampling_client, "a sampling client")
        greedy_at_one = self._is_greedy(sampler)
        self._sampling["temperature"] = HAIR if greedy_at_one else 1.0
        tokens, logprobs = self._sample(sampler, **self._sampling)
        if len(tokens) != len(logprobs) or len(tokens) < 3:
            self._refuse(f"{len(logprobs)} log-probabilities came with {len(tokens)} tokens, of {ANSWER} that were asked for")
        self._mismatch = mismatch = self._find_top_k(sampler)
        if not mismatch < 1:
            self._refuse(f"the log-probabilities of its sampler and its trainer differ by {mismatch:.2g} nats")
        first = tokens, _ = self._sample(sampler, **self._sampling)
        cold = self._compare(sampler, temperature=0.5)
        stopped, _ = self._sample(sampler, **self._sampling, stop=[tokens[2]])
        repeats = self._sample(sampler, **self._sampling) == first
        self._find_weights()
        within, across = self._measure_reduction()
        clips = self._measure_effect([[SHORT]], clip=1e-9) < 0.5 * self._base
        self._step(self._client, [[SHORT]], 3.0)
        frozen_ = not repeats or self._sample(sampler, **self._sampling) == first
        return ServerFacts(
            within=within,
            across=across,
            weights=self._weights,
            logprobs="temperature_1" if cold < max(5 * ROUNDED, 10 * mismatch) else "sampled",
            greedy_at_one=greedy_at_one,
            whole_top_k=self._sampling["top_k"],
            stops=tokens[2] not in stopped[:-1],
            frozen=frozen_,
            clips=clips,
            repeats=repeats,
            saves_once=self._saves_once(),
            exact_resume=self._resumes_exactly(),
            mismatch=mismatch,
            server=_title(self._service),
            sdk=self._service.sdk,
            models=models,
        )

    def _refuse(self, why: str) -> None:
        message = f"{self._service.describe()} cannot be trained on: {why}"
        raise ConfigError([Problem(key="tinker.base_url", message=message)])

    def _sample(self, sampler: Any, *, stop: Sequence[int] = (), **params: Any) -> tuple[list[int], list[float]]:
        found = sample_once(self._service, sampler, max_tokens=ANSWER, stop=list(stop) or None, **params)
        return list(found.tokens), list(found.logprobs or ())

    def _compare(self, sampler: Any, **params: Any) -> float:
        """Return the largest difference between the log-probabilities of sampler and trainer in some answers."""
        differences = [0.0]
        for seed in range(7, 10):
            tokens, logprobs = self._sample(sampler, **{**self._sampling, "seed": seed, **params})
            differences += np.abs(self._score(self._client, tokens) - np.array(logprobs)).tolist()
        return max(differences)

    def _find_top_k(self, sampler: Any) -> float:
        """Choose the `top_k` at which the sampler's distribution is the trainer's, and return how far they are apart."""
        apart = self._compare(sampler)
        if apart > ROUNDED:
            with suppress(RunFailed):
                whole = self._compare(sampler, top_k=MANY)
                if whole < apart / 3:
                    self._sampling["top_k"], apart = MANY, whole
        return apart

    def _is_greedy(self, sampler: Any) -> bool:
        best, _ = self._sample(sampler, seed=0, temperature=0.0)
        warm, beside = ([self._sample(sampler, seed=s, temperature=t)[0] for s in range(1, 5)] for t in (1.0, HAIR))
        return all(one == best for one in warm) and any(one != best for one in beside)

    def _make_sample(self, tokens: Sequence[int]) -> Sample:
        ids = np.array([*PROMPT, *tokens], np.int32)
        mask, zeros = np.arange(len(ids)) >= len(PROMPT), np.zeros(len(ids), np.float32)
        return Sample(episode_id="probe", task_id="probe", repeat=0, agent="probe", ids=ids, mask=mask, logprobs=zeros, calls=())

    def _score(self, client: Any, tokens: Sequence[int]) -> NDArray[np.float32]:
        data = make_scoring_data([sample := self._make_sample(tokens)])[0]
        return read_logprobs([self._service.ask(lambda: client.forward(data, "cross_entropy"), "a forward pass")], [sample])[0]

    def _make_row(self, length: int, advantage: float) -> Any:
        """Return a row of the answer's beginning; only the short one counts."""
        return make_datum(
            self._make_sample(TRAINED[:length]),
            weights=1.0 if self._weights else None,
            logprobs=self._before[:length],
            advantages=advantage if length == SHORT else 0.0,
        )

    def _measure_effect(self, calls: Sequence[Sequence[int]], *, factor: float = 1.0, clip: float = 0.0) -> float:
        """Train rows of these lengths by one step, take it back, and return how much likelier the short answer became, in nats.

        With these betas and eps 1 Adam's step has the direction and the size of the gradient, as long as that is far below 1.
        """
        self._before = before = self._score(self._client, TRAINED)
        self._step(self._client, calls, factor, clip)
        after = self._score(self._client, TRAINED)
        self._step(self._client, calls, -factor, clip)
        return float((after - before)[:SHORT].sum())

    def _step(
        self, client: Any, calls: Sequence[Sequence[int]], factor: float, clip: float = 0.0, betas: tuple[float, float] = (0, 0)
    ) -> None:
        from tinker import types

        data = [[self._make_row(length, factor * self._advantage) for length in lengths] for lengths in calls]
        adam = types.AdamParams(learning_rate=FASTEST, beta1=betas[0], beta2=betas[1], eps=1.0, grad_clip_norm=clip)

        def work() -> None:
            passes = [client.forward_backward(one, "importance_sampling") for one in data]
            stepping = client.optim_step(adam)
            for one in (*passes, stepping):
                one.result()

        self._service.ask(work, "a training step")

    def _find_weights(self) -> None:
        try:
            self._measure_effect([[SHORT]])
        except RunFailed:
            self._weights = False

    def _measure_reduction(self) -> tuple[Within, Across]:
        """Return how losses become one, from how far steps go; raises `ConfigError` if that fits no known way.

        Steps are nearly linear that move log-probabilities little, and measured well that move them by more than rounding does.
        """
        target = min(0.5, max(0.01, 20 * self._mismatch))
        for _ in range(12):
            self._base = base = self._measure_effect([[SHORT]])
            if target / 2 < base < target * 2:
                break
            if abs(base) < target / 2:
                self._advantage *= min(10.0, target / max(abs(base), 1e-9))
            else:  # so far from linear that it cannot be taken back
                self._advantage /= 5
                self._client = self._service.make_training_client(seed=1)
        if not base > 0:
            self._refuse(f"a step with a positive advantage made the answer less likely, by {-base:.2g} nats")
        mixed, twice = (self._measure_effect(calls) for calls in ([[len(TRAINED), SHORT]], [[SHORT], [SHORT]]))
        doubled = self._measure_effect([[SHORT]], factor=2.0)
        prompt = 0 if self._weights else len(PROMPT) - 1
        tokens = (SHORT + prompt) / (SHORT + len(TRAINED) + 2 * prompt)
        within = _choose(mixed / base, {"sum": 1.0, "rows": 0.5, "tokens": tokens})
        across = _choose(twice / base, {"adds": 2.0, "averages": 1.0})
        known = _choose(doubled / base, {"linear": 2.0}) and within and across and (within, across) != ("sum", "averages")
        if self._service.options.reduction is not None:
            return self._service.options.reduction, cast("Any", across or "adds")
        if not known:
            self._refuse(
                f"what it makes of the losses of a call fits no known way: a step on a row moved its log-probability {base:.3g} "
                f"nats, next to a longer row without advantage {mixed:.3g}, in two calls {twice:.3g}, with twice the advantage "
                f"{doubled:.3g}. If you know that it takes their sum, set tinker.reduction: sum"
            )
        return cast("Within", within), cast("Across", across)

    def _save_and_load(self) -> Any:
        name = f"probe-{datetime.now(UTC):%Y%m%d%H%M%S%f}"
        path = self._service.ask(lambda: self._client.save_state(name), "a saved state").path
        return self._service.load_training_client(path, optimizer=True)

    def _saves_once(self) -> bool:
        first = self._score(self._save_and_load(), TRAINED)
        self._step(self._client, [[SHORT]], 3.0)
        now, second = (self._score(client, TRAINED) for client in (self._client, self._save_and_load()))
        return bool(np.abs(second - first).max() < np.abs(second - now).max())

    def _resumes_exactly(self) -> bool:
        self._client = self._service.make_training_client(seed=1)
        self._step(self._client, [[SHORT]], 1.0, betas=(0.9, 0.999))
        other, scores = self._save_and_load(), []
        for client in (self._client, other):
            self._step(client, [[SHORT]], 1.0, betas=(0.9, 0.999))
            scores.append(self._score(client, TRAINED))
        return np.array_equal(scores[0], scores[1])


def sample_once(service: Service, sampler: Any, **params: Any) -> Any:
    """Return one answer to the probe's prompt, of one token unless `params` say more."""
    from tinker import types

    sampling, prompt = types.SamplingParams(**{"max_tokens": 1, "seed": 0, **params}), types.ModelInput.from_ints(list(PROMPT))
    answer = service.ask(lambda: sampler.sample(prompt=prompt, num_samples=1, sampling_params=sampling), "a sample")
    return answer.sequences[0]


def _choose(ratio: float, expected: dict[str, float]) -> str | None:
    """Return the name of the expected ratio that is near; None if none is."""
    if not ratio > 0:
        return None
    apart = {name: abs(math.log(ratio / value)) for name, value in expected.items()}
    best = min(apart, key=lambda name: apart[name])
    return best if apart[best] < NEAR else None
