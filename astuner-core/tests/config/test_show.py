from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from astuner.settings.config.loading import LoadedConfig, load_config
from astuner.settings.config.redaction import REDACTED, is_secret, redact_text, redact_tree
from astuner.settings.config.show import dump_yaml, to_yaml
from astuner.settings.config.yaml_lines import read_yaml


def test_shown_configuration_loads_to_the_same(load: Callable[..., LoadedConfig], tmp_path: Path) -> None:
    loaded = load(
        "  project_name: '1e-3'\n  trainer_common: {logger: [console, {swanlab: {mode: '010'}}]}\n"
        "  task_judge: {math: {text: 'a\\${b}', yes: 'no', n: 1e-7}}\n  services: {a: {command: [x, y]}}\n"
        "verl: {a: '${own.key}'}\n"
    )
    shown = tmp_path / "shown.yaml"
    shown.write_text(to_yaml(loaded), encoding="utf-8")
    again = load_config(shown)
    assert again.config == loaded.config
    assert again.native == loaded.native


def test_shown_configuration_is_plain_yaml_for_other_readers(load: Callable[..., LoadedConfig]) -> None:
    tree = yaml.safe_load(to_yaml(load()))
    assert tree["astuner"]["trainer_common"]["optim"]["lr"] == 1e-6
    assert tree["astuner"]["rollout"]["seed"] is None


def test_what_came_from_the_environment_is_shown_as_it_was_written(
    load: Callable[..., LoadedConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_NOTE", "a-note-of-mine")
    monkeypatch.setenv("MY_SHORT", "x1")
    loaded = load(
        "  project_name: ${oc.env:MY_NOTE}\n"
        "  task_judge: {judge_protocol: j->J, j: {note: 'see ${oc.env:MY_NOTE}', short: '${oc.env:MY_SHORT}',"
        " again: '${astuner.project_name}', api_key: '${oc.env:MY_NOTE}',"
        " default: '${oc.env:MY_UNSET,plain}', same: a-note-of-mine}}\n"
        "verl: {a: {b: ['${oc.env:MY_NOTE}']}}\n"
    )
    shown = yaml.safe_load(to_yaml(loaded))
    assert shown["astuner"]["project_name"] == "${oc.env:MY_NOTE}"
    assert shown["astuner"]["task_judge"]["j"] == {
        "note": "see ${oc.env:MY_NOTE}",
        "short": "${oc.env:MY_SHORT}",
        "again": "${oc.env:MY_NOTE}",
        "api_key": "${oc.env:MY_NOTE}",
        "default": "plain",
        "same": "a-note-of-mine",
    }
    assert shown["verl"] == {"a": {"b": ["${oc.env:MY_NOTE}"]}}
    native = {"x": "a-note-of-mine", "y": ["x1", "see a-note-of-mine"], "z": "./a-note-of-mine/x1", "n": 1}
    assert loaded.secrets.hide_in_tree(native) == {
        "x": "${oc.env:MY_NOTE}",
        "y": ["${oc.env:MY_SHORT}", "see ${oc.env:MY_NOTE}"],
        "z": "./${oc.env:MY_NOTE}/x1",
        "n": 1,
    }


def test_secrets_are_not_shown_unless_asked_for(load: Callable[..., LoadedConfig]) -> None:
    loaded = load("  task_judge: {judge_protocol: j->J, j: {api_key: abcdef, note: use sk-12345678}}\nverl: {hf_token: abcdef}\n")
    shown = to_yaml(loaded)
    assert "abcdef" not in shown
    assert "sk-12345678" not in shown
    assert "abcdef" in to_yaml(loaded, redact=False)


@pytest.mark.parametrize(
    "key",
    [
        "api_key",
        "OPENAI_API_KEY",
        "apiKey",
        "apikey",
        "hf_token",
        "token",
        "client-secret",
        "password",
        "DASHSCOPE_API_KEY_BACKUP",
    ],
)
def test_key_of_a_secret_is_known_by_its_name(key: str) -> None:
    assert is_secret(key)


@pytest.mark.parametrize(
    "key",
    [
        "tokenizer",
        "max_tokens",
        "query_field",
        "monkey",
        "keyboard",
        "path",
        "final_answer_key",
        "answerKey",
        "eos_token",
        "api_key_env",
        "token_file",
    ],
)
def test_other_keys_are_not_taken_for_secrets(key: str) -> None:
    assert not is_secret(key)


def test_redaction_reaches_lists_and_leaves_numbers() -> None:
    tree = {
        "keys": ["a", "b"],
        "token": 3,
        "urls": ["http://user:pass@host/x"],
        "deep": [{"password": "x"}],
        "secrets": {"db": "x"},
        "api_key": "",
    }
    assert redact_tree(tree) == {
        "keys": [REDACTED, REDACTED],
        "token": 3,
        "urls": [f"http://{REDACTED}@host/x"],
        "deep": [{"password": REDACTED}],
        "secrets": {"db": REDACTED},
        "api_key": "",
    }


def test_text_is_redacted_and_otherwise_left_as_it_was_written() -> None:
    text = "a:\n  api_key: abc  # mine\n  many: [{token: 'x'}, {model: sk-abcd1234}]\n  keys:\n    - k1\n    - k2\n"
    expected = (
        f"a:\n  api_key: {REDACTED}  # mine\n  many: [{{token: {REDACTED}}}, {{model: {REDACTED}}}]\n"
        f"  keys:\n    - {REDACTED}\n    - {REDACTED}\n"
    )
    assert redact_text(text) == expected


@pytest.mark.parametrize("line", ["key: ${oc.env:MY_KEY}", "tokenizer: t", "keys:", "token: 3", "query: {a: b}  # api_key: x"])
def test_text_without_a_secret_stays_as_it_was_written(line: str) -> None:
    assert redact_text(line) == line


def test_secret_over_several_lines_is_redacted() -> None:
    assert redact_text("token: |\n  abc\n  def\nb: 1\n").startswith(f"token: {REDACTED}")
    assert "abc" not in redact_text("token: |\n  abc\n  def\nb: 1\n")


@pytest.mark.parametrize("text", ["\x85", "a\u2028b", "a\u2029", "\ufeff", "a\n\x85- b"])
def test_line_breaks_of_unicode_are_read_back(text: str) -> None:
    assert read_yaml(dump_yaml({"a": text, "b": [text]}), Path("x.yaml")).values == {"a": text, "b": [text]}
