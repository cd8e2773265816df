from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from prompt_project import SEED, add_a_word, count_calls, script, write_project

from astuner.contract.errors import AstunerError, ConfigError, Interrupted, RunFailed
from astuner.contract.schema import Episode, Group, Task, Verdict
from astuner.runs.driver.control import StopSwitch
from astuner.runs.driver.launch import evaluate_run, start_run
from astuner.runs.driver.run_request import RunRequest
from astuner.runs.store.manifest import write_manifest
from astuner.runs.store.metric_rows import read_curve, read_metric_rows
from astuner_devkit.project import write_tokenizer
from astuner_devkit.run_in_process import play
from astuner_devkit.scripted_api import Reply, scripted_api
from astuner_gepa.tuning import compute_scores

BEST = f"{SEED} alpha beta"
WHOLE_RUN = 22
"""Episodes of an uninterrupted run: 2 for each of 3 validations, 4 for each of 4 steps."""


@pytest.fixture
def api():
    with scripted_api(script()) as made:
        yield made


def read_prompts(directory: Path) -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads((directory / "prompts.json").read_text())
    return found


def read_values(directory: Path, name: str) -> list[tuple[int, float]]:
    return read_curve(read_metric_rows(directory / "metrics.jsonl").rows, name)


def systems_sent(episodes) -> set[str]:
    return {message["content"] for one in episodes for message in one.calls[0].messages if message["role"] == "system"}


def test_the_validation_climbs_from_0_to_1_under_the_names_of_a_run_on_weights(api, tmp_path):
    run = play(write_project(tmp_path, api))
    assert read_values(run.directory, "val/reward/mean") == [(0, 0.0), (2, 0.5), (4, 1.0)]
    assert read_values(run.directory, "reward/mean") == [(1, 0.0), (2, 0.5), (3, 0.5), (4, 1.0)]


def test_the_best_prompts_are_a_document_and_files_of_text(api, tmp_path):
    directory = play(write_project(tmp_path, api)).directory
    found = read_prompts(directory)
    assert [(one["agent"], one["seed"], one["text"]) for one in found["prompts"]] == [("agent", SEED, BEST)]
    assert found["step"] == 4
    assert found["validation"]["val/reward/mean"] == 1.0
    assert (directory / "prompts" / "agent.txt").read_text() == BEST


def test_recorded_episodes_show_what_was_sent(api, tmp_path):
    run = play(write_project(tmp_path, api))
    by_step = {step: systems_sent(one for one in run.episodes if one.step == step) for step in range(1, 5)}
    assert by_step == {1: {SEED}, 2: {f"{SEED} alpha"}, 3: {f"{SEED} alpha"}, 4: {BEST}}
    assert {body["messages"][0]["content"] for body in api.bodies if body["model"] == "player"} == set.union(*by_step.values())


def test_the_same_tasks_judge_old_and_new_prompts_in_the_order_of_a_run_on_weights(api, tmp_path):
    run = play(write_project(tmp_path, api))
    steps = [[group.task.task_id for group in run.groups if group.step == step] for step in range(1, 5)]
    first, third = ["train-0", "train-1"], ["train-2", "train-3"]
    assert steps == [first, first, third, third]


def test_a_search_without_an_end_takes_the_steps_of_the_run_and_no_more(api, tmp_path):
    run = play(write_project(tmp_path, api, {"perfect_score": None}, trainer_common={"total_training_steps": 5}))
    assert [step for step, _ in read_values(run.directory, "reward/mean")] == [1, 2, 3, 4, 5]
    assert count_calls(api) == 2 + 5 * 4 + 2 + 2
    assert sorted(path.name for path in (run.directory / "checkpoints").iterdir()) == ["step_2", "step_4", "step_5"]


