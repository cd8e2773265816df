"""Which keys may have another value when a run is resumed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from astuner.contract.errors import ConfigError
from astuner.contract.schema import Task
from astuner.episodes.rollout.sampler import TaskSampler
from astuner.runs.driver.resume import ChangesOfVersions, check_same_run, drop_episodes_of_other_rates, is_same_length
from astuner.runs.store.directory import RunDirectory
from astuner.runs.store.episode_store import EpisodeFiles
from astuner.settings.config.show import sign_variables, to_yaml
from astuner.settings.planning.plan import Plan, plan_run
from astuner_devkit.episodes import episode

AGENT = "class Agent:\n    async def execute(self, workflow_task, tuner): ...\n"
JUDGE = """\
from typing import Any

from attrs import field, frozen


class Judge:
    @frozen(kw_only=True)
    class Options:
        level: int = 1
        llm: dict[str, Any] = field(factory=dict)
        parts: tuple[dict[str, Any], ...] = ()

    def compute_reward(self, task, output):
        return 1.0
"""
OPENAI = {"base_url": "http://127.0.0.1:1/v1", "model": "none"}
RUN = {
    "model": {"path": "org/name"},
    "rollout": {"user_workflow": "./agent.py:Agent", "name": "openai", "openai": OPENAI},
    "task_reader": {"type": "dataset_file", "dataset_file": {"training": {"file_path": "train.jsonl"}}},
}

Resumed = Callable[[Mapping[str, Any], Mapping[str, Any]], tuple[RunDirectory, Plan]]


@pytest.fixture
def resumed(tmp_path: Path) -> Resumed:
    """Start a run with the one configuration, and plan it with the other."""

    def planned(more: Mapping[str, Any]) -> Plan:
        (tmp_path / "run.yaml").write_text(yaml.safe_dump({"astuner": {**RUN, **more}}))
        return plan_run(tmp_path / "run.yaml", ())

    def of(before: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[RunDirectory, Plan]:
        (tmp_path / "train.jsonl").write_text('{"main_query": "1 + 1"}\n')
        (tmp_path / "agent.py").write_text(AGENT)
        (tmp_path / "judge.py").write_text(JUDGE)
        directory = RunDirectory(tmp_path / "run")
        directory.path.mkdir()
        loaded = planned(before).loaded
        directory.write_config(given="", resolved=to_yaml(loaded), native={}, environment=sign_variables(loaded))
        return directory, planned(now)

    return of


def judged(*options: Mapping[str, Any]) -> dict[str, Any]:
    names = "abc"
    judges = [{"judge": "./judge.py:Judge", "name": names[n], "options": dict(one)} for n, one in enumerate(options)]
    return {"task_judge": {"judges": judges}}


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ({"level": 1, "llm": {"max_cost": 1}}, {"level": 1, "llm": {"max_cost": 2, "concurrency": 4}}),
        ({"level": 1}, {"level": 1, "llm": {"max_cost": 2}}),
        ({"parts": [{"kind": "x", "llm": {"timeout_s": 1}}]}, {"parts": [{"kind": "x", "llm": {"timeout_s": 2}}]}),
    ],
    ids=["another value", "a section that was not there", "in a list of a list"],
)
def test_limits_of_an_llm_may_change_wherever_they_stand_in_a_list(resumed: Resumed, before: Any, now: Any) -> None:
    check_same_run(*resumed(judged({"level": 3}, before), judged({"level": 3}, now)))


def test_what_a_judge_of_a_list_is_asked_may_not_change_and_is_named_with_its_place(resumed: Resumed) -> None:
    before, now = ({"llm": {"max_cost": 1, "model_name": name}} for name in ("one", "other"))
    with pytest.raises(ConfigError) as caught:
        check_same_run(*resumed(judged({"level": 1}, before), judged({"level": 2}, now)))
    assert [problem.key for problem in caught.value.problems] == [
        "astuner.task_judge.judges[0].options.level",
        "astuner.task_judge.judges[1].options.llm.model_name",
    ]
    assert "was 'one' when run was started and is 'other' now" in str(caught.value)


@pytest.fixture
def after_another_note(resumed: Resumed, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], tuple[RunDirectory, Plan]]:
    """Start a run with a variable under this key, change the variable, and plan the run again."""

    def of(key: str) -> tuple[RunDirectory, Plan]:
        monkeypatch.setenv("MY_NOTE", "one note")
        more = judged({"llm": {key: "${oc.env:MY_NOTE}"}})
        directory, _ = resumed(more, more)
        monkeypatch.setenv("MY_NOTE", "another")
        return directory, plan_run(directory.path.parent / "run.yaml", ())

    return of


def test_a_value_from_the_environment_may_not_change(after_another_note: Any) -> None:
    with pytest.raises(ConfigError, match=r"the value of \$\{oc\.env:MY_NOTE\} is another one than when run was started"):
        check_same_run(*after_another_note("model_name"))


def test_a_secret_from_the_environment_may_change(after_another_note: Any) -> None:
    check_same_run(*after_another_note("api_key"))


def test_a_list_of_another_length_is_named_as_a_whole(resumed: Resumed) -> None:
    with pytest.raises(ConfigError) as caught:
        check_same_run(*resumed(judged({"level": 1}), judged({"level": 1}, {"level": 2})))
    (problem,) = caught.value.problems
    assert problem.key == "astuner.task_judge.judges"


@pytest.mark.parametrize("now", [["jsonl"], ["console", "jsonl"]], ids=["another one", "more"])
def test_the_loggers_may_change_in_number_and_each_of_them(resumed: Resumed, now: list[str]) -> None:
    check_same_run(*resumed({"trainer_common": {"logger": ["console"]}}, {"trainer_common": {"logger": now}}))


def test_a_run_that_was_made_longer_has_another_length(resumed: Resumed) -> None:
    directory, plan = resumed({"trainer_common": {"total_epochs": 1}}, {"trainer_common": {"total_epochs": 2}})
    check_same_run(directory, plan)
    assert not is_same_length(directory, plan)


Change = Callable[[dict[str, Any]], object]


@pytest.fixture
def after_upgrade(resumed: Resumed) -> Callable[..., tuple[RunDirectory, Plan]]:
    """Start a run, let its configuration be that of an older version, and plan it again with other keys."""

    def of(
        change: Change, now: Mapping[str, Any], before: Mapping[str, Any] = {}, given: Mapping[str, Any] = {}
    ) -> tuple[RunDirectory, Plan]:
        directory, plan = resumed(before, now)
        file = directory.path / "config.yaml"
        stored = yaml.safe_load(file.read_text())
        change(stored["resolved"]["astuner"])
        stored["given"] = yaml.safe_dump({"astuner": given})
        file.write_text(yaml.safe_dump(stored))
        return directory, plan

    return of


def read_problems(directory: RunDirectory, plan: Plan, **more: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        check_same_run(directory, plan, **more)
    return [f"{problem.key} {problem.message}" for problem in caught.value.problems]


def test_a_key_that_did_not_exist_then_counts_only_with_another_value_than_its_default(after_upgrade: Any) -> None:
    def forget(stored: dict[str, Any]) -> None:
        del stored["agent"], stored["model"]["unclosed_calls"], stored["trainer_common"]["algorithm"]

    directory, plan = after_upgrade(forget, {})
    assert check_same_run(directory, plan).defaults == ()


def test_a_key_that_did_not_exist_then_and_is_set_now_is_the_users_change(after_upgrade: Any) -> None:
    now = {"model": {"path": "org/name", "unclosed_calls": "read"}}
    found = after_upgrade(lambda stored: stored["model"].pop("unclosed_calls"), now)
    [problem] = read_problems(*found, accepted=["defaults"])
    assert problem.startswith("astuner.model.unclosed_calls was 'text' when run was started and is 'read' now; a resumed run")


def test_a_key_that_did_not_exist_then_in_an_item_of_a_list_counts_likewise(after_upgrade: Any) -> None:
    judges = judged({"level": 1})
    directory, plan = after_upgrade(lambda stored: stored["task_judge"]["judges"][0].pop("only"), judges, judges)
    assert check_same_run(directory, plan).defaults == ()


def test_a_key_that_has_another_name_now_is_the_same(after_upgrade: Any) -> None:
    def rename(stored: dict[str, Any]) -> None:
        stored["rollout"]["agentscope_workflow"] = stored["rollout"].pop("user_workflow")

    directory, plan = after_upgrade(rename, {})
    assert check_same_run(directory, plan) == ChangesOfVersions()


def test_a_key_that_exists_no_more_is_named_and_one_that_was_set_is_to_be_accepted(after_upgrade: Any) -> None:
    def add(stored: dict[str, Any]) -> None:
        stored["rollout"]["older"], stored["model"]["oldest"] = 3, "x"

    found = after_upgrade(add, {}, given={"rollout": {"older": 3}})
    [problem] = read_problems(*found)
    assert "astuner.rollout.older was 3 when run was started, and there is no such key any more" in problem
    accepted = check_same_run(*found, accepted=["defaults"])
    assert accepted.gone == ("model.oldest (was 'x')",)
    assert len(accepted.defaults) == 1


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda stored: stored["model"].pop("late_system_messages"), "astuner.model.late_system_messages was 'template' when"),
        (lambda stored: stored["rollout"].update(top_p=0.5), "astuner.rollout.top_p was 0.5 when run was started"),
    ],
    ids=["another meaning", "another value"],
)
def test_a_default_of_another_version_is_named_and_accepted(after_upgrade: Any, change: Change, named: str) -> None:
    found = after_upgrade(change, {})
    [problem] = read_problems(*found, accepted=())
    assert problem.startswith(named)
    assert ", by default; set it to" in problem
    assert problem.endswith("--accept-changes defaults accepts it")
    [accepted] = check_same_run(*found, accepted=["defaults"]).defaults
    assert accepted.startswith(named)


def test_a_command_that_accepts_nothing_does_not_say_how_to_accept_it(after_upgrade: Any) -> None:
    [problem] = read_problems(*after_upgrade(lambda stored: stored["rollout"].update(top_p=0.5), {}))
    assert problem.endswith("by default; set it to 0.5 to continue as before")


def test_a_text_that_is_no_yaml_without_its_secrets_names_no_keys(after_upgrade: Any) -> None:
    directory, plan = after_upgrade(lambda stored: None, {})
    file = directory.path / "config.yaml"
    file.write_text(yaml.safe_dump({**yaml.safe_load(file.read_text()), "given": "a: {<redacted>: ["}))
    assert check_same_run(directory, plan) == ChangesOfVersions()


@pytest.mark.parametrize("how", ["given", "command"])
def test_a_key_that_the_user_has_set_and_sets_no_more_is_not_of_another_version(after_upgrade: Any, how: str) -> None:
    given = {"rollout": {"top_p": 0.5}} if how == "given" else {}
    directory, plan = after_upgrade(lambda stored: stored["rollout"].update(top_p=0.5), {}, given=given)
    directory.amend_run(command=["astuner", "run", "--set=rollout.top_p=0.5"] if how == "command" else [])
    [problem] = read_problems(directory, plan, accepted=["defaults"])
    assert "a resumed run keeps it" in problem


def falling(total: int, schedule: str = "linear") -> dict[str, Any]:
    return {"trainer_common": {"total_training_steps": total, "optim": {"lr_scheduler_type": schedule, "lr": 0.01}}}


class OneBatch:
    def read(self, split: str) -> Iterator[Task]:
        yield Task(main_query="1 + 1", task_id="t")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EpisodeFiles]:
    """Episodes of the steps 1 to 4."""
    store = EpisodeFiles(tmp_path / "episodes")
    for step in (1, 2, 3, 4):
        store.add_episode(episode(step=step))
    store.close()
    again = EpisodeFiles(tmp_path / "episodes", replay_after=1)
    yield again
    again.close()


TASKS = TaskSampler(OneBatch(), batch_size=1, epochs=1, seed=1)  # type: ignore[arg-type]  # all that is read of a reader


def test_another_length_under_a_falling_rate_drops_what_later_weights_have_sampled(resumed: Resumed, store: EpisodeFiles) -> None:
    notice = drop_episodes_of_other_rates(*resumed(falling(5), falling(20)), store, TASKS, 1)
    assert notice is not None
    assert "learning rate of step 2 is 0.0095; it was 0.008. 2 stored episodes" in notice
    assert [step for step in (2, 3, 4) if store.recall(f"train/{step}/t/0")] == [2]


@pytest.mark.parametrize(
    ("before", "now"),
    [(falling(5, "constant"), falling(20, "constant")), (falling(5), falling(5))],
    ids=["a constant rate", "the same length"],
)
def test_where_no_rate_changes_every_stored_episode_is_kept(resumed: Resumed, store: EpisodeFiles, before: Any, now: Any) -> None:
    assert drop_episodes_of_other_rates(*resumed(before, now), store, TASKS, 1) is None
    assert [step for step in (2, 3, 4) if store.recall(f"train/{step}/t/0")] == [2, 3, 4]


def test_a_finished_run_that_is_made_longer_shows_the_jump_of_its_rate(resumed: Resumed, store: EpisodeFiles) -> None:
    notice = drop_episodes_of_other_rates(*resumed(falling(40), falling(80)), store, TASKS, 40)
    assert notice == (
        "the run had 40 steps and has 80 now, so with lr_scheduler_type 'linear' the learning rate of step 41 is 0.005; it was 0."
    )


@pytest.mark.parametrize("steps", ["1000000", "2000000"])
def test_a_length_from_the_environment_is_compared_although_it_is_not_stored(
    resumed: Resumed, store: EpisodeFiles, monkeypatch: pytest.MonkeyPatch, steps: str
) -> None:
    monkeypatch.setenv("MY_STEPS", "1000000")
    length = {"total_training_steps": "${oc.decode:${oc.env:MY_STEPS}}", "optim": {"lr_scheduler_type": "linear", "lr": 0.01}}
    directory, plan = resumed({"trainer_common": length}, {"trainer_common": length})
    monkeypatch.setenv("MY_STEPS", steps)
    plan = plan_run(directory.path.parent / "run.yaml", ())
    assert "1000000" not in (directory.path / "config.yaml").read_text()
    assert is_same_length(directory, plan) == (steps == "1000000")
    notice = drop_episodes_of_other_rates(directory, plan, store, TASKS, 1)
    assert (notice is None) == (steps == "1000000")


def test_a_section_from_the_environment_may_not_change(resumed: Resumed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_LLM", "{model_name: one}")
    more = judged({"llm": "${oc.decode:${oc.env:MY_LLM}}"})
    directory, plan = resumed(more, more)
    check_same_run(directory, plan)
    monkeypatch.setenv("MY_LLM", "{model_name: other}")
    with pytest.raises(ConfigError, match=r"options\.llm: the value of \$\{oc\.decode:\$\{oc\.env:MY_LLM\}\} is another one"):
        check_same_run(directory, plan_run(directory.path.parent / "run.yaml", ()))
