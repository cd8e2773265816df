from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from astuner.contract.errors import ConfigError, Problem
from astuner.settings.config.loading import LoadedConfig, load_config
from astuner.settings.config.sections import list_installed_names
from astuner.settings.config.trainer import LoggerChoice

SEEDS_DEFAULT = Path(__file__).parent / "data" / "seeds_default.yaml"

Load = Callable[..., LoadedConfig]
OneProblem = Callable[..., Problem]
Problems = Callable[..., tuple[Problem, ...]]


def test_default_yaml_of_the_seeds_loads_with_notices_alone() -> None:
    loaded = load_config(SEEDS_DEFAULT)
    assert loaded.config.rollout.user_workflow == "tutorial.example_appworld.appworld->ExampleAgentScopeLearnProtocol"
    assert loaded.config.task_judge.judge_protocol == "env_service"
    assert loaded.config.trainer_common.optim.lr == 1e-6
    assert loaded.config.task_reader.get_options("env_service")["env_url"] == "http://127.0.0.1:8080"
    assert [notice.split()[0] for notice in loaded.notices] == [
        "Older",
        "rollout.val_kwargs.num_repeat",
        "trainer_common.val_pass_n",
    ]


def test_defaults_fill_what_is_not_given(load: Load) -> None:
    config = load().config
    assert config.backbone == "debug"
    assert config.rollout.name == "auto"
    assert config.rollout.compute_madness_checklist == ()
    assert config.context_tracker.context_tracker_type == "timeline"
    assert config.task_judge.judge_protocol is None
    assert config.trainer_common.logger == (LoggerChoice(name="console"),)


