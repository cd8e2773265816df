"""How a run says which environment its episodes are played in, from the YAML to the transcript."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from astuner.contract.errors import AstunerError, ConfigError, DataError
from astuner.settings.planning.plan import plan_run
from astuner.settings.plugins.catalog import Catalog
from astuner_devkit import write_project

GAMES = (Path(__file__).parents[1] / "environment_games.py").read_text()
LEADS = {"user_workflow": None, "use_agentscope_protocol": False}
PLAYS = "class Plays:\n    async def execute(self, workflow_task, tuner):\n        from astuner import WorkflowOutput\n"
PLAYS += "        env = workflow_task.gym_env\n        return WorkflowOutput(reward=0.0 if env is None else 1.0)\n"


@pytest.fixture
def settings(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Settings of a run in which the environment leads and nobody judges."""
    (tmp_path / "games.py").write_text(GAMES)
    (tmp_path / "plays.py").write_text(PLAYS)

    def make(environment: dict[str, Any] | None = None, **rollout: Any) -> dict[str, Any]:
        section = {} if environment is None else {"environment": environment}
        return {"task_judge": {}, "rollout": {**LEADS, **rollout}, **section}

    return make


@pytest.fixture
def installed(fake_distribution: Callable[..., Path]) -> None:
    group = {
        "astuner.environments": {"guess": "acme_games:Guess", "sized": "acme_games:WithOptions", "odd": "acme_games:NoClose"}
    }
    fake_distribution("acme-envs", "1.2.0", {"acme_games.py": GAMES}, group, ["astuner-core>=0.2,<0.3"])


def tasks(*env_types: str | None) -> list[dict[str, Any]]:
    named = [{} if env_type is None else {"env_type": env_type} for env_type in env_types]
    return [{"task_id": f"t{i}", "main_query": "guess", "secret": 7, **row} for i, row in enumerate(named)]