def test_the_last_validation_is_that_of_the_best_prompts(tmp_path):
    def worsen(question: str) -> str:
        return "```\nalpha\n```" if "alpha" not in question.split("```")[1] else "```\nbeta\n```"

    settings = {"acceptance": "improvement_or_equal", "selection": "current_best", "perfect_score": None}
    with scripted_api(script(worsen)) as api:
        conf = write_project(tmp_path, api, settings)
        # Beta is as good on a batch, and worthless in validation.
        (tmp_path / "held_out.jsonl").write_text('{"task_id": "only", "main_query": "Say alpha please", "answer": "alpha"}\n')
        run = play(conf)
    assert read_values(run.directory, "val/reward/mean") == [(0, 0.0), (2, 1.0), (4, 0.0), (6, 1.0)]
    assert read_prompts(run.directory)["step"] == 2


@pytest.mark.parametrize("most", [2, 7, 13, 14, 21])
def test_the_budget_is_kept_to_the_episode(api, tmp_path, most):
    run = play(write_project(tmp_path, api, {"max_episodes": most}))
    affordable = [total for total in (2, 6, 10, 12, 16, 20, 22) if total <= most]
    assert count_calls(api) == affordable[-1]
    assert any(f"gepa.max_episodes is {most}" in notice for notice in run.notices)
    assert (run.directory / "prompts.json").exists()


def test_prompts_that_are_perfect_already_are_left_alone(api, tmp_path):
    conf = write_project(tmp_path, api)
    (tmp_path / "agent.py").write_text((tmp_path / "agent.py").read_text().replace(SEED, BEST))
    run = play(conf)
    assert (count_calls(api), count_calls(api, "reflector")) == (2, 0)
    assert any("no prompts were better" in notice for notice in run.notices)


def test_a_limit_of_the_reflection_ends_the_search_and_keeps_what_was_found(api, tmp_path):
    run = play(write_project(tmp_path, api, {"reflection": {"max_requests": 1}}))
    assert count_calls(api, "reflector") == 1
    assert read_prompts(run.directory)["prompts"][0]["text"] == f"{SEED} alpha"
    assert any("max_requests: 1" in notice and "the search ends" in notice for notice in run.notices)


def test_an_answer_that_is_no_prompt_costs_no_episodes(tmp_path):
    with scripted_api(script(lambda question: "I would rather talk about the weather.")) as api:
        run = play(write_project(tmp_path, api, trainer_common={"total_training_steps": 3}))
        assert count_calls(api) == 2 + 3 * 4
    said = [notice for notice in run.notices if "reflection LLM" in notice]
    assert "proposed none: 'I would rather talk about the weather.'" in said[0]
    assert said[1] == "3 of 3 answers of the reflection LLM proposed no other prompt"


def test_the_present_prompt_proposed_again_costs_no_episodes(tmp_path):
    with scripted_api(script(lambda question: f"```\n{SEED}\n```")) as api:
        run = play(write_project(tmp_path, api, trainer_common={"total_training_steps": 3}))
        assert count_calls(api) == 2 + 3 * 4
    assert any("proposed the same one" in notice for notice in run.notices)


def test_a_reflection_that_fails_ends_the_run_which_goes_on_with_resume(tmp_path):
    failing = [True]

    def reflect(question: str) -> str | Reply:
        return Reply(401, {"error": {"message": "who are you?"}}) if failing[0] else add_a_word(question)

    with scripted_api(script(reflect)) as api:
        conf = write_project(tmp_path, api)
        with pytest.raises(RunFailed, match=r"gepa.reflection: no answer.*who are you"):
            play(conf)
        failing[0] = False
        start_run(RunRequest(conf=conf, resume=True))
        assert count_calls(api) == WHOLE_RUN
    assert read_prompts(tmp_path / "run")["prompts"][0]["text"] == BEST


def test_what_the_reflection_is_shown(api, tmp_path):
    play(write_project(tmp_path, api, {"reflection": {"examples": 3, "show": ["answer"]}}))
    question = next(body for body in api.bodies if body["model"] == "reflector")["messages"][0]["content"]
    assert re.findall(r"## Task\n(.+)\n\n## answer\n(.+)\n\n## Conversation\nuser: (.+)\n\nassistant: (.+)\n", question) == [
        (f"Say {word} please", word, f"Say {word} please", "no idea") for word in ("alpha", "beta", "alpha")
    ]
    assert question.count("## Feedback\nreward 0, no success") == 3