def test_experiment_is_named_after_the_yaml_and_lies_where_astuner_is_started(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    config = load().config
    assert config.experiment_name == "run"
    assert config.experiment_dir == str(elsewhere / "launcher_record" / "run")


def test_directory_of_a_model_is_found_beside_the_yaml(load: Load, tmp_path: Path) -> None:
    (tmp_path / "tiny").mkdir()
    assert load(overrides=["model.path=tiny"]).config.model.path == str(tmp_path / "tiny")


def test_name_of_a_model_stays_a_name(load: Load) -> None:
    assert load(overrides=["model.path=Qwen/Qwen3-0.6B"]).config.model.path == "Qwen/Qwen3-0.6B"


def test_user_keys_are_those_that_were_set(load: Load) -> None:
    loaded = load("    temperature: 0.9\n  task_judge:\n    math: {tolerance: 1}\n  data:\n", ["seed=42"], "local")
    assert loaded.user_keys == {
        "model.path",
        "rollout.user_workflow",
        "rollout.temperature",
        "task_judge.math.tolerance",
        "seed",
        "backbone",
    }
    assert loaded.overridden_keys == {"seed", "backbone"}


def test_native_sections_are_passed_on_raw(load: Load) -> None:
    loaded = load("verl: {}\n" + "astuner: {model: {path: m}, rollout: {user_workflow: a->B}}\n", ["verl.trainer.device=cpu"])
    assert loaded.native == {"verl": {"trainer": {"device": "cpu"}}}
    assert not any(key.startswith("verl") for key in loaded.user_keys)


@pytest.mark.parametrize(
    ("written", "names"),
    [
        ("console", ["console"]),
        ("[console, jsonl]", ["console", "jsonl"]),
        ("{swanlab: {mode: local}}", ["swanlab"]),
        ("[console, swanlab: {mode: local}]", ["console", "swanlab"]),
    ],
)
def test_loggers_are_written_in_any_of_the_documented_ways(load: Load, written: str, names: list[str]) -> None:
    loggers = load(f"  trainer_common:\n    logger: {written}\n").config.trainer_common.logger
    assert [logger.name for logger in loggers] == names
    assert loggers[-1].options == ({"mode": "local"} if names[-1] == "swanlab" else {})


def test_several_judges_have_weights_and_options(load: Load) -> None:
    judges = load("  task_judge:\n    judges:\n      - {judge: math, weight: 2}\n      - judge: a->B\n        options: {x: 1}\n")
    first, second = judges.config.task_judge.judges
    assert (first.judge, first.weight, first.options) == ("math", 2.0, {})
    assert (second.judge, second.weight, second.options) == ("a->B", 1.0, {"x": 1})


def test_section_of_a_component_is_found_by_its_plain_name(load: Load) -> None:
    reader = load("  task_reader:\n    type: acme-readers/csv\n    csv: {delimiter: ';'}\n").config.task_reader
    assert reader.get_options(reader.type) == {"delimiter": ";"}


def test_options_of_an_engine_stand_in_the_rollout_section(load: Load) -> None:
    rollout = load("    name: vllm\n    vllm: {port: 1}\n").config.rollout
    assert rollout.get_options("vllm") == {"port": 1}


def test_unknown_key_is_named_with_line_and_suggestion(problem: OneProblem, tmp_path: Path) -> None:
    found = problem("    temprature: 1\n")
    assert (found.key, found.file, found.line) == ("astuner.rollout.temprature", tmp_path / "run.yaml", 6)
    assert found.suggestion == "temperature"
    assert str(found) == f"{tmp_path}/run.yaml:6: astuner.rollout.temprature: there is no such key. Did you mean 'temperature'?"


def test_a_misspelt_key_does_not_hide_what_is_wrong_with_the_key_beside_it_that_it_resembles(problems: Problems) -> None:
    rest = "  rollout: {user_workflow: agent->Agent}\n"
    both = problems("astuner:\n  model: {path: ./nothing, pth: x}\n" + rest)
    assert {problem.key for problem in both} == {"astuner.model.pth", "astuner.model.path"}
    alone = problems("astuner:\n  model: {pth: ./nothing}\n" + rest)
    assert [(problem.key, problem.suggestion) for problem in alone] == [("astuner.model.pth", "path")]


def test_misspelt_section_is_no_component(problem: OneProblem) -> None:
    found = problem("    val_kwarg: {top_p: 0.5}\n")
    assert (found.key, found.line, found.suggestion) == ("astuner.rollout.val_kwarg", 6, "val_kwargs")


def test_key_in_the_wrong_section_is_told_where_it_belongs(problem: OneProblem) -> None:
    found = problem("  lr: 0.1\n")
    assert (found.key, found.line, found.suggestion) == ("astuner.lr", 6, "astuner.trainer_common.optim.lr")


def test_wrong_type_is_named_with_line(problem: OneProblem) -> None:
    found = problem("    num_repeat: '8'\n")
    assert (found.key, found.line) == ("astuner.rollout.num_repeat", 6)
    assert found.message == "expected a whole number, got the text '8'. Remove the quotes."


@pytest.mark.parametrize(
    ("text", "key", "message"),
    [
        ("    top_k: 0\n", "rollout.top_k", "'top_k' must be -1 (the whole vocabulary) or at least 1: 0."),
        ("    failure_budget: 2\n", "rollout.failure_budget", "'failure_budget' must be <= 1: 2.0."),
        ("    llm_timeout_s: 0\n", "rollout.llm_timeout_s", "'llm_timeout_s' must be > 0, or null for no limit: 0.0."),
        ("  gateway: {port: 70000}\n", "gateway.port", "'port' must be <= 65535: 70000."),
        (
            "  trainer_common: {optim: {betas: [0.9, 1]}}\n",
            "trainer_common.optim.betas",
            "'betas' must be two numbers from 0 up to, not including, 1: [0.9, 1.0].",
        ),
        (
            "  experiment_name: a/b\n",
            "experiment_name",
            "'experiment_name' names a directory, so it must not be empty and must not contain / or \\: 'a/b'.",
        ),
    ],
)
def test_bad_value_is_named_with_what_is_allowed(problem: OneProblem, text: str, key: str, message: str) -> None:
    found = problem(text)
    assert (found.key, found.line, found.message) == (f"astuner.{key}", 6, message)


def test_misspelt_choice_has_a_suggestion(problem: OneProblem) -> None:
    found = problem("    isolation: proces\n")
    assert (found.key, found.line, found.suggestion) == ("astuner.rollout.isolation", 6, "process")


def test_all_problems_come_at_once_in_the_order_of_the_file(problems: Problems) -> None:
    text = "    top_q: 1\n    name: ${oc.env:ASTUNER_NO_SUCH}\n  dato: {}\n  task_reader:\n    dataset_file: {trainin: x}\n"
    found = [(problem.line, problem.key) for problem in problems(text, ["seed=x"])]
    assert found == [
        (None, "astuner.seed"),
        (6, "astuner.rollout.top_q"),
        (7, "astuner.rollout.name"),
        (8, "astuner.dato"),
        (10, "astuner.task_reader.dataset_file.trainin"),
    ]


@pytest.mark.parametrize(
    ("root", "suggestion"), [("astunr", "astuner"), ("astune", "astuner"), ("rollout", "astuner.rollout"), ("verll", "verl")]
)
def test_unknown_root_has_a_suggestion(problems: Problems, root: str, suggestion: str) -> None:
    [found] = [problem for problem in problems(f"astuner: {{}}\n{root}: {{}}\n") if problem.line == 2]
    assert (found.key, found.suggestion) == (root, suggestion)


@pytest.mark.parametrize("text", ["verl: {}\n", "- a\n", "# nothing\n"])
def test_file_without_the_root_section_is_refused(problem: OneProblem, text: str) -> None:
    assert "root section `astuner:`" in problem(text).message


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.yaml: there is no such file\."):
        load_config(tmp_path / "nowhere.yaml")


def test_file_in_another_encoding_is_named(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_bytes(b"astuner: {project_name: \xe9}")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load_config(tmp_path / "run.yaml")


@pytest.mark.parametrize("key", ["rollout.temperature", "astuner.rollout.temperature", "ajet.rollout.temperature"])
def test_set_wins_over_the_file_with_or_without_the_root(load: Load, key: str) -> None:
    loaded = load("    temperature: 0.1\n", [f"{key}=1e-1", f"{key}=0.7"])
    assert loaded.config.rollout.temperature == 0.7
    assert loaded.overrides == (f"{key}=1e-1", f"{key}=0.7")


def test_set_merges_into_a_section(load: Load) -> None:
    loaded = load("    multi_turn: {max_steps: 3}\n", ["rollout.multi_turn={expected_steps: 2}"])
    assert (loaded.config.rollout.multi_turn.max_steps, loaded.config.rollout.multi_turn.expected_steps) == (3, 2)


def test_unknown_key_of_set_is_placed_there(problem: OneProblem) -> None:
    found = problem(overrides=["rollout.temprature=1"])
    assert (str(found.file), found.line, found.suggestion) == ("--set rollout.temprature", None, "temperature")
    assert str(found).startswith("--set rollout.temprature: astuner.rollout.temprature: there is no such key.")


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ("rollout.temperature", "write it as KEY=VALUE"),
        ("rollout..temperature=1", "write it as KEY=VALUE"),
        ("=1", "write it as KEY=VALUE"),
        ("verl=1", "name a key below this root"),
        ("rollout.name=[", "This is not valid YAML"),
    ],
)
def test_argument_that_cannot_be_read_is_named(problem: OneProblem, item: str, message: str) -> None:
    found = problem(overrides=[item])
    assert found.message.startswith(message)
    assert str(found).startswith(f"--set {item.partition('=')[0]}")


