"""Propose, evaluate, revise, and what becomes of failures."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from astuner.contract.errors import DataError, PluginError
from astuner.shared.clients.llm_budget import Budget
from astuner_devkit.scripted_api import Reply
from astuner_judges.embedding import EmbeddingOptions
from astuner_judges.rubrics.samples import Samples, read_samples
from astuner_judges.rubrics.shared_learning import SavedRubrics, load_or_learn

SMALL = {"evidence_samples": 3, "min_agreement": 0.6}


def learnt(workplace: Any, rows: Any, **more: Any) -> SavedRubrics:
    return load_or_learn(workplace.options(rows, **{**SMALL, **more}), workplace.run_info(), say=lambda text: None)


def asked(workplace: Any, mark: str) -> list[str]:
    return [prompt for prompt in workplace.api.prompts() if mark in prompt]


@pytest.fixture
def careful(noisy: Any) -> None:
    noisy.flips = 0.0


@pytest.mark.usefixtures("careful")
def test_rubrics_that_are_right_are_kept_and_others_are_not(workplace: Any, world: Any, telling: Any, empty: Any) -> None:
    rubrics = [theme.text for theme in learnt(workplace, world.rows(12, 1), evidence_samples=9, min_agreement=0.7).held.rubrics]
    assert rubrics
    assert all(any(word in rubric for word in telling) for rubric in rubrics)
    assert not any(word in rubric for rubric in rubrics for word in empty)


def test_each_example_is_asked_for_the_number_of_rubrics_that_is_wanted(workplace: Any, world: Any) -> None:
    kept = learnt(workplace, world.rows(4, 1), generate_number=3)
    assert len(asked(workplace, "Write 3 rubric(s)")) == 4
    assert kept.held.learnt is not None
    assert 4 < kept.held.learnt.counts["proposed"] <= 12


@pytest.mark.usefixtures("careful")
def test_a_rubric_is_rewritten_as_often_as_max_epochs_says(workplace: Any, world: Any, noisy: Any) -> None:
    # Scores every answer 0, which is wrong for the two good ones; each revision is another text, since equal ones are cached.
    noisy.always = "Look for nothing."
    workplace.api.script = lambda body, number: (
        json.dumps({"rubric": f"Look for nothing {number}."})
        if "leads to another assessment" in body["messages"][1]["content"]
        else noisy(body, number)
    )
    with pytest.raises(PluginError, match=r"4 proposed, 2 revised, 2 verified, 2 refuted"):
        learnt(workplace, world.rows(4, 1), max_epochs=3)
    assert len(asked(workplace, "leads to another assessment")) == 2 * 3


def test_what_is_expected_and_what_came_out_is_told(workplace: Any, world: Any) -> None:
    learnt(workplace, world.rows(6, 1))
    text = asked(workplace, "leads to another assessment")[0]
    expected, got = ("1", "0") if "The expert's assessment: 1" in text else ("0", "1")
    assert f"The expert's assessment: {expected}\nWhat the rubric led to: {got}" in text


def fail_where(noisy: Any, fails: Callable[[str], bool]) -> Callable[[Mapping[str, Any], int], Any]:
    refused = Reply(400, {"error": {"message": "no"}})
    return lambda body, number: refused if fails(body["messages"][1]["content"]) else noisy(body, number)


def test_a_failed_evaluation_is_no_verdict(workplace: Any, world: Any, noisy: Any) -> None:
    # Every evaluation fails: bad examples must not count as verified because a failure looks like the lowest score.
    workplace.api.script = fail_where(noisy, lambda text: '"verdicts"' in text)
    with pytest.raises(
        PluginError, match=r"no rubric was learnt \(8 examples, 8 proposed, 8 failed\); the first failure: .* 400"
    ):
        learnt(workplace, world.rows(8, 1))
    assert not (workplace.home / "run/rubrics/auto_grader.yaml").exists()


def test_evidence_that_failed_says_nothing(workplace: Any, world: Any, noisy: Any) -> None:
    rows = world.rows(8, 1)
    workplace.api.script = fail_where(noisy, lambda text: '"verdicts"' in text and rows[0]["final_answer"] in text)
    kept = learnt(workplace, rows, evidence_samples=7)
    assert kept.held.learnt is not None
    assert all(one.verdicts + one.failed == 7 for one in kept.held.learnt.rubrics)
    assert {one.failed for one in kept.held.learnt.rubrics} == {1}


def test_an_answer_of_another_form_is_asked_for_again(workplace: Any, world: Any, noisy: Any) -> None:
    def sloppy(body: Mapping[str, Any], number: int) -> str | Reply:
        said = noisy(body, number)
        return said.replace('"score": 1.0', '"score": 7') if len(body["messages"]) == 2 else said

    workplace.api.script = sloppy
    learnt(workplace, world.rows(6, 1))
    again = [body["messages"][-1]["content"] for body in workplace.api.bodies if len(body["messages"]) > 2]
    assert any("the score 7 of rubric 1 is not between 0 and 1" in text for text in again)


def test_smart_sampling_stops_when_nothing_new_comes(workplace: Any, world: Any, noisy: Any) -> None:
    noisy.flips = 0.0
    noisy.always = "The answer should contain units where they help."
    rows = [row for row in world.rows(60, 1) if ("units" in row["final_answer"]) == (row["score"] == 1.0)]
    kept = learnt(workplace, rows, sampling_mode="smart_sampling", batch_size=4, patience=2)
    assert kept.held.learnt is not None
    assert kept.held.learnt.counts["examples"] == 12
    assert len(kept.held.themes) == 1


def test_smart_sampling_ends_after_max_iterations(workplace: Any, world: Any) -> None:
    kept = learnt(workplace, world.rows(12, 3), sampling_mode="smart_sampling", batch_size=5, max_iterations=1, min_agreement=0.1)
    assert kept.held.learnt is not None
    assert kept.held.learnt.counts["examples"] == 5


def test_no_more_rubrics_are_chosen_than_wanted(workplace: Any, world: Any) -> None:
    assert len(learnt(workplace, world.rows(8, 1), max_total_rubrics=2).held.themes) == 2


def test_similar_rubrics_are_merged_into_themes_that_keep_each_of_them(workplace: Any, world: Any) -> None:
    held = learnt(workplace, world.rows(8, 1), aggregation_mode="merge_similar", merge_num_categories=2).held
    assert [theme.name for theme in held.rubrics] == ["theme_0", "theme_1"]
    assert held.learnt is not None
    assert sorted(tip for theme in held.rubrics for tip in theme.tips) == sorted(one.rubric for one in held.learnt.rubrics)


def test_rubrics_that_the_llm_does_not_sort_are_put_together_by_likeness(workplace: Any, world: Any, noisy: Any) -> None:
    workplace.api.script = fail_where(noisy, lambda text: '"themes"' in text)
    said: list[str] = []
    options = workplace.options(world.rows(8, 1), aggregation_mode="merge_similar", **SMALL)
    held = load_or_learn(options, workplace.run_info(), say=said.append).held
    assert len(held.themes) == 2
    assert any("by how alike they are spelled, since the LLM named no themes" in text for text in said)
    assert held.learnt is not None
    kept = sorted(text for theme in held.rubrics for text in (theme.theme, *theme.tips))
    assert kept == sorted(one.rubric for one in held.learnt.rubrics)


def test_ranked_answers_teach_a_listwise_grader(workplace: Any, world: Any, noisy: Any, telling: Any) -> None:
    noisy.flips = 0.0
    held = learnt(workplace, world.ranked_rows(6, 1), grader_mode="listwise", evidence_samples=5).held
    assert held.grader_mode == "listwise"
    assert all(any(word in theme.text for word in telling) for theme in held.rubrics)
    assert "The expert's order, the best first: " in asked(workplace, "Write 1 rubric(s)")[0]


def test_reference_answers_alone_are_good_examples_and_wrong_under_other_questions(workplace: Any, world: Any) -> None:
    rows = [{"main_query": row["main_query"], "answer": row["final_answer"]} for row in world.rows(8, 1)]
    workplace.api.script = lambda body, number: (
        json.dumps({"rubrics": ["Answer the question."]})
        if "Write 1" in body["messages"][1]["content"]
        else json.dumps({"verdicts": [{"rubric": 1, "score": float(_belong(body["messages"][1]["content"], rows))}]})
    )
    held = learnt(workplace, rows, evidence_samples=10).held
    assert held.learnt is not None
    assert [theme.theme for theme in held.rubrics] == ["Answer the question."]
    assert held.learnt.rubrics[0].verdicts == 10
    assert held.learnt.rubrics[0].agreement == 1.0


def _belong(text: str, rows: Any) -> bool:
    return any(row["main_query"] in text and row["answer"] in text for row in rows)


def test_the_prompts_are_in_the_language_that_is_chosen(workplace: Any, world: Any) -> None:
    workplace.api.script = lambda body, number: Reply(400, {})
    with pytest.raises(PluginError):
        learnt(workplace, world.rows(4, 1), language="zh")
    assert all("请" in body["messages"][1]["content"] for body in workplace.api.bodies)


def test_a_limit_of_the_budget_ends_learning_and_what_was_paid_is_kept(workplace: Any, world: Any) -> None:
    from astuner.shared.clients.llm_options import LLMOptions

    rows = world.rows(6, 1)
    with pytest.raises(
        PluginError, match=r"the limit max_requests: 20 is reached .*auto_grader.answers.sqlite: it is not paid twice"
    ):
        learnt(workplace, rows, llm=LLMOptions(max_requests=20))
    learnt(workplace, rows)
    texts = [json.dumps(body) for body in workplace.api.bodies]
    assert len(set(texts)) == len(texts)


def test_no_held_out_example_is_among_those_learnt_from(workplace: Any, world: Any) -> None:
    rows, fresh = world.rows(6, 1), world.rows(4, 2)
    training = {"file_path": workplace.write("train.jsonl", rows)}
    validation = {"file_path": workplace.write("validation.jsonl", [*rows[:3], *fresh])}
    said: list[str] = []
    options = workplace.options(rows, dataset_file={"training": training, "validation": validation}, **SMALL)
    held = load_or_learn(options, workplace.run_info(), say=said.append).held
    assert held.learnt is not None
    assert held.learnt.held_out is not None
    assert held.learnt.held_out.examples == 4
    assert any("3 samples of the validation split are among those learnt from" in text for text in said)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"main_query": "q", "final_answer": "a", "score": 1}], "1 labelled examples to learn from, and 4 are the fewest"),
        ([{"main_query": f"q{n}", "final_answer": "a", "score": 0} for n in range(4)], r"reaches success_threshold \(0.7\)"),
        ([{"main_query": "q", "candidates": [{"answer": "a", "rank": 1}, {"answer": "b", "rank": 2}]}], "grader_mode: listwise"),
        (
            [{"main_query": "q", "final_answer": "a", "score": score, "id": score} for score in (0, 1)],
            "the same but for the label: 0, 1",
        ),
    ],
)
def test_examples_that_teach_nothing_are_refused_before_anything_is_asked(workplace: Any, rows: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        learnt(workplace, rows)
    assert workplace.api.bodies == []


def scored_rows(questions: int, start: int = 0) -> list[dict[str, Any]]:
    """Three answers to each question, of which the last is the good one."""
    return [
        {
            "main_query": f"Question {n // 3}?",
            "final_answer": f"Here are steps. ({n})" if n % 3 == 2 else str(n),
            "score": n % 3 // 2,
        }
        for n in range(3 * start, 3 * (start + questions))
    ]


def samples_of(workplace: Any, training: Any, validation: Any = (), **more: Any) -> Samples:
    files = {"training": {"file_path": workplace.write("train.jsonl", training)}}
    if validation:
        files["validation"] = {"file_path": workplace.write("validation.jsonl", validation)}
    options = workplace.options(training, dataset_file=files, grader_mode="listwise", **more)
    return read_samples(options, workplace.run_info())


def test_questions_are_counted_and_none_is_cut_in_its_middle(workplace: Any) -> None:
    rows = scored_rows(8)
    found = samples_of(workplace, [*rows[::2], *rows[1::2]], num_reference_samples=7)
    assert [sorted(example.labels) for example in found.learning] == [[0, 0, 1]] * 7
    assert len(samples_of(workplace, rows, rows[:3] + scored_rows(2, start=8), num_reference_samples=20).learning) == 8


@pytest.mark.usefixtures("careful")
def test_a_held_out_question_that_teaches_no_order_is_left_out_and_counted(workplace: Any, noisy: Any) -> None:
    noisy.always = "A good answer gives steps."
    training, fresh = scored_rows(4), scored_rows(3, start=4)
    shares_an_answer = [training[0], {**training[0], "final_answer": "another", "score": 1}]
    found = samples_of(workplace, training, [*shares_an_answer, *fresh[:5], *fresh[6:]])
    assert (len(found.held_out), found.shared, found.unordered) == (2, 1, 1)
    options = workplace.options(
        training,
        dataset_file={"training": {"file_path": "train.jsonl"}, "validation": {"file_path": "validation.jsonl"}},
        grader_mode="listwise",
        **SMALL,
    )
    said: list[str] = []
    load_or_learn(options, workplace.run_info(), say=said.append)
    assert any("1 samples of the validation split are among those learnt from" in text for text in said)
    assert any("1 samples of the validation split have no two answers of which one is better" in text for text in said)


def test_an_answer_that_stands_twice_with_different_labels_is_refused(workplace: Any) -> None:
    rows = scored_rows(4)
    with pytest.raises(DataError, match="has one answer twice, with different labels: 0, 1"):
        samples_of(workplace, [*rows, {**rows[0], "score": 1, "annotator": "other"}])
    twice = samples_of(workplace, [*rows, {**rows[0], "annotator": "other"}])
    assert [len(example.answers) for example in twice.learning] == [3] * 4


def test_vectors_of_an_embedding_api_are_paid_of_the_same_budget_and_kept(workplace: Any, world: Any) -> None:
    workplace.api.embed = lambda text: [float(len(text)), 1.0, 2.0]
    rows, embedding = world.rows(6, 1), EmbeddingOptions(kind="api", model_name="text-embedding-v4")
    options, budget = workplace.options(rows, embedding=embedding, **SMALL), Budget()
    load_or_learn(options, workplace.run_info(), budget, say=lambda text: None)
    asked = len(workplace.api.bodies)
    assert budget.spent.requests == asked
    load_or_learn(options, workplace.run_info(), say=lambda text: None, again=True)
    assert len(workplace.api.bodies) == asked


def test_answers_without_an_order_teach_no_ranking(workplace: Any, world: Any) -> None:
    with pytest.raises(DataError, match="has no two answers of which one is better"):
        learnt(workplace, world.rows(4, 1), grader_mode="listwise")