LEAKY = """
import os

from agent import Agent


class Leaky(Agent):
    async def execute(self, workflow_task, tuner):
        output = await super().execute(workflow_task, tuner)
        if workflow_task.repeat:
            raise RuntimeError("the search refused " + os.environ["ACME_API_KEY"])
        return output
"""


def test_the_reflection_sees_why_an_episode_failed_and_no_secret_in_it(api, tmp_path, monkeypatch):
    monkeypatch.setenv("ACME_API_KEY", "acme-0123456789abcdef0123")
    conf = write_project(tmp_path, api, rollout={"user_workflow": "./leaky.py:Leaky"}, trainer_common={"total_training_steps": 1})
    (tmp_path / "leaky.py").write_text(LEAKY)
    play(conf)
    question = next(body for body in api.bodies if body["model"] == "reflector")["messages"][0]["content"]
    assert "workflow_error: RuntimeError: the search refused" in question
    assert "0123456789" not in question + (tmp_path / "run" / "gepa.jsonl").read_text()


class Stopper:
    """Stops a run when the API gets its n-th request."""

    def __init__(self, after: int) -> None:
        self.switch, self._after = StopSwitch(), after

    def __call__(self, body: Mapping[str, Any], number: int) -> str | Reply:
        if number == self._after:
            self.switch.request_stop()
        return script()(body, number)


@pytest.mark.parametrize("after", [0, 1, 3, 6, 8, 11, 16])
def test_a_stopped_run_goes_on_as_if_it_had_not_been_stopped(tmp_path, after):
    stopper = Stopper(after)
    with scripted_api(stopper) as api:
        conf = write_project(tmp_path, api, rollout={"max_env_worker": 1})
        with pytest.raises(Interrupted):
            start_run(RunRequest(conf=conf), stopper.switch)
        api.script = script()
        start_run(RunRequest(conf=conf, resume=True))
        # What was under way is asked again.
        assert count_calls(api) + count_calls(api, "reflector") in (WHOLE_RUN + 2, WHOLE_RUN + 3)
    assert read_values(tmp_path / "run", "val/reward/mean") == [(0, 0.0), (2, 0.5), (4, 1.0)]
    assert read_prompts(tmp_path / "run")["prompts"][0]["text"] == BEST


@pytest.mark.parametrize(("moment", "hash_seed"), [(1, "1"), (4, "2"), (6, "3"), (9, "4"), (12, "5"), (20, "6")])
def test_a_killed_run_pays_nothing_twice(tmp_path, moment, hash_seed):
    """Requests 0 and 1 are the first validation, 2 to 5 step 1, 6 the reflection, 7 to 10 step 2, 11 and 12 its validation."""
    running: list[subprocess.Popen[bytes]] = []
    killed: list[str] = []

    def kill(body: Mapping[str, Any], number: int) -> str | Reply:
        if number == moment:
            running[0].send_signal(signal.SIGKILL)
            running[0].wait()
            killed.append(body["model"])
        return script()(body, number)

    with scripted_api(kill) as api:
        conf = write_project(tmp_path, api, rollout={"max_env_worker": 1})
        command = [sys.executable, "-m", "astuner", "run", "--conf", str(conf)]
        running.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        assert running[0].wait(120) == -signal.SIGKILL
        # Nothing depends on the order of a set of texts.
        done = subprocess.run([*command, "--resume"], capture_output=True, env=environment(hash_seed), timeout=120, check=False)
        assert done.returncode == 0, done.stderr.decode()
        again = {"player": 0, "reflector": 0} | {killed[0]: 1}
        assert count_calls(api) == WHOLE_RUN + again["player"]
        assert count_calls(api, "reflector") == 2 + again["reflector"]
    assert read_prompts(tmp_path / "run")["prompts"][0]["text"] == BEST
    assert read_values(tmp_path / "run", "val/reward/mean") == [(0, 0.0), (2, 0.5), (4, 1.0)]


def environment(hash_seed: str) -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONHASHSEED": hash_seed}


