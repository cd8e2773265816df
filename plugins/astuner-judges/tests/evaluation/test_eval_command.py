"""`astuner judge eval` and `astuner judge learn`, as a user runs them.

One file, long as it is: a small test for each option and each thing that is refused.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from astuner_devkit.command_line import CommandResult, run_command
from astuner_devkit.contracts import CommandContract
from astuner_devkit.scripted_api import Reply, ScriptedApi, make_completion, scripted_api

LONG_FIRST = """
from astuner import Judge, Verdict


class LongerIsBetter(Judge):
    async def judge(self, group):
        return [Verdict(float(len(e.output.metadata["final_answer"]))) for e in group.episodes]


class FirstIsBest(Judge):
    async def judge(self, group):
        return [Verdict(1.0 / (1 + place)) for place, e in enumerate(group.episodes)]


class Even(Judge):
    async def judge(self, group):
        return [Verdict(0.5) for _ in group.episodes]


class Told(Judge):
    async def judge(self, group):
        return [Verdict(e.task.metadata["told"]) for e in group.episodes]


class Moody:
    def compute_reward(self, workflow_task, workflow_output):
        answer = workflow_output.metadata["final_answer"]
        if "?" in answer:
            raise RuntimeError("no mood")
        return float("good" in answer)
"""


class TestJudgeCommand(CommandContract):
    component = "astuner_judges.evaluation.commands:judge"


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def write_conf(home: Path, judge: Mapping[str, Any]) -> Path:
    conf = home / "judge.yaml"
    (home / "judges.py").write_text(LONG_FIRST, encoding="utf-8")
    conf.write_text(yaml.safe_dump({"astuner": {"experiment_name": "tried", "task_judge": judge}}), encoding="utf-8")
    return conf


def evaluated(home: Path, judge: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], *more: str) -> CommandResult:
    conf, examples = write_conf(home, judge), write_rows(home / "labelled.jsonl", rows)
    return run_command("judge", "eval", "--conf", conf, "--examples", examples, *more, cwd=home)


def report(result: CommandResult) -> dict[str, Any]:
    (one,) = json.loads(result.out)["judges"]
    return one


SUMS = [
    {"main_query": f"{n} + {n}?", "answer": str(2 * n), "final_answer": f"The answer is {2 * n + wrong}.", "score": said}
    for n, (wrong, said) in enumerate(
        [(0, True), (0, True), (1, False), (1, False), (1, True), (0, True), (1, False), (0, False)], start=30
    )
]


def test_any_judge_is_held_against_the_labels(tmp_path: Path) -> None:
    found = report(evaluated(tmp_path, {"judge_type": "math"}, SUMS, "--json"))
    assert (found["judge"], found["answers"], found["judged"], found["questions"]) == ("math", 8, 8, 8)
    assert found["accuracy"]["value"] == 0.75
    assert found["kappa"]["value"] == pytest.approx(0.5)
    assert found["accuracy"]["low"] < 0.75 < found["accuracy"]["high"]
    assert found["spearman"]["value"] == pytest.approx(0.5)
    assert found["order"] is None
    assert found["position_changes"] is None
    assert found["overlap"] is None
    assert found["spent"] is None


def test_the_same_figures_come_every_time(tmp_path: Path) -> None:
    first, second = (evaluated(tmp_path, {"judge_type": "math"}, SUMS, "--json").out for _ in range(2))
    assert first == second


def test_people_get_a_table_and_stdout_holds_nothing_else(tmp_path: Path) -> None:
    result = evaluated(tmp_path, {"judge_type": "math"}, SUMS)
    assert result.code == 0
    assert result.out.splitlines()[0].split() == ["judge", "math"]
    assert "accuracy  75.0%  [" in result.out
    assert result.err == ""


def test_the_answers_that_the_judge_got_wrong_are_shown(tmp_path: Path) -> None:
    told = evaluated(tmp_path, {"judge_type": "math"}, SUMS).out.split("\n\n")[1]
    assert told.startswith("2 wrong (--out FILE writes all answers):\n")
    assert "  label 1, reward 0  34 + 34?\n      answer: The answer is 69." in told
    assert "  label 0, reward 1  37 + 37?\n" in told


def test_all_answers_are_written_with_their_verdicts_wrong_ones_first(tmp_path: Path) -> None:
    rows = [*SUMS, {"main_query": "1?", "answer": "1", "final_answer": "1", "score": True}]
    evaluated(tmp_path, {"judge_type": "math"}, rows, "--out", str(tmp_path / "out" / "rows.jsonl"))
    found = [json.loads(line) for line in (tmp_path / "out" / "rows.jsonl").read_text().splitlines()]
    assert [row["wrong"] for row in found] == [True] * 2 + [False] * 7
    first = next(row for row in found if row["label"] == 1)
    assert (first["judge"], first["question"], first["reward"], first["good"], first["success"]) == (
        "math",
        "34 + 34?",
        0.0,
        True,
        False,
    )


def test_an_answer_that_is_not_valid_unicode_is_shown_and_written(tmp_path: Path) -> None:
    rows = [{"main_query": "2 + 2?", "answer": "4", "final_answer": "\ud8005", "score": True}]
    conf, examples = write_conf(tmp_path, {"judge_type": "math"}), tmp_path / "labelled.jsonl"
    examples.write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = run_command("judge", "eval", "--conf", conf, "--examples", examples, "--out", tmp_path / "rows.jsonl", cwd=tmp_path)
    assert "      answer: ?5" in result.out
    assert json.loads((tmp_path / "rows.jsonl").read_text())["answer"] == "\ud8005"


@pytest.mark.parametrize("said", ['use --password "abc" now', 'run with --password "', "MY_PASSWORD='x", 'say sk-abc123def"'])
def test_hiding_a_secret_of_an_answer_leaves_valid_json(tmp_path: Path, said: str) -> None:
    rows = [{"main_query": "2 + 2?", "answer": "4", "final_answer": said, "score": True}]
    evaluated(tmp_path, {"judge_type": "math"}, rows, "--out", str(tmp_path / "rows.jsonl"))
    [line] = (tmp_path / "rows.jsonl").read_text().splitlines()
    assert json.loads(line)["label"] == 1


def test_of_ranked_answers_those_in_another_order_are_wrong(tmp_path: Path) -> None:
    rows = [{"main_query": f"{n}?", "chosen": "x" * one, "rejected": "xx"} for n, one in enumerate((1, 3))]
    told = evaluated(tmp_path, {"judge_protocol": "./judges.py:LongerIsBetter"}, rows).out.split("\n\n")[1]
    assert told.startswith("2 wrong")
    assert "  label -1, reward 1  0?" in told


def test_an_answer_that_is_judged_on_its_own_is_asked_about_once(tmp_path: Path, api: ScriptedApi) -> None:
    api.script = lambda body, number: '{"score": 5}'
    rows = [{"main_query": "Hello?", "final_answer": text, "score": n} for n, text in enumerate(("no", "yes"))]
    evaluated(tmp_path, {"judge_type": "llm"}, rows)
    assert len(api.bodies) == 2


def test_a_judge_that_likes_length_is_seen_to(tmp_path: Path) -> None:
    rows = [{"main_query": f"{n}?", "final_answer": "x" * (7 * n % 10 + 1), "score": n // 10 % 2} for n in range(40)]
    found = report(evaluated(tmp_path, {"judge_protocol": "./judges.py:LongerIsBetter"}, rows, "--json"))
    assert found["length_bias"]["low"] > 0.2


@pytest.mark.parametrize("sign", [1, -1], ids=["longer ones are better", "shorter ones are better"])
def test_labels_that_go_with_length_are_no_liking_of_length(tmp_path: Path, sign: int) -> None:
    draw = random.Random(1)
    spare = [draw.randrange(30) for _ in range(40)]
    rows = [{"main_query": f"{n}?", "final_answer": "x" * (3 * n + spare[n]), "score": sign * n} for n in range(40)]
    assert report(evaluated(tmp_path, {"judge_protocol": "./judges.py:Even"}, rows, "--json"))["length_bias"] is None
    # What a judge gives beside the label has nothing to do with the length, or is what an answer is too long by.
    for more, is_biased in (([draw.randrange(30) for _ in rows], False), (spare, True)):
        told = [{**row, "told": 3 * row["score"] + over} for row, over in zip(rows, more, strict=True)]
        found = report(evaluated(tmp_path, {"judge_protocol": "./judges.py:Told"}, told, "--json"))["length_bias"]
        assert (found["low"] > 0.2) == is_biased
        assert (found["low"] < 0 < found["high"]) != is_biased


def test_of_ranked_answers_length_counts_within_a_question(tmp_path: Path) -> None:
    lengths = [(1, 2), (9, 8), (20, 30), (5, 4), (7, 6), (2, 3)]
    rows = [{"main_query": f"{n}?", "chosen": "x" * one, "rejected": "x" * two} for n, (one, two) in enumerate(lengths)]
    found = report(evaluated(tmp_path, {"judge_protocol": "./judges.py:LongerIsBetter"}, rows, "--json"))
    assert found["length_bias"]["value"] == pytest.approx(1)
    assert report(evaluated(tmp_path, {"judge_protocol": "./judges.py:Even"}, rows, "--json"))["length_bias"] is None


def test_answers_to_a_single_question_have_no_interval(tmp_path: Path) -> None:
    rows = [{"main_query": "1?", "final_answer": "x" * n, "score": n % 2} for n in range(1, 7)]
    result = evaluated(tmp_path, {"judge_protocol": "./judges.py:LongerIsBetter"}, rows, "--success-reward", "3", "--json")
    found = report(result)
    assert found["questions"] == 1
    assert found["accuracy"] == {"value": 0.5, "low": None, "high": None}


def test_rewards_on_another_scale_than_labels_decide_nothing_by_themselves(tmp_path: Path) -> None:
    rows = [{"main_query": f"{n}?", "final_answer": str(n), "score": 1 + n % 5, "told": (n % 5) / 4} for n in range(10)]
    judge = {"judge_protocol": "./judges.py:Told"}
    result = evaluated(tmp_path, judge, rows)
    (accuracy,) = (line.split() for line in result.out.splitlines() if line.startswith("accuracy"))
    assert accuracy[1] == "-"
    assert "its rewards (0 to 1) may not be on the scale of the labels (1 to 5, good from 3)" in result.err
    told = report(evaluated(tmp_path, judge, rows, "--success-reward", "0.5", "--json"))
    assert (told["accuracy"]["value"], told["kappa"]["value"], told["success_reward"]) == (1.0, 1.0, 0.5)


def test_a_judge_that_rewards_just_as_labelled_is_not_called_one_by_chance(tmp_path: Path) -> None:
    rows = [{"main_query": f"{n}?", "final_answer": str(n), "score": 2 * (n % 2) - 1, "told": float(n % 2)} for n in range(8)]
    result = evaluated(tmp_path, {"judge_protocol": "./judges.py:Told"}, rows, "--json")
    found = report(result)
    assert (found["accuracy"], found["kappa"], found["spearman"]["value"]) == (None, None, 1.0)
    assert "may not be on the scale of the labels (-1 to 1, good from 0)" in result.err


def test_a_judge_that_likes_the_first_answer_is_seen_to(tmp_path: Path) -> None:
    rows = [{"main_query": f"{n}?", "chosen": "a", "rejected": "b"} for n in range(4)]
    judge = {"judge_protocol": "./judges.py:FirstIsBest"}
    found = report(evaluated(tmp_path, judge, rows, "--json"))
    assert (found["position_changes"], found["position_pairs"]) == (1.0, 4)
    assert found["order"]["value"] == 1.0
    assert found["accuracy"] is None
    one_way = report(evaluated(tmp_path, judge, rows, "--json", "--one-order"))
    assert one_way["position_changes"] is None


def test_a_good_answer_on_which_the_judge_raises_is_a_disagreement(tmp_path: Path) -> None:
    rows = [
        {"main_query": str(n), "final_answer": text, "score": "good" in text} for n, text in enumerate(["good", "bad", "good?"])
    ]
    result = evaluated(tmp_path, {"judge_protocol": "./judges.py:Moody"}, rows, "--json")
    found = report(result)
    assert (found["judged"], found["failures"], found["accuracy"]["value"]) == (2, {"judge_error": 1}, pytest.approx(2 / 3))
    assert "no verdict on 1 of 3 answers" in result.err
    assert "no mood" in result.err


def test_a_judge_that_judges_nothing_is_a_failure(tmp_path: Path) -> None:
    rows = [{"main_query": "1", "final_answer": "good?", "score": 1}]
    result = evaluated(tmp_path, {"judge_protocol": "./judges.py:Moody"}, rows)
    assert result.code == 1
    assert "0 of 1 judged" in result.out


def test_each_of_several_judges_has_its_own_figures(tmp_path: Path) -> None:
    judges = {"judges": [{"judge": "math"}, {"judge": "./judges.py:LongerIsBetter", "name": "length"}]}
    found = json.loads(evaluated(tmp_path, judges, SUMS, "--json").out)["judges"]
    assert [one["judge"] for one in found] == ["math", "length"]
    assert report(evaluated(tmp_path, judges, SUMS, "--json", "--judge", "length"))["judge"] == "length"


@pytest.mark.parametrize(
    ("judge", "more", "message"),
    [
        ({}, (), "no judge in astuner.task_judge"),
        ({"judge_type": "math"}, ("--judge", "llm"), "no judge 'llm' in astuner.task_judge; there is: 'math'"),
        ({"judge_type": "maths"}, (), "Did you mean 'math'"),
        ({"judge_type": "math", "math": {"timeout": 3}}, (), "timeout"),
    ],
)
def test_a_configuration_without_a_judge_to_try_is_refused(
    tmp_path: Path, judge: Mapping[str, Any], more: tuple[str, ...], message: str
) -> None:
    result = evaluated(tmp_path, judge, SUMS, *more)
    assert (result.code, message in result.err) == (2, True), result.err


def test_rows_without_labels_are_refused(tmp_path: Path) -> None:
    result = evaluated(tmp_path, {"judge_type": "math"}, [{"main_query": "q", "final_answer": "a"}])
    assert result.code == 2
    assert "no label in 'score'" in result.err


@pytest.mark.parametrize(("ending", "separator"), [("csv", ","), ("tsv", "\t")])
def test_a_table_of_texts_is_read_too(tmp_path: Path, ending: str, separator: str) -> None:
    conf, examples = write_conf(tmp_path, {"judge_type": "math"}), tmp_path / f"labelled.{ending}"
    names = ("main_query", "answer", "final_answer", "score")
    lines = [names, *([str(row[name]) for name in names[:-1]] + [f"{row['score']:d}"] for row in SUMS)]
    examples.write_text("".join(f"{separator.join(line)}\n" for line in lines), encoding="utf-8")
    found = report(run_command("judge", "eval", "--conf", conf, "--examples", examples, "--json", cwd=tmp_path))
    assert found == report(evaluated(tmp_path, {"judge_type": "math"}, SUMS, "--json"))


def test_what_the_messages_of_the_reader_advise_is_an_option(tmp_path: Path) -> None:
    conf, examples = write_conf(tmp_path, {"judge_protocol": "./judges.py:Even"}), tmp_path / "labelled.csv"

    def tried(text: str, *more: str) -> CommandResult:
        examples.write_text(text, encoding="utf-8")
        return run_command("judge", "eval", "--conf", conf, "--examples", examples, "--json", *more, cwd=tmp_path)

    asked = "problem,final_answer,score\nwhy?,a,1\n"
    assert "Name it with `columns: {main_query: NAME}`" in tried(asked).err
    assert report(tried(asked, "--columns", "main_query=problem"))["answers"] == 1
    said = 'messages,final_answer,score\n"[{""role"": ""user"", ""content"": ""why?""}]",a,1\n'
    assert "in `json_columns`" in tried(said).err
    assert report(tried(said, "--json-columns", "messages"))["answers"] == 1
    wrong = tried(asked, "--columns", "problem")
    assert (wrong.code, "--columns problem: it is FIELD=NAME" in wrong.err) == (2, True)


def test_answers_to_one_question_are_siblings_whoever_gave_them(tmp_path: Path) -> None:
    rows = [
        {"main_query": f"{n // 2}?", "final_answer": str(n), "score": n % 2, "told": float(n % 2), "model": f"m{n}"}
        for n in range(4)
    ]
    found = report(evaluated(tmp_path, {"judge_protocol": "./judges.py:Told"}, rows, "--json"))
    assert (found["questions"], found["order"]["value"], found["position_pairs"]) == (2, 1.0, 2)


def test_another_right_answer_is_another_task(tmp_path: Path) -> None:
    rows = [{"main_query": "?", "final_answer": str(n), "score": 1, "answer": "1", "gold": str(n)} for n in range(2)]
    assert report(evaluated(tmp_path, {"judge_type": "math"}, rows, "--json"))["questions"] == 1
    judge = {"judge_type": "math", "math": {"answer_key": "gold"}}
    found = report(evaluated(tmp_path, judge, rows, "--reference-field", "gold", "--json"))
    assert (found["questions"], found["accuracy"]["value"]) == (2, 1.0)


def grade(body: Mapping[str, Any], number: int) -> str | Reply:
    asked = body["messages"][1]["content"]
    if '"verdicts"' in asked:
        return make_completion(
            json.dumps({"verdicts": [{"rubric": 1, "score": float("polite" in asked.split("The answer:")[1])}]}),
            prompt_tokens=100,
            completion_tokens=10,
        )
    return json.dumps({"rubrics": ["Be polite."]})


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedApi]:
    with scripted_api(grade) as running:
        for name, value in running.environ.items():
            monkeypatch.setenv(name, value)
        yield running


def polite_rows(count: int, start: int = 0) -> list[dict[str, Any]]:
    return [
        {"main_query": f"{n}?", "final_answer": f"{'polite' if n % 2 else 'rude'} {n}", "score": n % 2}
        for n in range(start, start + count)
    ]


def rubrics(home: Path, rows: Sequence[Mapping[str, Any]], **more: Any) -> dict[str, Any]:
    write_rows(home / "learn.jsonl", rows)
    options = {"dataset_file": {"training": {"file_path": "learn.jsonl"}}, "rubrics_file": "rubrics.yaml", "evidence_samples": 2}
    return {"judge_type": "rubrics_auto_grader", "rubrics_auto_grader": {**options, **more}}


def test_a_judge_that_learns_is_tried_on_what_it_has_not_seen(tmp_path: Path, api: ScriptedApi) -> None:
    judge = rubrics(tmp_path, polite_rows(6), llm={"prompt_price": 1000.0, "completion_price": 0.0})
    result = evaluated(tmp_path, judge, polite_rows(4, start=6), "--json")
    found = report(result)
    assert found["accuracy"]["value"] == 1.0
    assert found["overlap"] == {"answers": 0, "questions": 0}
    assert "has learnt from" not in result.err
    assert found["spent"]["requests"] == len(api.bodies)
    assert found["spent"]["cost"] == pytest.approx(found["spent"]["prompt_tokens"] / 1000)
    assert (tmp_path / "rubrics.yaml").exists()


def test_examples_that_were_learnt_from_are_warned_of(tmp_path: Path, api: ScriptedApi) -> None:
    learnt_from = polite_rows(6)
    other = {**learnt_from[2], "final_answer": "something else"}
    result = evaluated(tmp_path, rubrics(tmp_path, learnt_from), [*learnt_from[:2], other, *polite_rows(1, start=9)], "--json")
    assert report(result)["overlap"] == {"answers": 2, "questions": 1}
    assert "has learnt from 2 of these 4 answers, and from other answers to the questions of 1 more" in result.err


def test_a_label_is_good_from_what_the_judge_calls_a_success(tmp_path: Path, api: ScriptedApi) -> None:
    api.script = lambda body, number: json.dumps({"score": 8 if "\n8\n" in body["messages"][1]["content"] else 6})
    judge = {"judge_type": "llm", "llm": {"success_threshold": 7, "llm": {"max_retries": 0}}}
    rows = [{"main_query": f"q{n}", "final_answer": str(score), "score": score} for n, score in enumerate([0, 6, 8])]
    found = report(evaluated(tmp_path, judge, rows, "--json"))
    assert (found["threshold"], found["accuracy"]["value"]) == (7.0, 1.0)


def first_is_best(body: Mapping[str, Any], number: int) -> str:
    """Go by the position alone, in the form that is asked for."""
    asked = "".join(message["content"] for message in body["messages"])
    said = {"winner": "first", "ranking": [1, 2], "verdicts": [{"rubric": 1, "ranks": [1, 2]}]}
    return json.dumps({key: value for key, value in said.items() if f'"{key}"' in asked})


@pytest.mark.parametrize(
    "judge",
    [
        {"judge_type": "llm", "llm": {"mode": "pairwise"}},
        {"judge_type": "llm", "llm": {"mode": "listwise"}},
        {"judge_type": "rubrics_auto_grader", "rubrics_auto_grader": {"grader_mode": "listwise", "rubrics_file": "own.yaml"}},
    ],
    ids=["pairwise", "listwise", "rubrics"],
)
def test_a_judge_that_tells_its_own_position_bias_is_not_asked_twice(
    tmp_path: Path, api: ScriptedApi, judge: Mapping[str, Any]
) -> None:
    (tmp_path / "own.yaml").write_text("themes: [Be kind.]\n", encoding="utf-8")
    api.script = first_is_best
    rows = [{"main_query": f"{n}?", "chosen": "a", "rejected": "b"} for n in range(3)]
    result = evaluated(tmp_path, judge, rows, "--json")
    found = report(result)
    assert (found["position_bias"], found["position_changes"]) == (1.0, None)
    assert len(api.bodies) == 3 * 2
    assert "position 100.0% position_bias of the judge" in " ".join(evaluated(tmp_path, judge, rows).out.split())


def test_answers_without_verdicts_are_not_put_again_in_another_order(tmp_path: Path, api: ScriptedApi) -> None:
    api.script = lambda body, number: Reply(400, {})
    judge = {"judge_type": "llm", "llm": {"mode": "pairwise", "llm": {"max_retries": 0}}}
    evaluated(tmp_path, judge, [{"main_query": "1?", "chosen": "a", "rejected": "b"}], "--json")
    assert len(api.bodies) == 2


LLM = {"judge_type": "llm", "llm": {"llm": {"max_retries": 0}}}


def test_trying_a_judge_makes_no_run_directory(tmp_path: Path, api: ScriptedApi) -> None:
    api.script = lambda body, number: '{"score": 5}'
    found = report(evaluated(tmp_path, LLM, polite_rows(2), "--json"))
    assert found["spent"]["requests"] == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["judge.yaml", "judges.py", "labelled.jsonl"]


def test_rubrics_of_a_run_are_tried_and_not_learnt_on_the_way(tmp_path: Path, api: ScriptedApi) -> None:
    judge = rubrics(tmp_path, polite_rows(6))
    del judge["rubrics_auto_grader"]["rubrics_file"]
    rows = polite_rows(4, start=6)
    result = evaluated(tmp_path, judge, rows)
    assert result.code == 2
    assert "there are no rubrics yet, and a judge that is only tried writes nothing into a run directory" in result.err
    assert not (tmp_path / "launcher_record").exists()
    assert api.bodies == []

    run_command("judge", "learn", "--conf", tmp_path / "judge.yaml", cwd=tmp_path)
    before = files(tmp_path / "launcher_record")
    assert [path.name for path in before if path.suffix == ".yaml"] == ["auto_grader.yaml"]
    assert report(evaluated(tmp_path, judge, rows, "--json"))["accuracy"]["value"] == 1.0
    assert files(tmp_path / "launcher_record") == before

    judge["rubrics_auto_grader"]["generate_number"] = 2
    assert "its rubrics were learnt with other options or examples" in evaluated(tmp_path, judge, rows).err
    assert files(tmp_path / "launcher_record") == before


def files(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_learning_by_hand_writes_the_rubrics_once(tmp_path: Path, api: ScriptedApi) -> None:
    conf = write_conf(tmp_path, rubrics(tmp_path, polite_rows(6)))
    first = run_command("judge", "learn", "--conf", conf, "--json", cwd=tmp_path)
    assert json.loads(first.out) == {
        "judges": [{"judge": "rubrics_auto_grader", "file": str(tmp_path / "rubrics.yaml"), "themes": 1, "learnt_now": True}]
    }
    assert "learning from 6 labelled examples" in first.err
    asked = len(api.bodies)
    again = run_command("judge", "learn", "--conf", conf, cwd=tmp_path)
    assert "1 themes, there already" in again.out
    assert len(api.bodies) == asked


def test_learning_again_asks_nothing_twice(tmp_path: Path, api: ScriptedApi) -> None:
    conf = write_conf(tmp_path, rubrics(tmp_path, polite_rows(6)))
    run_command("judge", "learn", "--conf", conf, cwd=tmp_path)
    before, asked = (tmp_path / "rubrics.yaml").read_bytes(), len(api.bodies)
    (tmp_path / "rubrics.yaml").write_text("themes: [By hand.]\n", encoding="utf-8")
    run_command("judge", "learn", "--conf", conf, "--again", cwd=tmp_path)
    assert (tmp_path / "rubrics.yaml").read_bytes() == before
    assert len(api.bodies) == asked


def test_a_judge_that_does_not_learn_says_so(tmp_path: Path) -> None:
    result = run_command("judge", "learn", "--conf", write_conf(tmp_path, {"judge_type": "math"}), cwd=tmp_path)
    assert result.code == 2
    assert "none of its judges (math) learns from examples" in result.err


RAISES_ON_WRONG = r"""
import re


def exact(workflow_task, workflow_output):
    given = int(re.search(r"(\d+)\.", workflow_output.metadata["final_answer"]).group(1))
    return given == int(workflow_task.task.metadata["answer"])
"""


def test_an_answer_on_which_the_judge_raises_is_no_success_and_is_shown(tmp_path: Path) -> None:
    (tmp_path / "raising.py").write_text(RAISES_ON_WRONG, encoding="utf-8")
    rows = [
        {"main_query": f"{n}?", "answer": str(n), "final_answer": said, "score": good}
        for n, (said, good) in enumerate([("It is 0.", True), ("It is 1.", True), ("no idea", False), ("none", False)])
    ]
    result = evaluated(tmp_path, {"judge_protocol": "./raising.py:exact"}, rows)
    assert "accuracy  100.0%" in result.out
    assert "2 failures count as wrong" in result.out
    assert "2 of 4 judged" in result.out
    assert "(raising.py:6 in exact)" in result.err
