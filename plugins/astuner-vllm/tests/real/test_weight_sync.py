from __future__ import annotations

import json
import threading

import httpx
import pytest

PROMPT = list(range(5, 205))


def assert_serves(server, models, name):
    found = server.generate(PROMPT)
    expected = models.logits(name, PROMPT, found["token_ids"]).log_softmax(-1)
    assert expected.argmax(-1).tolist() == found["token_ids"]
    values = [entry["logprob"] for entry in found["logprobs"]["content"]]
    assert expected.amax(-1).tolist() == pytest.approx(values, abs=1e-4)


@pytest.fixture
def tied(tied_server, models):
    yield tied_server
    tied_server.load_weights(models.path("tied-0"), "0")


def test_a_tied_model_serves_new_weights_and_the_first_ones_again(tied, models):
    for version, name in enumerate(("tied-0", "tied-1", "tied-2", "tied-0")):
        tied.load_weights(models.path(name), str(version))
        assert_serves(tied, models, name)


@pytest.mark.slow
def test_an_untied_model_serves_new_weights_and_the_first_ones_again(untied_server, models):
    for version, name in enumerate(("untied-0", "untied-1", "untied-0")):
        untied_server.load_weights(models.path(name), str(version))
        assert_serves(untied_server, models, name)


def test_a_single_file_is_as_good_as_a_directory(tied, models):
    tied.load_weights(models.path("tied-1") / "model.safetensors", "1")
    assert_serves(tied, models, "tied-1")


def test_the_version_is_told_and_named_with_each_answer(tied, models):
    tied.load_weights(models.path("tied-1"), "17")
    assert httpx.get(f"{tied.url}/weight_info", headers=tied.headers, timeout=60).json() == {"weight_version": "17"}
    assert tied.generate(PROMPT, max_tokens=3)["weight_versions"] == [{"version": "17", "start": 0, "end": 3}]


def test_a_path_that_is_not_there_leaves_the_served_weights(tied, models):
    tied.post("/start_weight_update")
    answer = tied.post("/update_weights", {"update_info": {"path": "/not/there"}})
    assert (answer.status_code, "/not/there" in answer.text) == (500, True)
    assert_serves(tied, models, "tied-0")


def test_a_file_that_was_cut_off_leaves_the_served_weights(tied, models, tmp_path):
    whole = (models.path("tied-1") / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    tied.post("/start_weight_update")
    assert tied.post("/update_weights", {"update_info": {"path": str(tmp_path)}}).status_code == 500
    assert_serves(tied, models, "tied-0")


def test_weights_that_are_missing_are_named(tied, models, tmp_path):
    from safetensors.torch import load_file, save_file

    weights = load_file(models.path("tied-1") / "model.safetensors")
    del weights["model.layers.1.mlp.down_proj.weight"]
    save_file(weights, tmp_path / "model.safetensors")
    tied.post("/start_weight_update")
    answer = tied.post("/update_weights", {"update_info": {"path": str(tmp_path)}})
    assert "lacks 1 weights of the model, model.layers.1.mlp.down_proj.weight" in answer.text
    tied.load_weights(models.path("tied-1"), "1")
    assert_serves(tied, models, "tied-1")


ENDLESS = 60_000
"""More tokens than a server samples while it is told something else."""


class Answer(threading.Thread):
    """An answer that is under way until `stop`, or until it has all of its tokens."""

    def __init__(self, server, size):
        super().__init__()
        self.server, self.size, self.ids, self.last = server, size, [], {}
        self.came = threading.Condition()
        self.start()
        self.wait_for(1)

    def run(self):
        body = self.server.body([5, 6, 7, 8], stream=True, temperature=1.0, seed=1, max_tokens=self.size)
        url = f"{self.server.url}/inference/v1/generate"
        sent = {**body, "request_id": "answer"}
        with httpx.stream("POST", url, json=sent, headers=self.server.headers, timeout=60) as answer:
            for line in answer.iter_lines():
                if line.startswith("data: {"):
                    with self.came:
                        self.last = json.loads(line[6:])["choices"][0]
                        self.ids += self.last["token_ids"]
                        self.came.notify_all()

    def wait_for(self, more):
        with self.came:
            wanted = len(self.ids) + more
            assert self.came.wait_for(lambda: len(self.ids) >= wanted, timeout=60)

    def stop(self):
        self.server.post("/inference/v1/abort_requests", {"request_ids": ["generate-tokens-answer"]})
        self.join(60)
        assert self.last["finish_reason"] == "abort"


def change_weights(server, path, mode):
    assert server.post(f"/pause?mode={mode}").status_code == 200
    server.load_weights(path, "new")
    assert server.post("/resume").status_code == 200


def test_an_answer_that_is_kept_goes_on_with_the_new_weights_and_says_from_where(tied, models):
    tied.load_weights(models.path("tied-0"), "old")
    answer = Answer(tied, ENDLESS)
    change_weights(tied, models.path("tied-1"), "keep")
    answer.wait_for(100)
    answer.stop()
    old, new = answer.last["weight_versions"]
    assert ("old", 0, "new", len(answer.ids)) == (old["version"], old["start"], new["version"], new["end"])
    assert 0 < old["end"] == new["start"] < len(answer.ids)


def test_an_answer_that_is_waited_for_ends_with_the_old_weights(tied, models):
    tied.load_weights(models.path("tied-0"), "old")
    answer = Answer(tied, 200)
    change_weights(tied, models.path("tied-1"), "wait")
    answer.join(60)
    assert answer.last["weight_versions"] == [{"version": "old", "start": 0, "end": 200}]


def test_an_answer_that_is_aborted_keeps_what_it_has(tied, models):
    tied.load_weights(models.path("tied-0"), "old")
    answer = Answer(tied, ENDLESS)
    change_weights(tied, models.path("tied-1"), "abort")
    answer.join(60)
    assert (answer.last["finish_reason"], 0 < len(answer.ids) < ENDLESS) == ("abort", True)
    assert answer.last["weight_versions"] == [{"version": "old", "start": 0, "end": len(answer.ids)}]