def problem(directory: Path, settings: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        plan_run(write_project(directory, settings=settings))
    return str(caught.value)


def test_an_environment_of_ones_own_leads_every_task_and_debug_shows_it(run, settings):
    played = run(tasks=tasks(None), replies=["5", "7"], settings=settings({"environment_type": "./games.py:Guess"}))
    assert played.rewards == [1.0]
    transcript = next(text for text in played.notices if text.startswith("episode "))
    assert ["user: higher" in transcript, "assistant: 7" in transcript, "reward 1, success" in transcript] == [True] * 3
    assert (played.metrics["workflow/steps"], played.metrics["workflow/score"]) == (2.0, 1.0)


@pytest.mark.usefixtures("installed")
def test_each_tasks_env_type_names_an_installed_environment(run, settings):
    played = run(
        tasks=tasks("guess", "sized", "acme-envs/guess"),
        replies=["7"],
        settings=settings({"sized": {"highest": 50}}),
    )
    assert played.rewards == [1.0] * 3
    first = [episode.output.metadata["messages"][0]["content"] for episode in played.episodes]
    assert first == ["You guess.", "Guess a number from 1 to 50.", "You guess."]


@pytest.mark.usefixtures("installed")
def test_the_environments_of_a_run_are_among_its_plugins(tmp_path, run, settings):
    played = run(tasks=tasks(None), replies=["7"], settings=settings({"environment_type": "guess"}))
    assert "environment guess (acme-envs 1.2.0)" in " ".join(played.notices)


@pytest.mark.usefixtures("installed")
def test_a_misspelt_environment_is_named_with_its_place_and_what_is_installed(tmp_path, settings):
    said = problem(tmp_path, settings({"environment_type": "gues"}))
    assert "project.yaml:" in said
    assert "environment.environment_type: no environment 'gues'; installed: guess, odd, sized (acme-envs 1.2.0)" in said
    assert "Did you mean 'guess'?" in said


@pytest.mark.usefixtures("installed")
def test_options_are_checked_before_anything_is_made(tmp_path, settings):
    said = problem(tmp_path, settings({"environment_type": "sized", "sized": {"hihgest": 3}}))
    assert "astuner.environment.sized.hihgest" in said
    assert "Did you mean 'highest'?" in said


@pytest.mark.usefixtures("installed")
def test_options_of_an_environment_that_tasks_may_name_are_checked_too(tmp_path, settings):
    assert "astuner.environment.sized.highest" in problem(tmp_path, settings({"sized": {"highest": "many"}}))


@pytest.mark.usefixtures("installed")
def test_options_of_an_environment_that_is_not_there_are_refused(tmp_path, settings):
    assert "no environment 'gues'" in problem(tmp_path, settings({"gues": {}}))


@pytest.mark.usefixtures("installed")
def test_a_class_that_is_no_environment_is_refused(tmp_path, settings):
    said = problem(tmp_path, settings({"environment_type": "odd"}))
    assert "environment 'odd' from acme-envs 1.2.0 (acme_games:NoClose) has no close" in said


def test_a_file_of_ones_own_that_is_not_there_is_found_out_by_its_source(tmp_path, settings):
    assert "Did you mean './games.py:Guess'?" in problem(tmp_path, settings({"environment_type": "./games.py:Gues"}))


@pytest.mark.usefixtures("installed")
def test_a_task_that_names_no_environment_is_refused_where_one_has_to_lead(run, settings):
    with pytest.raises(DataError, match=r"task 't1' \(train\): no environment 'guesss'; installed: .*Did you mean 'guess'\?"):
        run(tasks=tasks("guess", "guesss"), settings=settings())
    with pytest.raises(DataError, match=r"task 't0' \(train\): env_type 'no_env' names no environment"):
        run(tasks=tasks(None), settings=settings())


def test_data_never_name_code_by_its_path(run, settings, fake_distribution):
    group = {"astuner.environments": {"guess": "acme_games:Guess"}}
    fake_distribution("acme-envs", "1.2.0", {"acme_games.py": GAMES}, group)
    with pytest.raises(DataError, match=r"no environment './games.py:Guess'"):
        run(tasks=tasks("./games.py:Guess"), settings=settings())


def test_without_any_environment_the_loop_is_refused(tmp_path, settings):
    # Other packages beside core may bring some.
    installed = sorted({str(candidate.dist) for candidate in Catalog.discover().candidates("environment")})
    alone = {**settings(), "plugins": {"disabled": installed}}
    assert "none is installed" in problem(tmp_path, alone)
    assert "an environment has to lead" in problem(tmp_path, settings({"environment_type": "no_env"}))


def test_another_process_is_given_no_environment(tmp_path, settings):
    said = problem(tmp_path, settings({"environment_type": "./games.py:Guess"}, isolation="process"))
    assert "astuner.rollout.isolation: an environment lives in the rollout process" in said


@pytest.mark.usefixtures("installed")
def test_a_task_with_an_environment_is_refused_where_workflows_have_processes_of_their_own(run, settings):
    rollout = {"user_workflow": "./plays.py:Plays", "use_agentscope_protocol": True, "isolation": "process"}
    with pytest.raises(DataError, match="cannot be handed to a workflow in another process"):
        run(tasks=tasks("guess"), settings={**settings(), "rollout": rollout})


@pytest.mark.usefixtures("installed")
def test_a_workflow_has_the_environment_that_its_task_names_if_it_is_there(run, settings):
    rollout = {"user_workflow": "./plays.py:Plays", "use_agentscope_protocol": True}
    played = run(tasks=tasks("guess", None, "gues"), settings={**settings(), "rollout": rollout})
    assert played.rewards == [1.0, 0.0, 0.0]
    told = [text for text in played.notices if "gym_env is None" in text]
    assert len(told) == 1
    assert "no environment 'gues'" in told[0]
    assert "environment.environment_type: no_env" in told[0]


@pytest.mark.usefixtures("installed")
def test_no_env_gives_no_task_an_environment(run, settings):
    rollout = {"user_workflow": "./plays.py:Plays", "use_agentscope_protocol": True}
    given = {**settings({"environment_type": "no_env"}), "rollout": rollout}
    played = run(tasks=tasks("guess", "gues"), settings=given)
    assert (played.rewards, [text for text in played.notices if "gym_env" in text]) == ([0.0, 0.0], [])


def test_a_workflow_beside_a_leading_environment_is_refused_with_both_ways_out(tmp_path, settings):
    said = problem(tmp_path, settings({"environment_type": "./games.py:Guess"}, user_workflow="./plays.py:Plays"))
    assert "astuner.rollout.user_workflow: a workflow is named" in said
    assert "Remove this key to play the environment, or the other to play the workflow" in said


def test_neither_a_workflow_nor_an_environment_is_refused_with_both_ways_on(tmp_path, settings):
    said = problem(tmp_path, settings(use_agentscope_protocol=True))
    assert "Name one (`my_agent->MyWorkflow`), or let an environment lead: environment.leads: true" in said


def test_an_environment_named_as_the_reader_plays_what_no_other_does(run, settings, fake_distribution):
    group = {"astuner.environments": {"dataset_file": "acme_games:Guess"}}
    fake_distribution("acme-envs", "1.2.0", {"acme_games.py": GAMES}, group)
    assert run(tasks=tasks("appworld"), replies=["7"], settings=settings()).rewards == [1.0]


def test_a_section_of_an_environment_that_is_not_chosen_is_remarked_on(tmp_path, settings):
    plan = plan_run(write_project(tmp_path, settings=settings({"environment_type": "./games.py:Guess", "maze": {"x": 1}})))
    assert any("environment.maze is not used" in notice for notice in plan.notices)


def test_a_preference_of_actions_has_no_effect_beside_a_workflow(tmp_path):
    plan = plan_run(write_project(tmp_path, settings={"environment": {"env_action_preference": "box"}}))
    assert any("environment.env_action_preference: without effect" in notice for notice in plan.notices)


PREFERRING = """
from astuner.contract.protocols import ReaderTraits


class Preferring:
    traits = ReaderTraits(prefers_actions=True)

    def read(self, split):
        return iter(())

    @classmethod
    def prefer_actions(cls, options):
        return "box"
"""


@pytest.mark.parametrize(
    ("own", "reader", "preference"),
    [(None, "dataset_file", "text"), (None, "./readers.py:Preferring", "box"), ("code", "./readers.py:Preferring", "code")],
)
def test_the_preference_of_actions_falls_back_to_that_of_the_reader(tmp_path, settings, own, reader, preference):
    (tmp_path / "readers.py").write_text(PREFERRING)
    chosen = settings({"environment_type": "./games.py:Guess", "env_action_preference": own}) | {"task_reader": {"type": reader}}
    plan = plan_run(write_project(tmp_path, settings=chosen))
    assert plan.recipe.environments is not None
    assert plan.recipe.environments.preference == preference


def test_an_environment_that_cannot_be_made_is_counted_under_its_reason(run, settings):
    with pytest.raises(AstunerError, match=r"environment_error: environment './games.py:FailsToBeMade'"):
        run(tasks=tasks(None), settings=settings({"environment_type": "./games.py:FailsToBeMade"}, max_retries=0))
