"""A teacher at a server that speaks vLLM's JSON.

The stand-in knows no model: it gives each token -id / 10. So it hides whether vLLM's numbers are those of the model, whether they
stay so in batches, and what vLLM refuses; `plugins/astuner-vllm/tests/real/test_teacher.py` asks a real one.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from made_up_outcomes import play

from astuner.contract.errors import ConfigError
from astuner.contract.protocols import Outcome
from astuner.contract.schema import Sample
from astuner.settings.config.model import Config, Model
from astuner.settings.config.rollout import Rollout
from astuner.shared.clients import LLMFailed
from astuner_algorithms.streams import Opd
from astuner_devkit.project import write_tokenizer
from astuner_devkit.run_infos import run_info

ROOM = 100


class StandIn(ThreadingHTTPServer):
    """Answers as a vLLM server would, with what the test sets."""

    served: Sequence[str] = ("big",)
    key = ""
    reads_otherwise = False
    scores = True
    failures = 0
    """How many requests for scores are answered 503 first."""

    def __init__(self, tokenizer: Any) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.tokenizer, self.seen = tokenizer, list[dict[str, Any]]()

    def answer(self, path: str, asked: dict[str, Any]) -> tuple[int, Any]:
        if path == "/v1/models":
            return 200, {"object": "list", "data": [{"id": one, "object": "model", "max_model_len": ROOM} for one in self.served]}
        if path == "/tokenize":
            ids = self.tokenizer.encode(asked["prompt"], add_special_tokens=asked["add_special_tokens"])
            return 200, {"tokens": ids[::-1] if self.reads_otherwise else ids, "count": len(ids), "max_model_len": ROOM}
        self.seen.append(asked)
        if self.failures:
            self.failures -= 1
            return 503, {"error": {"message": "loading"}}
        entries = [{str(one): {"logprob": -one / 10, "rank": 1, "decoded_token": "?"}} for one in asked["prompt"]]
        choice: dict[str, Any] = {"index": 0, "text": "?", "finish_reason": "length", "logprobs": None}
        if self.scores and asked["prompt_logprobs"] == 0:
            choice["prompt_logprobs"] = [None, *entries[1:]]
        usage = {"prompt_tokens": len(entries), "completion_tokens": 1, "total_tokens": len(entries) + 1}
        facts = {"id": "cmpl-1", "object": "text_completion", "created": 0, "model": asked["model"]}
        return 200, {**facts, "choices": [choice], "usage": usage}


class Handler(BaseHTTPRequestHandler):
    server: StandIn

    def do_GET(self) -> None:
        self._reply({})

    def do_POST(self) -> None:
        self._reply(json.loads(self.rfile.read(int(self.headers["content-length"]))))

    def _reply(self, asked: dict[str, Any]) -> None:
        allowed = not self.server.key or self.headers["authorization"] == f"Bearer {self.server.key}"
        status, answer = self.server.answer(self.path, asked) if allowed else (401, {"error": {"message": "who are you?"}})
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    write_tokenizer(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def server(model: Path) -> Iterator[StandIn]:
    from transformers import AutoTokenizer

    with StandIn(AutoTokenizer.from_pretrained(model)) as made:
        serving = threading.Thread(target=made.serve_forever, daemon=True)
        serving.start()
        yield made
        made.shutdown()
        serving.join()


def open_teacher(server: StandIn, model: Path, *, temperature: float = 1.0, longest: int = ROOM - 1, **options: Any) -> Opd:
    rollout = Rollout(temperature=temperature, max_model_len=longest)
    run = run_info(model.parent, config=Config(model=Model(path=str(model)), rollout=rollout))
    return Opd.from_run(Opd.Options(teacher=f"http://127.0.0.1:{server.server_port}/v1", **options), run)


def outcome(*samples: tuple[Sequence[int], Sequence[int]], agent: str = "agent") -> Outcome:
    """Return an agent's outcome with samples of (ids, mask), each trained token sampled with a log-probability of -1."""
    played = play(0.0, agent=agent)
    whose: dict[str, Any] = {"episode_id": played.episode.id, "task_id": "t", "repeat": 0, "calls": (0,)}
    made = tuple(
        Sample(
            ids=np.array(ids, np.int32),
            mask=np.array(mask, np.bool_),
            logprobs=-np.array(mask, np.float32),
            agent=agent,
            **whose,
        )
        for ids, mask in samples
    )
    other = evolve(made[0], agent="another", ids=made[0].ids + 50)
    trained = sum(sum(mask) for _, mask in samples)
    return evolve(
        played,
        episode=evolve(played.episode, samples=(other, *made)),
        logprobs=np.full(trained, -1.0),
        calls=np.zeros(trained, int),
    )