def test_backbone_argument_wins_and_is_located(load: Load) -> None:
    loaded = load("  backbone: verl\n", ["backbone=trinity"], "local")
    assert loaded.config.backbone == "local"
    assert loaded.locate("backbone") == (Path("--backbone"), 0)


def test_keys_are_located_in_the_file_or_on_the_command_line(load: Load, tmp_path: Path) -> None:
    loaded = load("  task_judge:\n    judges:\n      - judge: a->B\n", ["rollout.top_p=0.5", "verl.a.b=1"])
    file = tmp_path / "run.yaml"
    assert loaded.locate("astuner.rollout.user_workflow") == (file, 5)
    assert loaded.locate("rollout.max_steps") == (file, 4)
    assert loaded.locate("task_judge.judges[0].weight") == (file, 8)
    assert loaded.locate("astuner.task_judge.judges.0.judge") == (file, 8)
    assert loaded.locate("rollout.top_p") == (Path("--set rollout.top_p"), 0)
    assert loaded.locate("verl.a.b") == (Path("--set verl.a.b"), 0)
    assert loaded.locate("trinity.mode") is None


def test_interpolation_reaches_defaults_other_keys_and_the_old_root(load: Load) -> None:
    loaded = load(
        """\
ajet:
  experiment_name: read_yaml_name
  project_name: ${ajet.experiment_name}-${oc.env:ASTUNER_NO_SUCH,local}
  model: {path: org/name}
  data: {max_prompt_length: "${astuner.data.max_response_length}"}
  rollout: {user_workflow: a->B, max_model_len: 40000, num_repeat: "${.multi_turn.max_steps}"}
verl: {trainer: {project_name: "${ajet.project_name}", own: "${trainer.x}"}}
"""
    )
    assert loaded.config.project_name == "run-local"
    assert loaded.config.data.max_prompt_length == 15000
    assert loaded.config.rollout.num_repeat == 30
    assert loaded.native["verl"]["trainer"] == {"project_name": "run-local", "own": "${trainer.x}"}


