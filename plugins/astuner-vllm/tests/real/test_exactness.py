from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
import torch

PROMPTS = [[5, 6, 7, 8], list(range(5, 205))]


def logprobs(choice):
    return [entry["logprob"] for entry in choice["logprobs"]["content"]]


def cut(logits, *, temperature=1.0, top_p=1.0, top_k=-1):
    """The sampling distribution, written down from its definition: [ids, vocabulary] of log-probabilities."""
    scaled = logits.double() / temperature
    ordered, order = scaled.sort(dim=-1, descending=True)
    place = torch.arange(ordered.shape[-1])
    keep = place < (top_k if top_k > 0 else ordered.shape[-1])
    probabilities = ordered.masked_fill(~keep, -torch.inf).softmax(-1)
    keep = keep & (probabilities.cumsum(-1) - probabilities < top_p)
    return torch.empty_like(scaled).scatter(-1, order, ordered.masked_fill(~keep, -torch.inf)).log_softmax(-1)


@pytest.mark.parametrize("prompt", PROMPTS, ids=["short", "long"])
def test_greedy_ids_and_logprobs_are_those_of_transformers(prompt, tied_server, models):
    found = tied_server.generate(prompt)
    expected = models.logits("tied-0", prompt, found["token_ids"]).log_softmax(-1)
    assert expected.argmax(-1).tolist() == found["token_ids"]
    assert expected.amax(-1).tolist() == pytest.approx(logprobs(found), abs=1e-4)


@pytest.mark.parametrize(
    "sampling",
    [
        {"temperature": 0.9, "top_p": 0.8},
        {"temperature": 0.9},
        {"temperature": 1.0, "top_k": 5},
        {"temperature": 0.6, "top_p": 0.7, "top_k": 20},
    ],
    ids=str,
)
def test_logprobs_are_those_of_the_sampling_distribution(sampling, tied_server, models):
    found = tied_server.generate(PROMPTS[1], seed=3, max_tokens=64, **sampling)
    ids = torch.tensor(found["token_ids"])
    distribution = cut(models.logits("tied-0", PROMPTS[1], found["token_ids"]), **sampling)
    expected = distribution.gather(1, ids[:, None])[:, 0].tolist()
    assert expected == pytest.approx(logprobs(found), abs=1e-4)


def test_a_seed_gives_the_same_answer_whether_the_prompt_is_read_in_pieces_or_at_once(tied_server):
    prompt = [5 + number % 200 for number in range(6000)]
    in_pieces, with_its_prefix_cached = (tied_server.generate(prompt, seed=3, temperature=1.0) for _ in range(2))
    assert in_pieces["token_ids"] == with_its_prefix_cached["token_ids"]


def test_requests_in_one_batch_have_each_their_own_distribution(tied_server, models):
    samplings = [{"temperature": 0.5, "top_p": 0.6}, {"temperature": 1.0, "top_p": 0.9}, {"temperature": 1.0, "top_k": 3}]
    with ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(lambda sampling: tied_server.generate(PROMPTS[0], seed=1, max_tokens=100, **sampling), samplings))
    for sampling, found in zip(samplings, answers, strict=True):
        distribution = cut(models.logits("tied-0", PROMPTS[0], found["token_ids"]), **sampling)
        expected = distribution.gather(1, torch.tensor(found["token_ids"])[:, None])[:, 0].tolist()
        assert expected == pytest.approx(logprobs(found), abs=1e-4)


def test_the_most_likely_ids_come_with_their_logprobs(tied_server, models):
    found = tied_server.generate(PROMPTS[0], max_tokens=1, logprobs=3)
    expected = models.logits("tied-0", PROMPTS[0], found["token_ids"]).log_softmax(-1)[0].topk(3)
    (entry,) = found["logprobs"]["content"]
    assert expected.indices.tolist() == [top["token_id"] for top in entry["top_logprobs"]]
    assert expected.values.tolist() == pytest.approx([top["logprob"] for top in entry["top_logprobs"]], abs=1e-4)


def test_a_stop_id_ends_the_answer_and_is_part_of_it(tied_server):
    plain = tied_server.generate(PROMPTS[0], temperature=1.0, seed=5)["token_ids"]
    found = tied_server.generate(PROMPTS[0], temperature=1.0, seed=5, stop_token_ids=[plain[4]])
    assert plain[: plain.index(plain[4]) + 1] == found["token_ids"]
    assert found["finish_reason"] == "stop"


def test_one_seed_gives_one_answer(tied_server):
    first, again, other = (tied_server.generate(PROMPTS[0], temperature=1.0, seed=seed)["token_ids"] for seed in (2, 2, 3))
    assert first == again != other


def test_a_stream_gives_the_same_ids_and_logprobs_bit_by_bit(tied_server):
    sampling = {"temperature": 0.9, "top_p": 0.8, "seed": 4}
    whole = tied_server.generate(PROMPTS[0], **sampling)
    body = tied_server.body(PROMPTS[0], stream=True, **sampling)
    url = f"{tied_server.url}/inference/v1/generate"
    with httpx.stream("POST", url, json=body, headers=tied_server.headers, timeout=60) as answer:
        parts = [json.loads(line[6:])["choices"][0] for line in answer.iter_lines() if line.startswith("data: {")]
    assert whole["token_ids"] == [token for part in parts for token in part["token_ids"]]
    assert logprobs(whole) == [value for part in parts if part["logprobs"] for value in logprobs(part)]
    assert len(parts) > 1


@pytest.mark.parametrize("path", ["/inference/v1/generate", "/update_weights", "/pause", "/collective_rpc"])
def test_nothing_is_done_for_a_client_without_the_key(path, tied_server):
    assert httpx.post(tied_server.url + path, json={}, timeout=60).status_code == 401