def test_the_advantage_of_a_token_is_by_how_much_the_teacher_prefers_it(server: StandIn, model: Path) -> None:
    estimator = open_teacher(server, model, most=2.0)
    assert estimator.traits.scored_by == ()
    server.seen.clear()
    first = outcome(([4, 5, 6, 7, 8], [0, 1, 0, 1, 0]), ([3, 20], [0, 1]), ([3], [0]))
    second = outcome(([9, 90, 1], [0, 1, 1]))
    found = estimator.signal([[first], [second]])
    advantages = [np.asarray(one.advantages).tolist() for siblings in found for one in siblings]
    # -id / 10 + 1, within 2
    assert advantages == [pytest.approx([0.5, 0.3, -1.0]), pytest.approx([-2.0, 0.9])]
    # Up to the last trained token of each sample; what trains nothing, and other agents', is not sent.
    assert sorted(one["prompt"] for one in server.seen) == [[3, 20], [4, 5, 6, 7], [9, 90, 1]]
    assert {(one["model"], one["max_tokens"], one["temperature"]) for one in server.seen} == {("big", 1, 1.0)}


def test_it_is_asked_in_a_running_loop_too(server: StandIn, model: Path) -> None:
    async def ask() -> Any:
        return open_teacher(server, model).signal([[outcome(([4, 5], [0, 1]))]])

    (found,) = asyncio.run(ask())
    assert np.asarray(found[0].advantages).tolist() == pytest.approx([0.5])


def test_a_server_that_fails_for_a_moment_is_asked_again(server: StandIn, model: Path) -> None:
    estimator = open_teacher(server, model)
    server.failures = 1
    (found,) = estimator.signal([[outcome(([4, 5], [0, 1]))]])
    assert np.asarray(found[0].advantages).tolist() == pytest.approx([0.5])


def test_a_server_that_stops_scoring_is_named(server: StandIn, model: Path) -> None:
    estimator = open_teacher(server, model)
    server.scores = False
    with pytest.raises(LLMFailed, match=r"the teacher 'big' at http://127.* gave no log-probabilities"):
        estimator.signal([[outcome(([4, 5], [0, 1]))]])


@pytest.mark.parametrize(
    ("faults", "options", "said"),
    [
        ({"reads_otherwise": True}, {}, "opd.teacher: 'big' at http://.*/v1 has another tokenizer than .*/model: serve a model"),
        ({"scores": False}, {}, r"opd.teacher: .* gave no log-probabilities of .* It must be a server of vLLM"),
        ({"served": ("big", "small")}, {}, "serves 2 models, .*opd.served_name names none: set .* to one of big, small"),
        ({}, {"served_name": "huge"}, "serves no 'huge': set .*opd.served_name to one of big"),
        ({}, {"longest": ROOM}, f"'big' has room for {ROOM} tokens, and episodes may have {ROOM} .*--max-model-len {ROOM + 1}"),
        ({}, {"temperature": 0.9}, "astuner.rollout.temperature: 0.9: the server at .* at temperature 1.* Set it to 1"),
        ({}, {"api_key_env": "NO_SUCH_KEY"}, "opd.api_key_env: NO_SUCH_KEY: there is no such environment variable"),
        ({"key": "right"}, {}, "answered 401: .*The keys come from .*opd.api_key_env"),
    ],
)
def test_what_cannot_score_is_refused_before_the_run(
    server: StandIn, model: Path, faults: dict[str, Any], options: dict[str, Any], said: str
) -> None:
    for name, value in faults.items():
        setattr(server, name, value)
    with pytest.raises(ConfigError, match=said):
        open_teacher(server, model, **options)


def test_a_server_that_is_not_there_is_refused(server: StandIn, model: Path) -> None:
    server.shutdown()
    server.server_close()
    with pytest.raises(ConfigError, match=r"opd.teacher: the teacher at http://.* could not be reached"):
        open_teacher(server, model)


def test_the_key_and_the_name_are_sent(server: StandIn, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server.key, server.served = "right", ("big", "small")
    monkeypatch.setenv("TEACHERS_KEY", "right")
    open_teacher(server, model, served_name="small", api_key_env="TEACHERS_KEY")
    assert {one["model"] for one in server.seen} == {"small"}


def test_the_key_of_another_service_is_not_sent(server: StandIn, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "another")
    server.key = "another"
    with pytest.raises(ConfigError, match="answered 401"):
        open_teacher(server, model)