def test_text_of_the_environment_becomes_a_number_by_decode(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASTUNER_TEST_REPEAT", "6")
    assert load("    num_repeat: ${oc.decode:${oc.env:ASTUNER_TEST_REPEAT}}\n").config.rollout.num_repeat == 6


def test_text_of_the_environment_is_not_taken_for_a_number(problem: OneProblem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASTUNER_TEST_REPEAT", "6")
    found = problem("    num_repeat: ${oc.env:ASTUNER_TEST_REPEAT}\n")
    assert (found.key, found.line) == ("astuner.rollout.num_repeat", 6)
    assert "${oc.decode:" in found.message


@pytest.mark.parametrize(
    ("value", "message", "suggestion"),
    [
        ("${oc.env:ASTUNER_NO_SUCH}", "the environment variable ASTUNER_NO_SUCH is not set.", None),
        ("${astuner.modle.path}", "'${astuner.modle.path}': there is no key 'astuner.modle.path'.", "astuner.model.path"),
        ("${astuner.model", "'${astuner.model' is not an interpolation that can be read", None),
        ("${nothing:x}", "'${nothing:x}' cannot be resolved", None),
    ],
)
def test_interpolation_that_cannot_be_resolved_is_named(
    problem: OneProblem, value: str, message: str, suggestion: str | None
) -> None:
    found = problem(f"  project_name: '{value}'\n")
    assert (found.key, found.line, found.suggestion) == ("astuner.project_name", 6, suggestion)
    assert found.message.startswith(message)


@pytest.mark.parametrize("root", ["astuner", "ajet"])
def test_an_interpolation_may_name_a_key_by_its_older_spelling(load: Load, root: str) -> None:
    text = f"  trainer_common: {{val_pass_n: 7}}\n  project_name: n${{{root}.rollout.val_kwargs.num_repeat}}\n"
    assert load(text).config.project_name == "n7"


def test_an_older_value_out_of_an_interpolation_is_read_as_the_present_one(load: Load) -> None:
    loaded = load("  context_tracker: {context_tracker_type: '${oc.env:ASTUNER_NO_SUCH,linear_cm}'}\n")
    assert loaded.config.context_tracker.context_tracker_type == "linear"
    assert "linear_cm → linear" in " ".join(loaded.notices)


def test_escaped_interpolation_is_plain_text(load: Load) -> None:
    assert load("  project_name: 'a\\${b}'\n").config.project_name == "a${b}"


def test_section_copied_by_interpolation_counts_as_set(load: Load) -> None:
    loaded = load("    val_kwargs: ${verl.sampling}\nverl: {sampling: {do_sample: true, temperature: 0.5}}\n")
    assert {"rollout.val_kwargs.do_sample", "rollout.val_kwargs.temperature"} <= loaded.user_keys


def test_dotenv_beside_the_yaml_is_read_and_yields_to_the_environment(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".env").write_text("ASTUNER_TEST_A=file\nASTUNER_TEST_B=file\n", encoding="utf-8")
    monkeypatch.setenv("ASTUNER_TEST_A", "environment")
    monkeypatch.setenv("ASTUNER_TEST_B", "to be removed at the end")
    del os.environ["ASTUNER_TEST_B"]
    assert load("  project_name: ${oc.env:ASTUNER_TEST_A}-${oc.env:ASTUNER_TEST_B}\n").config.project_name == "environment-file"


def test_old_spellings_are_read_and_named_in_one_notice(load: Load) -> None:
    loaded = load(
        """\
ajet:
  model: {path: org/name}
  rollout: {agentscope_workflow: a->B, val_kwargs: {num_repeat: 1}}
  task_reader: {type: jsonl_dataset_file, jsonl_dataset_file: {}}
  context_tracker: {context_tracker_type: sliding_window_cm, sliding_window_cm: {window: 3}}
  task_judge: {judges: [{judge: "ajet.task_judge.math_answer_as_judge->MathAnswerAsJudge"}]}
"""
    )
    config = loaded.config
    assert config.rollout.user_workflow == "a->B"
    assert config.trainer_common.val_pass_n == 1
    assert (config.task_reader.type, list(config.task_reader.sections)) == ("dataset_file", ["dataset_file"])
    assert config.context_tracker.get_options("sliding_window") == {"window": 3}
    assert config.task_judge.judges[0].judge == "math"
    [notice] = loaded.notices
    for old, new in {
        "ajet": "astuner",
        "rollout.agentscope_workflow": "rollout.user_workflow",
        "rollout.val_kwargs.num_repeat": "trainer_common.val_pass_n",
        "task_reader.jsonl_dataset_file": "task_reader.dataset_file",
        "jsonl_dataset_file": "dataset_file",
        "context_tracker.sliding_window_cm": "context_tracker.sliding_window",
        "sliding_window_cm": "sliding_window",
        "ajet.task_judge.math_answer_as_judge->MathAnswerAsJudge": "math",
    }.items():
        assert f"{old} → {new}" in notice


@pytest.mark.parametrize("package", ["astuner", "ajet", "astune"])
def test_judges_of_the_seeds_are_plugins_now(load: Load, package: str) -> None:
    protocol = f"{package}.task_judge.env_service_as_judge->EnvServiceJudge"
    judge = load(f"  task_judge: {{judge_type: customized_protocal, judge_protocol: '{protocol}'}}\n").config.task_judge
    assert (judge.judge_type, judge.judge_protocol) == ("customized_protocol", "env_service")


@pytest.mark.parametrize("arrow", [":", "->"])
def test_the_workflow_of_programs_is_found_where_it_was(load: Load, arrow: str) -> None:
    loaded = load(f"ajet:\n  rollout: {{user_workflow: 'astuner.agents{arrow}Command'}}\n  agent: {{command: 'true'}}\n")
    assert loaded.config.rollout.user_workflow == "astuner_agents:Command"
    assert f"astuner.agents{arrow}Command → astuner_agents:Command" in " ".join(loaded.notices)


def test_two_spellings_with_different_values_are_an_error(problem: OneProblem) -> None:
    found = problem("    agentscope_learn_protocol: other->Agent\n")
    assert (found.key, found.line) == ("astuner.rollout.agentscope_learn_protocol", 6)
    assert "rollout.user_workflow" in found.message


def test_two_spellings_with_one_value_are_fine(load: Load) -> None:
    assert load("    agentscope_learn_protocol: agent->Agent\n").config.rollout.user_workflow == "agent->Agent"


def test_set_by_an_old_spelling_wins_over_the_present_one_in_the_file(load: Load) -> None:
    loaded = load(overrides=["rollout.agentscope_learn_protocol=other->Agent"])
    assert loaded.config.rollout.user_workflow == "other->Agent"
    assert loaded.locate("rollout.user_workflow") == (Path("--set rollout.agentscope_learn_protocol"), 0)


def test_problem_under_an_old_spelling_has_its_line(problem: OneProblem) -> None:
    found = problem("  task_reader:\n    jsonl_dataset_file:\n      training: {file_path: x, limits: 3}\n")
    assert (found.key, found.line, found.suggestion) == ("astuner.task_reader.dataset_file.training.limits", 8, "limit")


def test_options_of_a_component_are_left_to_it(load: Load) -> None:
    loaded = load("  task_judge:\n    judge_type: strict\n    strict: {its_own: 1}\n")
    assert loaded.config.task_judge.get_options("strict") == {"its_own": 1}


def installed_judges(group: str) -> list[str]:
    return ["strict", "lenient"] if group == "astuner.judges" else []


def test_options_of_an_installed_component_that_is_not_chosen_may_stay(write: Callable[[str], Path]) -> None:
    path = write("  task_judge:\n    judge_protocol: other\n    strict: {its_own: 1}\n")
    assert not any("strict" in notice for notice in load_config(path, names_of=installed_judges).notices)


def test_a_misspelt_section_of_an_installed_component_has_a_suggestion(write: Callable[[str], Path]) -> None:
    path = write("  task_judge:\n    judge_protocol: other\n    lenint: {its_own: 1}\n")
    with pytest.raises(ConfigError) as caught:
        load_config(path, names_of=installed_judges)
    [found] = caught.value.problems
    assert (found.key, found.suggestion) == ("astuner.task_judge.lenint", "lenient")


def test_what_is_installed_is_known_from_metadata() -> None:
    assert "dataset_file" in list_installed_names("astuner.readers")
    assert "no_such_reader" not in list_installed_names("astuner.readers")
