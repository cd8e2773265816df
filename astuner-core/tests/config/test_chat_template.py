"""The key `model.chat_template`: a file, of which the text is kept, or the text itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from astuner.contract.errors import Problem
from astuner.settings.config.loading import LoadedConfig

Load = Callable[..., LoadedConfig]
OneProblem = Callable[..., Problem]

TEMPLATE = "{%- for message in messages %}{{ message.content }}\n{% break %}{% endfor %}"
HEAD = "astuner:\n  model:\n    path: org/name\n    chat_template: {}\n  rollout: {{user_workflow: a->B}}\n"


@pytest.fixture
def write_template(tmp_path: Path) -> Callable[[bytes], Path]:
    def write(content: bytes) -> Path:
        (tmp_path / "mine.jinja").write_bytes(content)
        return tmp_path / "mine.jinja"

    return write


def test_a_file_is_read_once_and_its_text_is_kept(load: Load, write_template: Callable[[bytes], Path]) -> None:
    file = write_template(TEMPLATE.encode())
    assert load(HEAD.format(file)).config.model.chat_template == TEMPLATE


def test_a_mark_of_the_byte_order_reaches_no_prompt(load: Load, write_template: Callable[[bytes], Path]) -> None:
    file = write_template(b"\xef\xbb\xbf" + TEMPLATE.encode())
    assert load(HEAD.format(file)).config.model.chat_template == TEMPLATE


def test_a_text_is_taken_as_it_is(load: Load) -> None:
    assert load(HEAD.format("'{{ messages }}'")).config.model.chat_template == "{{ messages }}"


def test_what_transformers_marks_for_training_is_no_mistake(load: Load) -> None:
    text = "{% generation %}{{ messages }}{%- endgeneration -%}"
    assert load(HEAD.format(f"'{text}'")).config.model.chat_template == text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "there is no such file. Give the file of a template"),
        (b"You are helpful.", "it is not a template of Jinja in UTF-8"),
        (b"{{ messages }} \xff", "it is not a template of Jinja in UTF-8"),
    ],
)
def test_a_file_that_is_no_template_is_a_problem(
    content: bytes | None, message: str, problem: OneProblem, write_template: Callable[[bytes], Path], tmp_path: Path
) -> None:
    file = tmp_path / "mine.jinja" if content is None else write_template(content)
    found = problem(HEAD.format(file))
    assert (found.key, found.line) == ("astuner.model.chat_template", 4)
    assert f"{file}: {message}" in found.message


def test_prose_of_any_length_is_no_template(problem: OneProblem) -> None:
    assert "there is no such file. Give the file of a template" in problem(HEAD.format("You are helpful. " * 400)).message


def test_a_filter_that_jinja_does_not_have_is_named(problem: OneProblem) -> None:
    found = problem(HEAD.format("'{{ messages | nosuch }}'"))
    assert found.message.startswith("line 1 of the template: No filter named 'nosuch'")


def test_a_mistake_of_jinja_is_named_with_its_line(problem: OneProblem, write_template: Callable[[bytes], Path]) -> None:
    found = problem(HEAD.format(write_template(b"{% for m in messages %}\n{{ m.content }\n{% endfor %}")))
    assert found.key == "astuner.model.chat_template"
    assert found.message.startswith("line 2 of the template: unexpected '}'")
