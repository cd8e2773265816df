"""A question is paid for once, by this process and by the next."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from astuner.contract.errors import DataError
from astuner.shared.clients.llm import LLMClient, LLMFailed
from astuner.shared.clients.llm_cache import CachedAnswer, LLMCache
from astuner.shared.clients.llm_options import LLMOptions
from astuner_devkit.scripted_api import Reply, ScriptedApi, make_completion, scripted_api

QUESTION = [{"role": "user", "content": "2 + 2?"}]


def client(api: ScriptedApi, directory: Path, **options: object) -> LLMClient:
    given = LLMOptions(cache="answers.sqlite", max_retries=0, **options)  # type: ignore[arg-type]  # the tests' own values
    return given.make_client("the test", model="big", config_dir=directory, environ=api.environ)


def test_the_same_question_is_asked_once(tmp_path: Path) -> None:
    with scripted_api(lambda body, number: make_completion(str(number), prompt_tokens=5, completion_tokens=1)) as api:
        for _ in range(2):
            llm = client(api, tmp_path)
            first, again = (asyncio.run(llm.answer(QUESTION, max_tokens=9)) for _ in range(2))
            llm.close()
            assert (first.text, again.text, again.cached, again.cost) == ("0", "0", True, 0)
    assert len(api.bodies) == 1
    assert (llm.budget.spent.requests, llm.budget.spent.cached) == (0, 2)


@pytest.mark.parametrize("other", [{"temperature": 0.7}, {"model_name": "bigger"}, {"extra": {"seed": 1}}])
def test_another_question_is_asked(tmp_path: Path, other: dict[str, object]) -> None:
    with scripted_api(lambda body, number: str(number)) as api:
        assert asyncio.run(client(api, tmp_path).ask(QUESTION, max_tokens=9)) == "0"
        assert asyncio.run(client(api, tmp_path, **other).ask(QUESTION, max_tokens=9)) == "1"


def test_a_failure_is_not_kept(tmp_path: Path) -> None:
    with scripted_api(lambda body, number: Reply(500, {}) if number == 0 else "4") as api:
        llm = client(api, tmp_path)
        with pytest.raises(LLMFailed):
            asyncio.run(llm.ask(QUESTION, max_tokens=9))
        assert asyncio.run(llm.ask(QUESTION, max_tokens=9)) == "4"


def test_the_same_question_of_many_at_once_goes_by_the_concurrency(tmp_path: Path) -> None:
    with scripted_api("4") as api:
        llm = client(api, tmp_path, concurrency=1)

        async def crowd() -> list[str]:
            return await asyncio.gather(*(llm.ask(QUESTION, max_tokens=9) for _ in range(5)))

        assert asyncio.run(crowd()) == ["4"] * 5
    assert len(api.bodies) == 1


def test_what_was_kept_outlives_a_process_that_is_killed(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from astuner.shared.clients.llm_cache import LLMCache, CachedAnswer; "
        "LLMCache(Path(sys.argv[1])).put('key', 'big', CachedAnswer('4', 5, 1)); os.kill(os.getpid(), 9)"
    )
    path = tmp_path / "answers.sqlite"
    subprocess.run([sys.executable, "-c", code, str(path)], timeout=60, check=False)
    assert LLMCache(path).get("key") == CachedAnswer("4", 5, 1)


def test_only_the_user_may_read_what_is_kept(tmp_path: Path) -> None:
    before = os.umask(0)
    with scripted_api() as api:
        llm = client(api, tmp_path)
        asyncio.run(llm.ask(QUESTION, max_tokens=9))
        modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.glob("answers.sqlite*")}
        llm.close()
    os.umask(before)
    assert "answers.sqlite" in modes
    assert {*modes.values()} == {0o600}


def test_processes_that_open_a_new_file_at_once_wait_for_each_other(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from astuner.shared.clients.llm_cache import LLMCache, CachedAnswer; "
        "sys.stdin.readline(); "
        "LLMCache(Path(sys.argv[1])).put(sys.argv[2], 'big', CachedAnswer('4', 5, 1))"
    )
    path = tmp_path / "answers.sqlite"
    started = [
        subprocess.Popen([sys.executable, "-c", code, str(path), str(key)], stdin=subprocess.PIPE, text=True) for key in range(5)
    ]
    for process in started:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    assert [process.wait(60) for process in started] == [0] * 5
    for process in started:
        assert process.stdin is not None
        process.stdin.close()
    assert [LLMCache(path).get(str(key)) for key in range(5)] == [CachedAnswer("4", 5, 1)] * 5


def test_an_answer_that_cannot_be_kept_is_an_answer(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with scripted_api(lambda body, number: str(number)) as api:
        llm = client(api, tmp_path)
        assert llm.cache is not None
        llm.cache._file.execute("DROP TABLE answers")
        assert [asyncio.run(llm.ask(QUESTION, max_tokens=9)) for _ in range(2)] == ["0", "1"]
    assert caplog.text.count("answers are not stored") == 1


def test_a_file_that_is_no_cache_is_named(tmp_path: Path) -> None:
    path = tmp_path / "answers.sqlite"
    path.write_text("not a database, and long enough to be looked at as one" * 20, encoding="utf-8")
    with pytest.raises(DataError, match=r"answers\.sqlite: cannot be used as a cache of answers"):
        LLMCache(path)
