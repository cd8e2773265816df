"""The judge `llm` scores answers one by one, and a failure of its LLM is never a score."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from attrs import evolve

from astuner.contract.errors import ConfigError, DataError
from astuner.contract.schema import Task, Unjudged, Verdict
from astuner.settings.config.components import TaskJudge
from astuner.settings.config.model import Config
from astuner.shared.clients.llm_endpoint import NoEndpoint
from astuner_devkit.scripted_api import Reply, make_completion

SCORES = {"4": 10, "four, I think": 7.5, "5": 0}


def score(work: str) -> dict[str, Any]:
    return {"rationale": f"it says {work}", "score": SCORES[work]}


def test_a_score_becomes_a_reward_with_its_rationale(bench: Any) -> None:
    bench.answer(score)
    assert bench("4", "four, I think", "5") == [
        Verdict(1.0, components={"score": 10.0}, rationale="it says 4"),
        Verdict(0.75, components={"score": 7.5}, rationale="it says four, I think"),
        Verdict(0.0, components={"score": 0.0}, rationale="it says 5"),
    ]


def test_a_number_written_as_a_text_is_a_number(bench: Any) -> None:
    bench.answer(lambda work: '{"score": "7"}')
    assert bench("4") == [Verdict(0.7, components={"score": 7.0})]


def test_scores_lie_in_the_range_that_is_asked_for(bench: Any) -> None:
    bench.answer(lambda work: {"score": -1, "rationale": ""})
    assert bench("4", min_score=-1, max_score=1) == [Verdict(0.0, components={"score": -1.0})]
    assert "Score it from -1 (worst) to 1 (best)" in bench.api.prompts()[0]
    assert "a number from -1 to 1" in bench.api.bodies[0]["messages"][0]["content"]


def test_a_success_is_a_score_from_the_threshold_on(bench: Any) -> None:
    bench.answer(score)
    assert [finding.is_success for finding in bench("4", "four, I think", "5", success_threshold=7.5)] == [True, True, False]


def test_an_episode_that_failed_gets_no_finding(bench: Any) -> None:
    bench.answer(score)
    assert [finding.reward for finding in bench("4", RuntimeError(), "5")] == [1.0, 0.0]


def test_no_answer_is_the_worst_answer_and_is_not_asked_about(bench: Any) -> None:
    assert (
        bench(None, "  ", success_threshold=5)
        == [Verdict(0.0, False, components={"score": 0.0}, rationale="No answer was given.")] * 2
    )
    assert bench.api.bodies == []


@pytest.mark.parametrize("options", [{}, {"transcript_chars": 500}, {"mode": "pairwise"}, {"mode": "listwise"}], ids=str)
def test_an_output_without_the_key_of_answers_is_no_bad_answer(bench: Any, options: dict[str, Any]) -> None:
    bench.answer(lambda *works: GOOD[options.get("mode", "pointwise")])
    elsewhere = bench.output({"answer": "4", "turns": 2})
    first, second, third = bench(elsewhere, "4", "5", **options)
    assert isinstance(first, Unjudged)
    assert first.reason == "no_answer"
    assert "no metadata['final_answer'] (there is: answer, turns)" in first.detail
    assert "set answer_key" in first.detail
    assert isinstance(second, Verdict)
    assert isinstance(third, Verdict)
    (alone,) = bench(bench.output({}), **options)
    assert "(there is: nothing)" in alone.detail


GOOD = {
    "pointwise": {"rationale": "", "score": 5},
    "pairwise": {"rationale": "", "winner": "tie"},
    "listwise": {"rationale": "", "ranking": [1, 2]},
}


def test_a_mistyped_key_of_answers_gives_no_reward_at_all(bench: Any) -> None:
    findings = bench("4", "5", answer_key="final_anwser", success_threshold=5)
    assert [finding.reason for finding in findings] == ["no_answer"] * 2
    assert bench.api.bodies == []


def test_an_answer_without_siblings_that_can_be_judged_is_alone(bench: Any) -> None:
    missing, lone = bench(bench.output({}), "4", mode="listwise")
    assert (missing.reason, lone.reason) == ("no_answer", "no_siblings")


def test_the_same_answer_is_asked_about_once(bench: Any) -> None:
    bench.answer(score)
    assert [finding.reward for finding in bench("4", "5", "4", "4")] == [1.0, 0.0, 1.0, 1.0]
    assert len(bench.api.bodies) == 2


@pytest.mark.parametrize("said", ["10", "It is a 10.", '{"score": "ten"}', '{"score": 11}', '{"grade": 10}', '{"score": NaN}'])
def test_what_is_no_score_is_asked_for_again_and_then_no_verdict(bench: Any, said: str) -> None:
    bench.answer(lambda work: said)
    (finding,) = bench("4", attempts=2)
    assert isinstance(finding, Unjudged)
    assert finding.reason == "llm_no_verdict"
    assert "no answer of the requested form in 2 attempts" in finding.detail
    assert len(bench.api.bodies) == 2


def test_an_answer_of_another_form_is_followed_by_a_good_one(bench: Any) -> None:
    bench.api.script = lambda body, number: "Let me think." if number == 0 else '{"rationale": "now", "score": 5}'
    assert bench("4") == [Verdict(0.5, components={"score": 5.0}, rationale="now")]


@pytest.mark.parametrize(
    ("reply", "reason", "told"),
    [
        (Reply(429, {"error": {"message": "slow down"}}), "llm_failed", "answered 429"),
        (Reply(500, {}), "llm_failed", "answered 500"),
        (Reply(0), "llm_failed", "could not be reached"),
        (Reply(400, {"error": {"message": "indecent"}}), "llm_no_verdict", "answered 400"),
        (make_completion(None, finish_reason="content_filter"), "llm_no_verdict", "finish_reason: content_filter"),
    ],
    ids=["rate limit", "server error", "lost connection", "filtered question", "filtered answer"],
)
def test_a_failure_is_one_episode_s_and_no_score(bench: Any, reply: Reply, reason: str, told: str) -> None:
    bench.answer(lambda work: score("4") if work == "4" else reply)
    right, other = bench("4", "5")
    assert right.reward == 1.0
    assert isinstance(other, Unjudged)
    assert other.reason == reason
    assert told in other.detail


def test_a_rate_limit_that_passes_is_waited_for(bench: Any) -> None:
    bench.api.script = lambda body, number: Reply(429, {}) if number == 0 else json.dumps(score("4"))
    assert [finding.reward for finding in bench("4", llm={"max_retries": 1})] == [1.0]


def test_an_llm_that_hangs_is_given_up(bench: Any) -> None:
    bench.api.pause_s = 1.0
    (finding,) = bench("4", llm={"timeout_s": 0.2})
    assert (finding.reason, "no answer within 0.2 s" in finding.detail) == ("llm_failed", True)


def test_a_spent_budget_is_no_verdict_and_what_was_judged_stays(bench: Any) -> None:
    bench.answer(score)
    findings = bench("4", "four, I think", "5", llm={"max_requests": 2, "concurrency": 1})
    assert [type(finding) for finding in findings] == [Verdict, Verdict, Unjudged]
    assert findings[2].reason == "llm_budget"
    assert "max_requests: 2 is reached" in findings[2].detail
    assert len(bench.api.bodies) == 2


def test_a_cost_limit_counts_the_tokens_that_the_api_tells(bench: Any) -> None:
    bench.api.script = lambda body, number: make_completion('{"score": 1}', prompt_tokens=900, completion_tokens=100)
    prices = {"prompt_price": 1000.0, "completion_price": 1000.0, "max_cost": 2.5, "concurrency": 1}
    findings = bench("1", "2", "3", max_tokens=10, llm=prices)
    assert [type(finding) for finding in findings] == [Verdict, Verdict, Unjudged]
    assert "cost 2" in findings[2].detail


def test_what_is_in_the_cache_is_not_asked_again(bench: Any) -> None:
    bench.answer(score)
    first = bench("4", "5", llm={"cache": "cache/answers.sqlite"})
    assert bench("4", "5", llm={"cache": "cache/answers.sqlite"}) == first
    assert len(bench.api.bodies) == 2
    assert (bench.home / "cache" / "answers.sqlite").exists()


def test_a_run_that_was_killed_goes_on_where_it_was(bench: Any) -> None:
    options = {"llm": {"cache": "answers.sqlite", "concurrency": 1, "max_retries": 9}}
    bench.api.script = lambda body, number: Reply(503, {}, {"retry-after": "60"}) if number == 2 else '{"score": 5}'

    async def killed() -> None:
        # Left as a killed process leaves it: neither finished nor closed.
        asked = asyncio.create_task(bench.judge(options).judge(bench.group("1", "2", "3")))
        while len(bench.api.bodies) < 3:
            await asyncio.sleep(0.01)
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)

    asyncio.run(killed())
    bench.api.script = lambda body, number: '{"score": 5}'
    assert [finding.reward for finding in bench("1", "2", "3", **options)] == [0.5] * 3
    assert len(bench.api.bodies) == 4


def test_only_so_many_questions_are_under_way(bench: Any) -> None:
    bench.answer(lambda work: {"score": 5})
    bench.api.pause_s = 0.3
    bench(*map(str, range(9)), llm={"concurrency": 3})
    assert bench.api.most_under_way == 3


def test_keys_take_turns_and_a_refused_one_gives_way_to_the_backup(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"DASHSCOPE_API_KEY": "key-a|key-b", "DASHSCOPE_API_KEY_BACKUP": "key-spare"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("DASHSCOPE_BASE_URL", bench.api.url)
    monkeypatch.setenv("OPENAI_BASE_URL", "")
    refused = Reply(401, {"error": {"message": "no such key"}})
    bench.api.script = lambda body, number: '{"score": 5}' if bench.api.keys[number] == "key-spare" else refused
    (finding,) = bench("4", llm={"max_retries": 4})
    assert finding.reward == 0.5
    assert bench.api.keys == ["key-a", "key-b", "key-spare"]


def test_the_model_and_the_length_are_those_of_the_section_where_the_options_name_none(bench: Any) -> None:
    bench.answer(score)
    config = Config(task_judge=TaskJudge(alien_llm_model="referee", alien_llm_response_length=77))
    bench.by(bench.judge(config=config), "4")
    bench.by(bench.judge({"max_tokens": 9, "llm": {"model_name": "other"}}, config=config), "4")
    assert [(body["model"], body["max_tokens"]) for body in bench.api.bodies] == [("referee", 77), ("other", 9)]


def test_the_totals_of_a_process_are_kept_beside_the_run(bench: Any) -> None:
    bench.api.script = lambda body, number: make_completion('{"score": 1}', prompt_tokens=100, completion_tokens=10)
    bench("1", "2", llm={"prompt_price": 10.0})
    (line,) = (bench.home / "run" / "logs" / "llm_judge.jsonl").read_text().splitlines()
    row = json.loads(line)
    assert {name: row[name] for name in ("judge", "requests", "cached", "prompt_tokens", "completion_tokens", "cost")} == {
        "judge": "llm",
        "requests": 2,
        "cached": 0,
        "prompt_tokens": 200,
        "completion_tokens": 20,
        "cost": 0.002,
    }


def test_closing_a_judge_closes_its_cache(bench: Any, caplog: pytest.LogCaptureFixture) -> None:
    judge = bench.judge({"llm": {"cache": "answers.sqlite"}})
    assert bench.by(judge, None)[0].reward == 0.0
    bench.answer(score)
    assert bench.by(judge, "4")[0].reward == 1.0
    assert "answers are not stored" in caplog.text
    assert "closed database" in caplog.text


def test_a_judge_that_is_tried_without_a_run_leaves_nothing_in_its_directory(bench: Any) -> None:
    bench.answer(score)
    bench.by(bench.judge(attempt=0), "4")
    assert len(bench.api.bodies) == 1
    assert not (bench.home / "run").exists()


def test_a_judge_that_was_asked_nothing_leaves_nothing(bench: Any) -> None:
    bench(None)
    assert not (bench.home / "run").exists()


class TestVotes:
    @pytest.mark.parametrize(
        ("how", "reward"), [("mean", 0.62), ("median", 0.7), ("majority", 0.3)], ids=["mean", "median", "majority"]
    )
    def test_several_scores_become_one(self, bench: Any, how: str, reward: float) -> None:
        by_seed = {0: 3, 1: 3, 2: 7, 3: 8, 4: 10}
        bench.api.script = lambda body, number: json.dumps({"score": by_seed[body["seed"]], "rationale": str(body["seed"])})
        (finding,) = bench("4", votes=5, vote_aggregation=how, llm={"temperature": 0.7})
        assert finding.reward == pytest.approx(reward)
        assert finding.components["agreement"] == 0.4
        assert {body["temperature"] for body in bench.api.bodies} == {0.7}

    def test_of_scores_that_are_as_frequent_the_lowest_counts(self, bench: Any) -> None:
        bench.api.script = lambda body, number: json.dumps({"score": [8, 2][body["seed"]]})
        (finding,) = bench("4", votes=2, vote_aggregation="majority", llm={"temperature": 0.7})
        assert finding.reward == 0.2

    def test_the_rationale_is_that_of_the_vote_that_is_nearest(self, bench: Any) -> None:
        bench.api.script = lambda body, number: json.dumps({"score": [1, 6, 8][body["seed"]], "rationale": str(body["seed"])})
        (finding,) = bench("4", votes=3, llm={"temperature": 0.7})
        assert finding.rationale == "1"

    def test_a_verdict_stands_on_more_than_half_of_the_votes(self, bench: Any) -> None:
        bench.api.script = lambda body, number: '{"score": 5}' if body["seed"] != 1 else Reply(500, {})
        (most,) = bench("4", votes=3, llm={"temperature": 0.7})
        (half,) = bench("4", votes=2, llm={"temperature": 0.7})
        assert most.reward == 0.5
        assert half.reason == "llm_failed"
        assert half.detail.startswith("1 of 2 questions have no answer; the first: LLM ")

    def test_votes_that_a_text_may_have_prevented_are_not_left_out(self, bench: Any) -> None:
        bench.api.script = lambda body, number: '{"score": 9}' if body["seed"] != 1 else "It asks for a high score."
        (finding,) = bench("4", votes=3, attempts=1, llm={"temperature": 0.7})
        assert finding.reason == "llm_no_verdict"

    def test_a_cache_keeps_each_vote(self, bench: Any) -> None:
        bench.api.script = lambda body, number: json.dumps({"score": body["seed"]})
        options = {"votes": 3, "llm": {"temperature": 1.0, "cache": "answers.sqlite", "extra": {"seed": 5}}}
        assert bench("4", **options) == bench("4", **options)
        assert sorted(body["seed"] for body in bench.api.bodies) == [5, 6, 7]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"min_score": 5, "max_score": 5}, r"max_score \(5\) has to be above min_score \(5\)"),
        ({"success_threshold": 11}, r"11 must be from min_score \(0\) to max_score \(10\)"),
        ({"criteria": "a", "criteria_file": "b"}, "exclude each other"),
        ({"votes": 3}, "at llm.temperature 0 are the same answer over and over"),
        ({"mode": "pairwise", "success_threshold": 5}, "has no effect with mode: pairwise; it belongs to pointwise"),
        ({"mode": "listwise", "max_score": 5}, "has no effect with mode: listwise"),
        ({"pairs_per_episode": 3}, "has no effect with mode: pointwise; it belongs to pairwise"),
        ({"orders": 4}, "has no effect with mode: pointwise; it belongs to listwise"),
        ({"lone_reward": 0.5}, "it belongs to pairwise and listwise"),
        ({"mode": "listwise", "orders": 1}, "orders"),
        ({"mode": "pointwize"}, "expected one of pointwise, pairwise, listwise"),
        ({"llm": {"max_cost": 3}}, "max_cost needs prompt_price"),
    ],
    ids=str,
)
def test_options_that_make_no_sense_are_found_at_the_start(bench: Any, options: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        bench.judge(options)


def test_without_an_endpoint_the_variables_are_named_at_the_start(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "")
    monkeypatch.setenv("OPENAI_API_KEY", "")
    with pytest.raises(NoEndpoint, match=r"judge 'llm' needs an LLM.*DASHSCOPE_API_KEY.*OPENAI_API_KEY.*OPENAI_BASE_URL"):
        bench.judge()


def test_a_task_without_a_query_raises_before_anything_is_asked(bench: Any) -> None:
    with pytest.raises(DataError, match="task 'blank' has neither a main_query nor init_messages"):
        evolve(bench, task=Task("", task_id="blank"))("4")
    assert bench.api.bodies == []
