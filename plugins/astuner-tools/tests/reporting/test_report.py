"""`astuner report`: what it says of runs in any state, and that each figure is that of the place it names."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from attrs import evolve

from astuner.contract.schema import Episode, Failure, Task, Unjudged
from astuner.runs.store.directory import RunDirectory
from astuner_devkit.command_line import CommandResult
from astuner_devkit.episodes import episode
from astuner_devkit.project import write_project
from astuner_tools.markdown_text import escape_markdown

Cli = Callable[..., CommandResult]
HOSTILE = "<script>alert('1')</script> ]]> & \"q\" | `x` ``` \x00\x1b[31m \ud800 {{ 7 * 7 }} {% raw %}"
CONFIG = {
    "model": {"path": "org/base-1b"},
    "rollout": {"user_workflow": "/home/ann/agent.py:Shop", "num_repeat": 4, "temperature": 0.7},
    "trainer_common": {"optim": {"lr": 2e-5}},
}
FACTS = {
    "total_training_steps": 4,
    "seed": 7,
    "command": ["/home/ann/bin/astuner", "run", "--conf", "/home/ann/tune.yaml", "--resume"],
    "plugins": [{"kind": "judge", "name": "./judge.py:Exact", "distribution": "acme", "version": "2.0"}],
    "versions": {"astuner-core": "0.2.0"},
    "sources": {
        "data": {"train": {"tasks": 320, "content": "c0ffee"}, "files": {"tasks/train.jsonl": "9:abc"}},
        "code": {"judge.py": "7:def"},
        "model": {"model": {"config.json": "5:123"}},
    },
    "attempts": [{"started": "2026-01-01T00:00:00+00:00", "host": "elsewhere"}],
}


def train(step: int, **more: float) -> dict[str, Any]:
    counts = {"signal/episodes": 8, "tokens/generated": 1000 + step, "signal/tokens_trainable": 900}
    shares = {"reward/mean": 0.1 * step, "signal/tokens_nonzero_advantage": 700, "signal/lost/tokens_truncated": 60 + step}
    return {"step": step, "kind": "train", **shares, **counts, "time/step_s": 61.5, "entropy/mean": 0.5 / step, **more}


def validation(step: int, reward: float) -> dict[str, Any]:
    counts = {"val/tasks": 4, "val/episodes": 4, "val/failed": 0}
    return {
        "step": step,
        "kind": "validation",
        "val/reward/mean": reward,
        "val/reward/std": 0.4,
        "val/success/rate": reward,
        **counts,
    }


ROWS = [validation(0, 0.25), train(1), train(2), train(3), train(4), validation(4, 0.75)]


def play(step: int, *rewards: float, answer: str = "four") -> list[Episode]:
    """Return the episodes of a validation, a task for each reward."""
    found = []
    for number, reward in enumerate(rewards):
        one = episode(0, reward, task=f"t{number}", step=step, split="validation")
        said = {"role": "assistant", "content": f"{answer} {number} in step {step}"}
        task = Task(main_query=f"How much is {number}?", task_id=f"t{number}")
        found.append(evolve(one, task=task, calls=(evolve(one.calls[0], reply=said),)))
    return found


EPISODES = [*play(0, 0.0, 0.0, 0.0, 1.0), *play(4, 1.0, 1.0, 1.0, 0.0)]


@pytest.fixture
def make_run(write_run: Any) -> Callable[..., Path]:
    def make(*rows: Mapping[str, Any], facts: Mapping[str, Any] = FACTS, **more: Any) -> Path:
        path = write_run("a", rows=rows, **{"settings": CONFIG, **more})
        RunDirectory(path).amend_run(**facts)
        return Path(path)

    return make


@pytest.fixture
def finished(make_run: Callable[..., Path]) -> Path:
    return make_run(*ROWS, episodes=EPISODES)


@pytest.fixture
def write(cli: Cli, tmp_path: Path) -> Callable[..., str]:
    """Write a report as one kind of file, and return its text."""

    def report(ending: str = "md", run: str = "a") -> str:
        out = tmp_path / f"report.{ending}"
        done = cli("report", run, "--out", str(out))
        assert done.code == 0, done.err
        assert f"{out}: {out.stat().st_size:,} bytes" in done.err
        return out.read_text(encoding="utf-8")

    return report


def list_figures(document: Any) -> Iterator[dict[str, Any]]:
    if isinstance(document, dict):
        if document.keys() == {"text", "value", "place", "command", "metric"}:
            yield document
        for value in document.values():
            yield from list_figures(value)
    elif isinstance(document, list):
        for value in document:
            yield from list_figures(value)


def read_metric(row: Mapping[str, Any], metric: str) -> float:
    first, *second = (row[name] for name in metric.split(" ÷ "))
    return first / second[0] if second else first


@pytest.mark.usefixtures("finished")
def test_figures_of_a_row_are_those_of_the_metrics(cli: Cli) -> None:
    rows = {
        f"metrics.jsonl: {'training step' if one['kind'] == 'train' else 'validation after step'} {one['step']}": one
        for one in ROWS
    }
    cited = [one for one in list_figures(json.loads(cli("report", "a", "--json").out)) if one["place"] in rows]
    assert len(cited) > 20
    assert [one["value"] for one in cited] == [read_metric(rows[one["place"]], one["metric"]) for one in cited]


@pytest.mark.usefixtures("finished")
def test_sums_are_those_of_the_rows(cli: Cli) -> None:
    found = json.loads(cli("report", "a", "--json").out)["waterfall"]["tokens"]
    lines = {label: (figure["value"], figure["place"]) for label, figure, _ in found}
    where = "metrics.jsonl: training steps 1 to 4, added up"
    assert lines == {
        "sampled": (4010, where),
        "− the answer was cut": (250, where),
        "− of episodes without a reward": (160, where),
        "= trainable": (3600, where),
        "− advantage 0: all that are compared got the same reward": (800, where),
        "= with signal: they change the weights": (2800, where),
    }


@pytest.mark.usefixtures("finished")
def test_a_page_is_well_formed_and_asks_no_host_for_anything(write: Callable[..., str]) -> None:
    text = write("html")
    page = ElementTree.fromstring(text)
    assert {one.tag for one in page.iter()} & {"script", "link", "img", "iframe", "object"} == set()
    values = [value for one in page.iter() for name, value in one.items() if name in ("href", "src", "style")]
    assert values
    assert all(value.startswith("#s") for value in values)
    assert "default-src 'none'" in text
    assert not re.search(r"url\(|@import", text)


@pytest.mark.usefixtures("finished")
def test_page_and_markdown_have_the_same_figures_with_the_same_sources(write: Callable[..., str]) -> None:
    page, text = ElementTree.fromstring(write("html")), write("md")
    figures = [one.text or "" for one in page.iter("span") if one.get("class") == "figure"]
    numbers = [one.text for one in page.iter("a")]
    assert len(figures) == len(numbers) > 40
    at = 0
    for figure, number in zip(figures, numbers, strict=True):
        at = text.find(f"{escape_markdown(figure)} [{number}]", at)
        assert at >= 0, (figure, number)
    assert {one.get("id") for one in page.iter("li")} == {f"s{number}" for number in numbers}


@pytest.mark.usefixtures("finished")
def test_the_commands_of_the_sources_work(cli: Cli) -> None:
    commands = {one["command"] for one in list_figures(json.loads(cli("report", "a", "--json").out))} - {""}
    wanted = {one for one in commands if "validation" in one}
    assert "astuner episodes a --split validation --step 4 --task t0" in wanted
    for one in wanted:
        assert cli(*shlex.split(one)[1:]).code == 0, one


@pytest.mark.usefixtures("finished")
def test_it_says_before_and_after_with_intervals(write: Callable[..., str]) -> None:
    text = re.sub(r" \[\d+\]", "", write())
    assert "the mean reward was 0.250 (-0.142 to 0.642) before training and 0.750 (0.358 to 1.142) after step 4" in text
    assert "success went from 25.0 % (4.6–69.9) to 75.0 % (30.1–95.4)." in text
    change = "Task by task, of those with a reward both times, the change is +0.500 (-0.500 to +1.000): 3 of 4 tasks are better"
    assert f"{change} and 1 worse" in text
    assert "It may be chance." in text
    assert (
        "org/base-1b, as it serves the agent agent.py:Shop, on 320 tasks, judged by judge.py:Exact, with the backbone local"
        in text
    )


@pytest.mark.usefixtures("finished")
def test_the_best_and_the_worst_change_are_shown_with_both_answers(write: Callable[..., str]) -> None:
    text = re.sub(r" \[\d+\]", "", write())
    better, worse = text.index("Better: task `t0`"), text.index("Worse: task `t3`")
    assert "How much is 0?" in text[better:worse]
    assert "Answer before, step 0: reward 0:\n\n```\nfour 0 in step 0\n```" in text[better:worse]
    assert "Answer after, step 4: reward 1:\n\n```\nfour 0 in step 4\n```" in text[better:worse]
    assert "four 3 in step 0" in text[worse:]
    assert "t2`" not in text


def test_a_long_answer_is_shortened_and_says_by_how_much(make_run: Callable[..., Path], write: Callable[..., str]) -> None:
    make_run(*ROWS, episodes=[*play(0, 0.0), *play(4, 1.0, answer="x" * 5000)])
    assert "[... 3,812 characters ...]" in write()


@pytest.mark.usefixtures("finished")
def test_what_repeats_the_run_is_there_and_no_directory_of_the_machine(write: Callable[..., str]) -> None:
    text = write()
    for part in ("astuner run --conf tune.yaml [", "acme 2.0", "c0ffee", "9:abc", "7:def", "5:123", "| seed | 7 ["):
        assert part in text
    assert "/home/ann" not in text


def test_nothing_of_a_run_is_markup(make_run: Callable[..., Path], write: Callable[..., str]) -> None:
    failed = (Failure(reason=HOSTILE, detail=HOSTILE),)
    make_run(
        *ROWS,
        facts={**FACTS, "backbone": HOSTILE, "seed": HOSTILE},
        episodes=[
            *(evolve(one, task=evolve(one.task, main_query=HOSTILE)) for one in play(0, 0.0, answer=HOSTILE)),
            *play(4, 1.0, answer=HOSTILE),
            evolve(episode(0, task=HOSTILE, step=1), output=None, verdict=None, samples=(), failures=failed),
        ],
        settings={**CONFIG, "rollout": {"user_workflow": HOSTILE}},
    )
    page = ElementTree.fromstring(write("html"))
    assert "script" not in {one.tag for one in page.iter()}
    whole = "".join(page.itertext())
    assert whole.count("<script>alert('1')</script>") > 8
    assert "{{ 7 * 7 }}" in whole
    assert not re.search("[\x00\x1b\ud800]", whole)
    text = re.sub(r"(?ms)^(`{3,})\n.*?^\1$", "", write("md"))
    text = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", text)
    assert "<script" not in text.replace("\\<", "")
    assert "\x1b" not in text


SECTIONS = ["Outcome", "What was tuned", "Curves", "Rows used and lost", "Answers before and after", "Failures"]
SECTIONS += ["Cost", "What holds it back", "Provenance", "Sources"]
NO_PAIR = "No task was played in a first and in a later validation"


@pytest.mark.parametrize(
    ("rows", "more", "sentences"),
    [
        pytest.param(
            [train(1), train(2)],
            {},
            ["There was no validation", "the mean reward was 0.1 in step 1 and 0.2 in step 2.", NO_PAIR],
            id="no validation",
        ),
        pytest.param(
            [],
            {"status": "failed"},
            [
                "A model was to be tuned by reinforcement learning",
                "The run failed",
                "No training step was finished.",
                "there are no curves",
                "No step was finished",
                "No episode was stored",
            ],
            id="failed before the first step",
        ),
        pytest.param(
            [validation(0, 0.5), train(1)],
            {"status": "interrupted"},
            ["was interrupted", "There was one validation, before training"],
            id="interrupted",
        ),
        pytest.param(
            [train(1)],
            {"status": "running"},
            ["may still be under way on another machine", "Its last training step is 1 of 4."],
            id="elsewhere",
        ),
        pytest.param(
            [],
            {"status": None},
            ["No step and no validation has recorded what it took.", "no training step is recorded"],
            id="begun",
        ),
        pytest.param(
            [train(1), train(2), train(2), train(3)],
            {"facts": {**FACTS, "attempts": [*FACTS["attempts"], *FACTS["attempts"]]}},  # type: ignore[misc]  # a list
            ["It was started 2 times", "| tokens sampled | 3,006 |"],
            id="resumed",
        ),
        pytest.param([train(1)], {"facts": {**FACTS, "stage": {"name": "polish"}}}, ["| stage | polish |"], id="stage"),
        pytest.param(
            [train(1, **{"reward/speaker/mean": 0.5, "reward/listener/mean": 0.25})],
            {"settings": {**CONFIG, "model": {"path": "m", "adapters": {"speaker": {}, "listener": {}}}}},
            ["| adapters | listener, speaker |", "| Reward by agent | reward/speaker/mean (reward) | 0.5 at 1 |"],
            id="several models",
        ),
        pytest.param(
            [{"step": 1, "kind": "train", "reward/mean": 0.5, "signal/episodes": 8}],
            {"facts": {**FACTS, "backbone": "gepa"}},
            ["Prompts are tuned without training a token", "The prompts of an agent were tuned, and no weights"],
            id="gepa",
        ),
        pytest.param(
            [train(1, **{"tinker/cost": 0.5}), train(2, **{"tinker/cost": 1.25})],
            {"facts": {**FACTS, "backbone": "tinker"}},
            ["The server that trained has cost \\$1.25 by its prices."],
            id="tinker",
        ),
        pytest.param([train(1)], {"facts": {**FACTS, "backbone": "debug"}}, ["plays tasks and trains nothing"], id="debug"),
    ],
)
def test_an_odd_run_has_a_sentence_for_what_it_lacks(
    make_run: Callable[..., Path], write: Callable[..., str], rows: list[Any], more: dict[str, Any], sentences: list[str]
) -> None:
    path = make_run(*rows, **more)
    if more.get("facts", {}).get("backbone") == "gepa":
        (path / "prompts.json").write_text("{}")
    text = re.sub(r" \[\d+\]", "", write("md"))
    assert [one for one in sentences if one not in text] == []
    assert re.findall(r"(?m)^## (.*)$", text) == SECTIONS
    parts = re.split(r"(?m)^## .*$", text)[1:]
    assert [title for title, part in zip(SECTIONS, parts, strict=True) if not part.strip()] == []
    ElementTree.fromstring(write("html"))


def test_a_run_that_another_process_holds_is_under_way(make_run: Callable[..., Path], write: Callable[..., str]) -> None:
    held = RunDirectory(make_run(*ROWS, episodes=EPISODES, status="running", facts={**FACTS, "attempts": []}))
    held.open()
    text = write()
    assert "A model is being tuned" in text
    assert "is still under way, so every figure is one so far" in text
    held.close()


def test_a_run_that_has_begun_has_no_validation_yet(make_run: Callable[..., Path], write: Callable[..., str]) -> None:
    held = RunDirectory(make_run(status="running", facts={**FACTS, "attempts": []}))
    held.open()
    assert "There is no validation yet" in write()
    held.close()


def test_a_finished_run_without_metrics_does_not_say_that_it_made_no_step(
    make_run: Callable[..., Path], write: Callable[..., str]
) -> None:
    make_run(status="finished")
    assert "The run has finished. No training step is in its metrics." in write()


def test_a_damaged_run_is_read_as_far_as_it_goes(finished: Path, cli: Cli, tmp_path: Path) -> None:
    for name in ("run.json", "state.json", "config.yaml"):
        (finished / name).write_text("{")
    with (finished / "metrics.jsonl").open("a") as file:
        file.write("nonsense\n")
    done = cli("report", "a", "--out", str(tmp_path / "report.md"))
    text = (tmp_path / "report.md").read_text()
    assert (done.code, "metrics.jsonl:7" in done.err) == (0, True)
    assert "Not all of the run could be read, and what is lost is not in this report: metrics.jsonl:7: 1 line is damaged" in text
    assert "; run.json:1: damaged" in text
    assert "has a record of its state that cannot be read" in text
    assert "run.json of this run says nothing, or cannot be read" in text
    assert "after step 4" in text


def test_validations_that_are_equal_are_not_called_chance(make_run: Callable[..., Path], write: Callable[..., str]) -> None:
    make_run(*ROWS, episodes=[*play(0, 0.5, 0.5), *play(4, 0.5, 0.5)])
    text = write()
    assert "No task has changed." in text
    assert "chance" not in text


def test_metrics_without_their_episodes_say_so(make_run: Callable[..., Path], write: Callable[..., str]) -> None:
    make_run(*ROWS)
    text = write()
    assert "The episodes of both are not stored, so they cannot be compared task by task." in text
    assert NO_PAIR in text


def test_failures_are_counted_by_reason_with_an_example(make_run: Callable[..., Path], write: Callable[..., str]) -> None:
    late = (Failure(reason="timeout", detail="too slow"),)
    episodes = [evolve(episode(at, task="b", step=1), output=None, verdict=None, samples=(), failures=late) for at in range(3)]
    episodes.append(episode(3, None, task="b", step=1).with_verdict(Unjudged(reason="judge_error", detail="KeyError: 'price'")))
    make_run(train(1), episodes=episodes)
    text = re.sub(r" \[\d+\]", "", write())
    assert "| `timeout` | train | 3 of 4 | train/1/b/2 | `too slow` |" in text
    assert "| `judge_error` | train | 1 of 4 | train/1/b/3 | `KeyError: 'price'` |" in text


def test_what_an_llm_judge_cost_is_added_up(finished: Path, write: Callable[..., str]) -> None:
    lines = ['{"requests": 3, "cost": 0.25}', "nonsense", '{"requests": 4, "cost": 0.5}']
    (finished / "logs" / "llm_judge.jsonl").write_text("\n".join(lines))
    assert "LLMs that judge were asked 7 times, at a cost of 0.75." in re.sub(r" \[\d+\]", "", write())


def test_a_run_of_the_backbone_debug_has_a_report(cli: Cli, tmp_path: Path) -> None:
    conf = write_project(tmp_path, replies=("5",))
    assert cli("run", "--conf", str(conf)).code == 0
    (run,) = (tmp_path / "launcher_record").glob("*/run.json")
    assert cli("report", str(run.parent), "--out", str(tmp_path / "r.md")).code == 0
    text = re.sub(r" \[\d+\]", "", (tmp_path / "r.md").read_text())
    assert "The backbone debug plays tasks and trains nothing" in text
    assert "In training the mean reward was 0 in step 1." in text
    assert "| episodes played | 1 |" in text


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("report.pdf", "the name must end in .html or .md"),
        ("nowhere/report.md", "there is no directory nowhere; make it, or name another"),
        (None, "give --out FILE.html, --out FILE.md or --json"),
    ],
)
@pytest.mark.usefixtures("finished")
def test_bad_options_are_refused(cli: Cli, out: str | None, message: str) -> None:
    done = cli("report", "a", *(["--out", out] if out else []))
    assert (done.code, message in done.err) == (2, True)


def test_a_directory_that_is_not_a_run_is_an_error(cli: Cli, tmp_path: Path) -> None:
    done = cli("report", str(tmp_path), "--out", str(tmp_path / "r.md"))
    assert (done.code, "not a run directory" in done.err) == (2, True)
    assert not (tmp_path / "r.md").exists()


@pytest.mark.usefixtures("finished")
def test_a_file_that_is_there_is_replaced(write: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "report.md").write_text("before")
    assert write().startswith("# Report of `a`\n")
