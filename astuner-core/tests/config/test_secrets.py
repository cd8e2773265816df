"""No secret is repeated: not in an error, a notice, a command line or a trace, however it got into the configuration."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen

from astuner.contract.errors import ConfigError, PluginError, Problem
from astuner.settings.config.loading import LoadedConfig, load_config
from astuner.settings.config.redaction import REDACTED
from astuner.settings.config.secrets import Secrets, redact_command
from astuner.settings.plugins.options import build_options

SECRET = "abc'def\\ghi-0123456789"
Problems = Callable[..., tuple[Problem, ...]]


@pytest.mark.parametrize(
    "yaml",
    [
        "  services: {web: {command: serve, env: {API_KEY: 12345678}}}\n",
        "  services: {web: {command: serve, env: {API_KEY: [12345678]}, port: 12345678}}\n",
        "  gateway: {api_key: 12345678}\n",
        "  password: '12345678'\n",
        "  seed: '12345678'\n  task_judge: {mine: {token: '12345678'}}\n",
        "  seed: ${oc.env:MY_SECRET_OF_TODAY}\n  task_judge: {mine: {token: '${oc.env:MY_SECRET_OF_TODAY}'}}\n",
    ],
)
def test_an_error_does_not_repeat_a_secret(yaml: str, problems: Problems, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SECRET_OF_TODAY", "12345678")
    assert [str(problem) for problem in problems(yaml) if "12345678" in str(problem)] == []


@pytest.mark.parametrize(
    "argument", ["api_key:12345678", "gateway.api_key=12345678", "gateway.api_key='12345678", "token 12345678"]
)
def test_an_error_about_an_override_does_not_repeat_it(argument: str, problems: Problems) -> None:
    assert [str(problem) for problem in problems(overrides=[argument]) if "12345678" in str(problem)] == []


def test_an_error_about_the_options_of_a_component_does_not_repeat_a_secret(load: Callable[..., LoadedConfig]) -> None:
    @frozen(kw_only=True)
    class Options:
        api_key: int

    class Judge:
        pass

    Judge.Options = Options  # type: ignore[attr-defined]
    loaded = load("  task_judge: {mine: {api_key: '12'}}\n")
    with pytest.raises(ConfigError) as caught:
        build_options(Judge, {"api_key": "12"}, key="astuner.task_judge.mine", locate=loaded.locate)
    [problem] = map(loaded.secrets.hide_in_problem, caught.value.problems)
    assert problem.message == f"expected a whole number, got the text '{REDACTED}'. Remove the quotes."


def test_a_value_is_taken_out_as_it_is_and_as_python_writes_it() -> None:
    secrets = Secrets.of({"api_key": SECRET})
    assert secrets.hide(f"{SECRET} and {SECRET!r}") == f'{REDACTED} and "{REDACTED}"'


def test_the_beginning_of_a_long_value_is_taken_out_too() -> None:
    long = "0123456789" * 10
    assert secrets_of(token=long).hide(f"got the text '{long[:57]}...'") == f"got the text '{REDACTED}...'"


def test_short_values_are_left_in_ordinary_text_and_taken_out_at_their_own_key() -> None:
    secrets = secrets_of(token="an")
    assert secrets.hide("an ordinary answer") == "an ordinary answer"
    problem = secrets.hide_in_problem(Problem(key="astuner.x.token", message="got 'an'.", suggestion="an"))
    assert (problem.message, problem.suggestion) == (f"got '{REDACTED}'.", None)


def test_an_error_on_its_way_loses_its_secrets() -> None:
    with pytest.raises(PluginError, match=f"the server refused {REDACTED}"), secrets_of(api_key="12345678").hide_in_errors():
        raise PluginError("the server refused 12345678")


def test_options_objects_are_looked_into() -> None:
    @frozen
    class Inner:
        password: str

    @frozen
    class Outer:
        inner: Inner

    assert Secrets.of({"x": Outer(Inner("12345678"))}).values == {"12345678"}


@pytest.mark.parametrize(
    ("argument", "kept"),
    [
        ("judge.api_key=12345678", f"judge.api_key={REDACTED}"),
        ("--set=judge.api_key=12345678", f"--set=judge.api_key={REDACTED}"),
        ("judge={api_key: '12345678', model: m}", f"judge={{api_key: {REDACTED}, model: m}}"),
        ("judge.url=https://me:12345678@host", f"judge.url=https://{REDACTED}@host"),
        ("note=[sk-12345678", f"note=[{REDACTED}"),
        ("rollout.temperature=0.7", "rollout.temperature=0.7"),
        ("judge.api_key=${oc.env:KEY}", f"judge.api_key={REDACTED}"),
        ("--conf", "--conf"),
        ("run", "run"),
        ("--password=12345678", f"--password={REDACTED}"),
        ("exec serve --api-key 12345678 --port 80", f"exec serve --api-key {REDACTED} --port 80"),
        ("serve --password '1234 5678' --port=80", f"serve --password {REDACTED} --port=80"),
        ("exec env API_KEY=12345678 serve --max-tokens 5", f"exec env API_KEY={REDACTED} serve --max-tokens 5"),
        ("API_KEY=12345678 serve", f"API_KEY={REDACTED}"),
        ("serve --api-key-env KEY --token --port 80", "serve --api-key-env KEY --token --port 80"),
    ],
)
def test_a_command_line_is_kept_without_its_secrets(argument: str, kept: str) -> None:
    assert redact_command(["astuner", argument]) == ["astuner", kept]


def test_what_follows_a_flag_for_a_secret_is_one() -> None:
    given = ["serve", "--api-key", "12345678", "--token", "--port", "80", "--api-key-env", "KEY"]
    assert redact_command(given) == ["serve", "--api-key", REDACTED, "--token", "--port", "80", "--api-key-env", "KEY"]


def test_dotenv_beside_the_file_is_read_and_the_environment_wins(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write("  project_name: ${oc.env:FROM_FILE}\n  experiment_name: ${oc.env:FROM_BOTH}\n")
    (file.parent / ".env").write_text("FROM_FILE=file\nFROM_BOTH=file\n")
    monkeypatch.setenv("FROM_FILE", "to be removed after the test")
    monkeypatch.delenv("FROM_FILE")
    monkeypatch.setenv("FROM_BOTH", "environment")
    loaded = load_config(file)
    assert (loaded.config.project_name, loaded.config.experiment_name) == ("file", "environment")


def test_an_override_may_use_what_dotenv_sets(write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    file = write()
    (file.parent / ".env").write_text("FROM_FILE=file\n")
    monkeypatch.setenv("FROM_FILE", "to be removed after the test")
    monkeypatch.delenv("FROM_FILE")
    assert load_config(file, ["project_name=${oc.env:FROM_FILE}"]).config.project_name == "file"


def secrets_of(**values: Any) -> Secrets:
    return Secrets.of(values)


def test_a_misspelt_key_that_sounds_like_a_secret_gets_its_suggestion() -> None:
    problem = Problem(
        key="astuner.rollout.local.kv_token", message="there is no such key.", suggestion="kv_tokens", kind="unknown_key"
    )
    assert Secrets(frozenset({"9"})).hide_in_problem(problem).suggestion == "kv_tokens"


@pytest.mark.parametrize("name", ["PWD", "OLDPWD"])
def test_the_directory_of_the_shell_is_not_a_password(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "/home/me/my-agent")
    assert Secrets.of({}).hide("/home/me/my-agent/agent.py:12") == "/home/me/my-agent/agent.py:12"
