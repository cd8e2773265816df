"""What is posted and when, and that no webhook can harm a run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest

from astuner.contract.errors import ConfigError
from astuner.contract.schema import StepReport, ValidationReport
from astuner.settings.plugins.options import build_options
from astuner_devkit import run_info
from astuner_devkit.contracts import HooksContract, PackageContract
from astuner_step_notifier import extension, poster
from astuner_step_notifier.extension import StepNotifierHooks

LIMIT_S = 120


class TestStepNotifierHooks(HooksContract):
    component = StepNotifierHooks
    options: ClassVar = {"every_n_steps": 2}


class TestPackage(PackageContract):
    distribution = "astuner-step-notifier"


def attach(hooks: Any, url: str | None, **options: Any) -> Any:
    return hooks(StepNotifierHooks(StepNotifierHooks.Options(secret_url=url, **options)))


def told_everything(hooks: Any, directory: Path, *, steps: int = 3, exit_code: int = 0) -> None:
    info = run_info(directory, project_name="math", experiment_name="small")
    hooks.run_started(info, [])
    for step in range(1, steps + 1):
        hooks.step_finished(StepReport(step=step, metrics={"reward/mean": 0.5, "success/rate": 0.25}))
    hooks.validation_finished(ValidationReport(step=steps, metrics={"val/reward/mean": 0.75}))
    hooks.checkpoint_saved(steps, Path("checkpoints/step_3"))
    hooks.run_finished(info, exit_code)


def test_every_event_is_posted_in_order_as_json(hooks: Any, webhook: Any, tmp_path: Path) -> None:
    server = webhook()
    told_everything(attach(hooks, server.url), tmp_path)
    assert server.texts == [
        "math/small: step 1: reward 0.500, success 25.0%",
        "math/small: step 2: reward 0.500, success 25.0%",
        "math/small: step 3: reward 0.500, success 25.0%",
        "math/small: validation after step 3: reward 0.750",
        "math/small: checkpoint of step 3 saved: step_3",
        "math/small: finished",
    ]
    assert set(server.content_types) == {"application/json"}
    assert {tuple(body) for body in server.bodies} == {("text",)}


def test_steps_are_thinned_out_and_the_rest_is_not(hooks: Any, webhook: Any, tmp_path: Path) -> None:
    server = webhook()
    told_everything(attach(hooks, server.url, every_n_steps=2, events=("step", "checkpoint")), tmp_path, steps=5)
    assert [text.split(": ")[1] for text in server.texts] == ["step 2", "step 4", "checkpoint of step 5 saved"]


@pytest.mark.parametrize(("code", "words"), [(1, "failed with exit code 1"), (130, "interrupted")])
def test_the_end_says_how_it_came(hooks: Any, webhook: Any, tmp_path: Path, code: int, words: str) -> None:
    server = webhook()
    told_everything(attach(hooks, server.url, events=("run_finished",)), tmp_path, exit_code=code)
    assert server.texts == [f"math/small: {words}"]


def test_without_a_url_no_thread_is_started(hooks: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extension, "Poster", None)
    told_everything(attach(hooks, None), tmp_path)


def test_a_server_that_refuses_is_told_once_and_counted(
    hooks: Any, webhook: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    told_everything(attach(hooks, webhook(500).url), tmp_path)
    told = capfd.readouterr().err
    assert told.count("the server answered 500") == 1
    assert "6 messages were not posted" in told
    assert "secret" not in told


def test_a_server_that_does_not_answer_stalls_no_step_and_an_end_only_so_long(
    hooks: Any, webhook: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    server = webhook()
    server.may_answer.clear()
    monkeypatch.setattr(extension, "LAST_WAIT_S", 0.2)
    # The steps are through while the first post has no answer: this line would not be reached if one waited.
    told_everything(attach(hooks, server.url, timeout_s=LIMIT_S), tmp_path)
    assert "6 messages were not posted" in capfd.readouterr().err
    assert len(server.texts) <= 1


def test_a_full_queue_loses_messages_and_blocks_nobody(
    hooks: Any, webhook: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    server = webhook()
    server.may_answer.clear()
    monkeypatch.setattr(extension, "LAST_WAIT_S", 0.2)
    monkeypatch.setattr(poster, "CAPACITY", 3)
    told_everything(attach(hooks, server.url, timeout_s=LIMIT_S), tmp_path, steps=20)
    told = capfd.readouterr().err
    assert "3 messages wait already" in told
    assert "23 messages were not posted" in told


def test_what_waits_when_the_run_ends_is_still_posted(hooks: Any, webhook: Any, tmp_path: Path) -> None:
    server = webhook()
    server.may_answer.clear()
    made = attach(hooks, server.url)
    for step in range(1, 4):
        made.step_finished(StepReport(step=step, metrics={}))
    assert server.arrived.wait(LIMIT_S)
    server.may_answer.set()
    made.run_finished(run_info(tmp_path), 0)
    assert server.texts == ["run: step 1", "run: step 2", "run: step 3", "run: finished"]


HANGS = """
import sys
from astuner_step_notifier.poster import Poster
poster = Poster(sys.argv[1], timeout_s=1000.0, say=print)
poster.post("x")
print(poster.close(wait_s=0.1))
"""


def test_a_process_ends_though_a_post_is_under_way(webhook: Any) -> None:
    server = webhook()
    server.may_answer.clear()
    ended = subprocess.run([sys.executable, "-c", HANGS, server.url], capture_output=True, text=True, timeout=30, check=True)
    assert ended.stdout == "1\n"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"secret_url": "file:///etc/hosts/very-secret"}, "secret_url: must begin with http"),
        ({"every_n_steps": 0}, "every_n_steps"),
        ({"events": ["stpe"]}, "Did you mean 'step'"),
        ({"timeout_s": 0}, "timeout_s"),
    ],
)
def test_a_wrong_option_is_named_and_no_secret_shown(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build_options(StepNotifierHooks, values, key="plugins.options.step_notifier")
    assert words in str(caught.value)
    assert "very-secret" not in str(caught.value)


def test_options_do_not_show_the_secret() -> None:
    assert "very-secret" not in repr(StepNotifierHooks.Options(secret_url="https://example.org/very-secret"))


def test_a_name_that_is_no_server_does_not_show_the_secret(hooks: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for url in ("http://127.0.0.1:very-secret/", "http://[very-secret/"):
        told_everything(attach(hooks, url, timeout_s=1.0), tmp_path)
    told = capfd.readouterr().err
    assert told.count("could not be posted") == 2
    assert "very-secret" not in told


def test_a_run_whose_webhook_is_down_is_played_to_its_end(run: Any, down: str, capfd: pytest.CaptureFixture[str]) -> None:
    settings = {"plugins": {"options": {"step_notifier": {"secret_url": down}}}}
    assert run(settings=settings).rewards == [1.0]
    told = capfd.readouterr().err
    assert "(ConnectionRefusedError)" in told
    assert "2 messages were not posted" in told