def test_a_finished_run_goes_on_when_it_may_take_more_steps(api, tmp_path):
    conf = write_project(tmp_path, api, trainer_common={"total_training_steps": 2})
    play(conf)
    asked = count_calls(api)
    start_run(RunRequest(conf=conf, resume=True, overrides=("trainer_common.total_training_steps=6",)))
    assert (asked, count_calls(api)) == (12, WHOLE_RUN)
    assert read_prompts(tmp_path / "run")["prompts"][0]["text"] == BEST


def test_a_resume_without_the_answers_says_what_is_missing(api, tmp_path):
    conf = write_project(tmp_path, api, trainer_common={"total_training_steps": 2})
    play(conf)
    lines = (tmp_path / "run" / "gepa.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "run" / "gepa.jsonl").write_bytes(b"".join(lines[:2]))
    with pytest.raises(RunFailed, match=r"gepa\.jsonl: holds no answer to what gepa asks in step 1"):
        start_run(RunRequest(conf=conf, resume=True, overrides=("trainer_common.total_training_steps=6",)))


def test_a_checkpoint_is_evaluated_with_its_prompts(api, tmp_path):
    conf = write_project(tmp_path, api)
    play(conf)
    own = evaluate_run(RunRequest(conf=conf))
    tuned = evaluate_run(RunRequest(conf=conf), tmp_path / "run" / "checkpoints" / "step_4")
    assert own.after is not None
    assert tuned.after is not None
    assert (own.after["val/reward/mean"], tuned.after["val/reward/mean"]) == (0.0, 1.0)


def test_what_holds_no_prompts_is_no_checkpoint(api, tmp_path):
    conf, weights = write_project(tmp_path, api), tmp_path / "weights"
    weights.mkdir()
    write_manifest(weights)
    with pytest.raises(
        AstunerError, match=r"prompts\.json: does not exist; take a checkpoint that the backbone 'gepa' has written"
    ):
        evaluate_run(RunRequest(conf=conf), weights)


def test_a_workflow_without_a_system_message_gets_one(api, tmp_path):
    run = play(write_project(tmp_path, api, rollout={"user_workflow": "./agent.py:Silent"}))
    assert read_prompts(run.directory)["prompts"][0]["text"] == "alpha beta"
    assert any("sends no system message, so the tuned prompt is added as one" in notice for notice in run.notices)
    assert systems_sent(one for one in run.episodes if one.step == 1) == set()
    assert systems_sent(one for one in run.episodes if one.step == 4) == {"alpha beta"}


def test_a_system_message_that_varies_gets_the_prompt_in_front(api, tmp_path):
    run = play(write_project(tmp_path, api, rollout={"user_workflow": "./agent.py:Varying"}))
    assert any("varies with the task (2 different ones in 2 conversations)" in notice for notice in run.notices)
    sent = systems_sent(one for one in run.episodes if one.step == 4)
    assert sent == {f"alpha beta\n\n{SEED}\nToday's task: train-{number}" for number in (2, 3)}


def test_the_part_of_it_that_is_always_the_same_can_be_named(api, tmp_path):
    settings = {"prompts": {"agent": SEED}}
    run = play(write_project(tmp_path, api, settings, rollout={"user_workflow": "./agent.py:Varying"}))
    sent = systems_sent(one for one in run.episodes if one.step == 4)
    assert all(one.startswith(f"{BEST}\nToday's task: train-") for one in sent)
    assert read_prompts(run.directory)["prompts"][0]["text"] == BEST


def test_a_message_that_first_comes_in_training_is_named(api, tmp_path):
    conf = write_project(tmp_path, api, trainer_common={"total_training_steps": 2})
    source = (tmp_path / "agent.py").read_text()
    (tmp_path / "agent.py").write_text(
        source.replace('"content": PROMPT}', '"content": PROMPT + "!" * (task.task_id == "train-0")}')
    )
    run = play(conf)
    text = "2 conversations of the agent 'agent' (train, step 1) had another system message than the one that is tuned"
    assert any(text in notice for notice in run.notices)


def fail(conf: Path, overrides: tuple[str, ...] = ()) -> str:
    with pytest.raises(AstunerError) as caught:
        play(conf, overrides)
    return str(caught.value)


def test_what_is_missing_is_said_before_anything_is_played(api, tmp_path, monkeypatch):
    monkeypatch.delenv("ACME_KEY", raising=False)
    conf = write_project(tmp_path, api)
    for change, said in (
        ("gepa.reflection.api_key_env=ACME_KEY", "gepa.reflection.api_key_env: the environment variable ACME_KEY holds no key"),
        ("gepa.reflection.model=null", "gepa.reflection.model: this key is required"),
        ("task_reader.dataset_file.validation=null", "astuner.task_reader: there are no validation tasks"),
        ("gepa.max_episodes=1", "gepa.max_episodes: 1 episodes are less than the first validation takes, 2"),
        ("gepa.selection=best", "gepa.selection"),
        ("gepa.reflektion.model=x", "Did you mean 'reflection"),
        ("gepa.prompts.agent=' '", "the text of 'agent' is empty"),
    ):
        assert said in fail(conf, (change,)), change
    assert api.bodies == []


def test_a_prompt_that_no_one_sends_is_refused_after_the_first_validation(api, tmp_path):
    conf = write_project(tmp_path, api, {"prompts": {"agent": "Be brief."}})
    assert f"this text is in no system message of the agent; one of them begins '{SEED}'" in fail(conf)
    conf = write_project(tmp_path / "other", api, {"prompts": {"planner": "Be brief."}})
    assert "gepa.prompts.planner: no trained agent of this name asks the model; there are agent" in fail(conf)
    assert count_calls(api) == 4


def test_keys_of_weights_are_named_and_do_not_end_the_run(api, tmp_path):
    trainer = {"total_training_steps": 2, "use_kl_loss": False, "optim": {"lr": 1e-4}, "test_freq": 1}
    run = play(write_project(tmp_path, api, trainer_common=trainer, model={"lora_rank": 4}))
    unused = "model.lora_rank, trainer_common.optim.lr, trainer_common.test_freq, trainer_common.use_kl_loss"
    assert f"not used by gepa: {unused}" in run.notices[0]


def test_nothing_is_said_of_weights_at_the_end(api, tmp_path):
    story = start_run(RunRequest(conf=write_project(tmp_path, api))).story
    assert [line for line in story if line.startswith(("why:", "export:"))] == []
    assert any(line.startswith("compare:") for line in story)


def test_gepas_own_errors_end_the_run(api, tmp_path, monkeypatch):
    import gepa

    def refuse(**given: Any) -> None:
        raise ValueError("gepa is ill")

    monkeypatch.setattr(gepa, "optimize", refuse)
    with pytest.raises(ValueError, match="gepa is ill"):
        play(write_project(tmp_path, api))


def test_a_key_is_sent_to_the_reflection_alone(api, tmp_path, monkeypatch):
    monkeypatch.setenv("ACME_KEY", "sk-acme")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    play(write_project(tmp_path, api, {"reflection": {"api_key_env": "ACME_KEY"}}))
    by_model = {body["model"]: key for body, key in zip(api.bodies, api.keys, strict=True)}
    assert by_model == {"player": "", "reflector": "sk-acme"}


def test_a_missing_engine_is_refused_with_its_key(api, tmp_path):
    conf = write_project(tmp_path, api)
    with pytest.raises(ConfigError, match="rollout"):
        play(conf, ("rollout.name=nothing",))


ENVIRONMENT = """
class Words:
    def __init__(self, workflow_task):
        self.task, self.score = workflow_task.task, 0.0

    async def reset(self):
        return [{"role": "system", "content": "Answer the question."}, {"role": "user", "content": self.task.main_query}]

    async def step(self, action):
        self.score = float(action["content"] == self.task.metadata["answer"])
        return [], self.score, True, {}

    async def evaluate(self):
        return self.score

    async def close(self):
        pass
"""

TWO_AGENTS = """
from astuner import Workflow, WorkflowOutput


class Pair(Workflow):
    async def execute(self, workflow_task, tuner):
        said = []
        for agent, word in (("planner", "alpha"), ("worker", "beta")):
            client = tuner.as_raw_openai_sdk_client(agent)
            messages = [{"role": "system", "content": f"You are the {agent}."}, {"role": "user", "content": f"Say {word}"}]
            answer = await client.chat.completions.create(model="any", messages=messages)
            said.append(answer.choices[0].message.content == word)
        return WorkflowOutput(reward=sum(said) / 2)
"""


def add_all_words(question: str) -> str:
    return f"```\n{question.split('```')[1].strip()} alpha beta\n```"


def test_several_agents_have_their_prompts_tuned_in_turn(tmp_path):
    with scripted_api(script(add_all_words)) as api:
        conf = write_project(tmp_path, api, rollout={"user_workflow": "./pair.py:Pair"})
        (tmp_path / "pair.py").write_text(TWO_AGENTS)
        run = play(conf, ("task_judge=null",))
    texts = {one["agent"]: one["text"] for one in read_prompts(run.directory)["prompts"]}
    assert texts == {"planner": "You are the planner. alpha beta", "worker": "You are the worker. alpha beta"}
    assert read_values(run.directory, "val/reward/mean") == [(0, 0.0), (2, 0.5), (4, 1.0)]
    assert (run.directory / "prompts" / "planner.txt").read_text() == texts["planner"]


def test_only_the_agents_that_are_named_are_tuned(tmp_path):
    prompts = {"prompts": {"worker": "You are the worker."}}
    with scripted_api(script(add_all_words)) as api:
        conf = write_project(tmp_path, api, prompts, rollout={"user_workflow": "./pair.py:Pair"})
        (tmp_path / "pair.py").write_text(TWO_AGENTS)
        run = play(conf, ("task_judge=null",))
    assert [one["agent"] for one in read_prompts(run.directory)["prompts"]] == ["worker"]
    assert read_values(run.directory, "val/reward/mean") == [(0, 0.0), (2, 0.5), (6, 0.5)]


def test_the_prompt_of_an_environment_that_leads_is_tuned(api, tmp_path):
    environment = {"environment_type": "./words.py:Words", "leads": True}
    conf = write_project(tmp_path, api, environment=environment)
    (tmp_path / "words.py").write_text(ENVIRONMENT)
    run = play(conf, ("rollout.user_workflow=null", "task_judge=null"))
    assert read_prompts(run.directory)["prompts"][0]["text"] == BEST
    assert read_values(run.directory, "val/reward/mean") == [(0, 0.0), (2, 0.5), (4, 1.0)]


def test_an_engine_of_token_ids_is_given_the_tuned_prompt(api, tmp_path):
    write_tokenizer(tmp_path / "model")
    rollout = {"name": "scripted", "scripted": {"replies": ["no idea"]}}
    run = play(write_project(tmp_path, api, rollout=rollout, model={"path": "./model"}))
    calls = {one.step: one.calls[0] for one in run.episodes}
    assert (calls[1].messages[0]["content"], calls[2].messages[0]["content"]) == (SEED, f"{SEED} alpha")
    assert len(calls[2].prompt_ids) > len(calls[1].prompt_ids)


def make_group(number, *rewards):
    task = Task(main_query="2+2?", task_id=str(number))
    verdicts = [None if reward is None else Verdict(reward=reward) for reward in rewards]
    episodes = tuple(
        Episode(id=f"train/1/{number}/{repeat}", task=task, step=1, repeat=repeat, verdict=verdict)
        for repeat, verdict in enumerate(verdicts)
    )
    return Group(task=task, step=1, split="train", episodes=episodes)


def test_a_task_without_a_reward_favours_no_prompt():
    groups = [make_group(1, 1.0, 0.0), make_group(2, None, None), make_group(3, None, 1.0)]
    assert compute_scores(groups) == [0.5, 0.75, 1.0]


def test_without_any_reward_nothing_can_be_compared():
    with pytest.raises(RunFailed, match=r"no episode of step 1 \(train\) has a reward"):
        compute_scores([make_group(1, None)])
