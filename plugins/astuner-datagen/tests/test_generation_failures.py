"""What becomes of a generation whose LLM fails: everything is counted with a reason, and nothing that was paid for is lost.

One file, long as it is: a small test for each way to fail.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from astuner.contract.errors import RunFailed
from astuner.shared.clients.llm_endpoint import NoEndpoint
from astuner_datagen.reader import DataGenerationReader
from astuner_datagen.task_files import write_atomically
from astuner_devkit.scripted_api import Reply, ScriptedApi, make_completion

Read = Callable[..., DataGenerationReader]
Author = Callable[..., str]
MESSAGE = {"role": "assistant", "content": None, "refusal": "no"}
REFUSAL = Reply(
    200, {"id": "r", "object": "chat.completion", "choices": [{"index": 0, "finish_reason": "stop", "message": MESSAGE}]}
)
SOON = {"max_retries": 0, "timeout_s": 20.0}


@pytest.fixture
def asked(small: Mapping[str, Any]) -> dict[str, Any]:
    """Eight validation questions, each from another chunk, one request at a time."""
    return {
        "document_reader": small,
        "task_num": 0,
        "validation_task_num": 8,
        "num_workers": 1,
        "llm": SOON,
    }


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("I'm sorry, I cannot help with that.", "not_json"),
        (make_completion(None), "no_text"),
        (Reply(429, {"error": {"message": "slow down"}}), "rate_limited"),
        (Reply(500, {"error": {"message": "oh"}}), "status_500"),
        (Reply(0), "unreachable"),
        (REFUSAL, "refused"),
    ],
)
def test_a_failure_costs_one_request_and_is_counted(
    llm: ScriptedApi, reader: Read, asked: Any, author: Author, reply: str | Reply, reason: str
) -> None:
    refused = set()

    def script(body: Mapping[str, Any], number: int) -> str | Reply:
        # The first document that is shown, and every question on it.
        prompt = body["messages"][0]["content"]
        refused.add(prompt) if not refused else None
        return reply if prompt in refused else author(body, number)

    llm.script = script
    source = reader(**asked)
    assert len(list(source.read("validation"))) == 8
    report = source.generator.report("validation")
    assert report is not None
    assert report["failed"] == {reason: 1}
    assert report["complete"]
    assert report["examples"][reason].startswith("documents/")


def test_an_llm_that_hangs_is_given_up_after_its_time(llm: ScriptedApi, reader: Read, asked: Any, author: Author) -> None:
    release = threading.Event()

    def hang_once(body: Mapping[str, Any], number: int) -> str:
        if number == 0:
            release.wait(30)
        return author(body, number)

    llm.script = hang_once
    try:
        source = reader(**{**asked, "llm": {"max_retries": 0, "timeout_s": 3}})
        assert len(list(source.read("validation"))) == 8
    finally:
        release.set()
    report = source.generator.report("validation")
    assert report is not None
    assert report["failed"] == {"timeout": 1}


def test_garbage_is_asked_for_again_with_what_is_wrong(llm: ScriptedApi, reader: Read, asked: Any, author: Author) -> None:
    llm.script = lambda body, number: "no json" if len(body["messages"]) == 1 else author({"messages": body["messages"][:1]}, 0)
    assert len(list(reader(**asked).read("validation"))) == 8
    assert sum("not the requested JSON object" in prompt for prompt in llm.prompts()) == len(llm.bodies) / 2


def test_nothing_at_all_fails_with_the_reasons_and_soon(llm: ScriptedApi, reader: Read, asked: Any) -> None:
    llm.script = lambda body, number: Reply(500, {"error": {"message": "broken"}})
    source = reader(**{**asked, "validation_task_num": 500})
    with pytest.raises(RunFailed, match=r"no validation task could be generated.*requests: status_500.*broken"):
        list(source.read("validation"))
    assert len(llm.bodies) < 20
    assert source.generator.report("validation") is None


def test_an_llm_that_has_nothing_to_ask_fails_with_that(llm: ScriptedApi, reader: Read, asked: Any, questions: Author) -> None:
    llm.script = lambda body, number: questions()
    with pytest.raises(RunFailed, match="asking all over once more brought nothing new"):
        list(reader(**asked).read("validation"))


def test_no_address_of_an_llm_is_said_before_anything_else(reader: Read, asked: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "DASHSCOPE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(NoEndpoint, match="reader 'data_generation' needs an LLM"):
        list(reader(**asked).read("validation"))


def test_a_budget_keeps_what_was_made_and_says_so(
    llm: ScriptedApi, reader: Read, asked: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    source = reader(**{**asked, "llm": {**SOON, "max_requests": 2}})
    made = list(source.read("validation"))
    assert len(made) == 2
    said = capsys.readouterr().err
    assert "validation: 2 of 8 tasks" in said
    assert "the limit max_requests: 2 is reached" in said
    assert len(llm.bodies) == 2


def test_what_a_budget_left_out_is_made_later_and_nothing_asked_twice(llm: ScriptedApi, reader: Read, asked: Any) -> None:
    small = list(reader(**{**asked, "llm": {**SOON, "max_requests": 2}}).read("validation"))
    later = reader(**asked)
    # A run that is resumed has the tasks that it began with.
    assert list(later.read("validation")) == small
    later.generator.make("validation")
    whole = list(later.read("validation"))
    assert whole[: len(small)] == small
    assert len(whole) == 8
    prompts = [json.dumps(body["messages"]) for body in llm.bodies]
    assert len(set(prompts)) == len(prompts) == 8


def test_a_budget_of_tokens_lets_requests_wait_for_each_other(llm: ScriptedApi, reader: Read, asked: Any, author: Author) -> None:
    # Each request under way counts with 1000 tokens, and takes 10: one at a time fits.
    llm.script = lambda body, number: make_completion(author(body, number), prompt_tokens=5, completion_tokens=5)
    limits = {**SOON, "max_total_tokens": 2500}
    made = reader(**{**asked, "num_workers": 4, "llm_response_length": 1000, "llm": limits})
    assert len(list(made.read("validation"))) == 8


def test_both_splits_spend_of_one_budget(llm: ScriptedApi, reader: Read, asked: Any) -> None:
    source = reader(**{**asked, "task_num": 8, "validation_task_num": 3, "llm": {**SOON, "max_requests": 5}})
    assert len(list(source.read("train"))) == 8
    reports = [source.generator.report(split) for split in ("validation", "train")]
    assert [report["spent"]["requests"] for report in reports if report] == [1, 4]


def test_a_small_limit_leaves_training_its_part(
    llm: ScriptedApi, reader: Read, asked: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    source = reader(**{**asked, "task_num": 8, "validation_task_num": 24, "llm": {**SOON, "max_requests": 4}})
    made = {split: len(list(source.read(split))) for split in ("train", "validation")}
    assert min(made.values()) > 0
    assert len(llm.bodies) == 4
    assert "the limit max_requests: 3 is reached" in (said := capsys.readouterr().err)
    assert "validation's share of the limits in proportion to its tasks" in said


def test_an_embedding_api_that_fails_is_named_and_no_answer_is_lost(llm: ScriptedApi, reader: Read, asked: Any) -> None:
    asked["deduplication_filter"] = {"params": {"model": "embedder"}}
    with pytest.raises(RunFailed, match="no validation task could be generated: embedding model 'embedder'"):
        list(reader(**asked).read("validation"))
    chats = sum("messages" in body for body in llm.bodies)
    llm.embed = lambda text: [1.0 * ord(letter) for letter in text[12:20]]
    list(
        reader(**{**asked, "deduplication_filter": {"params": {"model": "embedder", "similarity_threshold": 1.0}}}).read(
            "validation"
        )
    )
    assert sum("messages" in body for body in llm.bodies) == chats


def test_what_was_compared_before_an_embedding_api_failed_is_written(llm: ScriptedApi, reader: Read, asked: Any) -> None:
    params = {"model": "embedder", "similarity_threshold": 1.0, "batch_size": 3}
    asked = {**asked, "validation_task_num": 6, "deduplication_filter": {"params": params}}
    seen: list[str] = []

    def three(text: str) -> list[float]:
        seen.append(text)
        llm.embed = None if len(seen) == 3 else llm.embed
        return vector(text)

    # The first of two requests for vectors is answered.
    source = reader(**asked)
    llm.embed = three
    assert len(list(source.read("validation"))) == 3
    report = source.generator.report("validation")
    assert report is not None
    assert not report["complete"]
    llm.embed = vector
    chats = len(llm.prompts())
    reader(**asked).generator.make("validation")
    assert len(list(reader(**asked).read("validation"))) == 6
    assert len(llm.prompts()) == chats


@pytest.mark.parametrize(("limit", "batch", "made"), [(2, 10, 1), (3, 3, 2), (10, 10, 9), (10, 3, 7)])
def test_of_a_limit_as_much_is_kept_as_comparing_takes(
    llm: ScriptedApi, reader: Read, asked: Any, limit: int, batch: int, made: int
) -> None:
    params = {"model": "embedder", "similarity_threshold": 1.0, "batch_size": batch}
    asked |= {"validation_task_num": 30, "knowledge_augmentor": {"n": 1}, "deduplication_filter": {"params": params}}
    asked |= {"num_workers": 4, "document_reader": {**asked["document_reader"], "chunk_size": 50}}
    llm.embed = vector
    source = reader(**{**asked, "llm": {**SOON, "max_requests": limit}})
    assert len(list(source.read("validation"))) == made
    report = source.generator.report("validation")
    assert report is not None
    assert report["spent"]["requests"] <= limit == len(llm.bodies)
    assert f"the limit max_requests: {limit} is reached" in report["stopped"]


def test_of_a_limit_on_tokens_enough_is_kept_to_compare_what_it_paid_for(
    llm: ScriptedApi, reader: Read, asked: Any, author: Author
) -> None:
    llm.script = lambda body, number: make_completion(author(body, number), prompt_tokens=500, completion_tokens=60)
    llm.embed = vector
    # Three answers would leave ten tokens, in which their questions cannot be compared.
    asked |= {"llm_response_length": 60, "llm": {**SOON, "max_total_tokens": 3 * 560 + 10}}
    asked |= {"deduplication_filter": {"params": {"model": "embedder", "similarity_threshold": 1.0}}}
    assert len(list(reader(**asked).read("validation"))) == 2


def test_an_embedding_api_that_fails_is_found_before_a_question_is_paid_for(
    llm: ScriptedApi, reader: Read, like_samples: Any
) -> None:
    section = {"params": {"model": "embedder"}}
    with pytest.raises(RunFailed, match="no train task could be generated: embedding model 'embedder'"):
        list(reader(query_reader=like_samples, task_num=3, llm=SOON, deduplication_filter=section).read("train"))
    assert llm.prompts() == []


def vector(text: str) -> list[float]:
    return [1.0 * ord(letter) for letter in text[12:20].ljust(8)]


@pytest.mark.parametrize("garbage", ["", "no json", '{"questions": [{"problem": "?"}]}', '{"questions": []}', '{"questions": 1}'])
def test_an_endpoint_that_was_broken_once_is_asked_again_when_it_is_not(
    llm: ScriptedApi, reader: Read, asked: Any, author: Author, garbage: str
) -> None:
    llm.script = lambda body, number: garbage
    with pytest.raises(RunFailed):
        list(reader(**asked).read("validation"))
    llm.script = author
    assert len(list(reader(**asked).read("validation"))) == 8


def test_a_chunk_of_which_nothing_was_asked_is_asked_again_where_tasks_are_missing(
    llm: ScriptedApi, reader: Read, asked: Any, author: Author, questions: Author
) -> None:
    asked = {**asked, "validation_task_num": 500}
    silent: list[str] = []

    def once_silent(body: Mapping[str, Any], number: int) -> str:
        prompt = body["messages"][0]["content"]
        silent.append(prompt) if not silent else None
        return questions() if prompt in silent else author(body, number)

    llm.script = once_silent
    before = list(reader(**asked).read("validation"))
    llm.script = author
    again = reader(**asked)
    again.generator.make("validation")
    assert len(list(again.read("validation"))) > len(before) > 0


def test_a_limit_is_not_spent_on_asking_again_where_nothing_came(
    llm: ScriptedApi, reader: Read, asked: Any, author: Author, questions: Author
) -> None:
    # The first chunks have nothing to ask, and a limit allows as many requests as there are of them.
    def barren(body: Mapping[str, Any], number: int) -> str:
        return questions() if body["messages"][0]["content"] in barren_prompts else author(body, number)

    barren_prompts: list[str] = []
    llm.script = lambda body, number: barren_prompts.append(body["messages"][0]["content"]) or questions()
    limited = {**asked, "llm": {**SOON, "max_requests": 2}}
    with pytest.raises(RunFailed, match="max_requests: 2 is reached"):
        list(reader(**limited).read("validation"))
    llm.script = barren
    assert len(list(reader(**limited).read("validation"))) == 2


def test_a_check_that_contradicts_itself_is_not_kept(llm: ScriptedApi, reader: Read, asked: Any, author: Author) -> None:
    asked = {**asked, "verify": True, "validation_task_num": 1}
    llm.script = lambda body, number: (
        '{"answerable": true}' if '"answerable"' in body["messages"][-1]["content"] else author(body, number)
    )
    with pytest.raises(RunFailed, match="not_answerable"):
        list(reader(**asked).read("validation"))
    llm.script = author
    assert len(list(reader(**asked).read("validation"))) == 1


def test_asking_all_over_ends_when_it_is_hardly_worth_it(
    llm: ScriptedApi, reader: Read, asked: Any, small: Any, questions: Author, author: Author
) -> None:
    new = iter(range(10**6))

    def stingy(body: Mapping[str, Any], number: int) -> str:
        # The first question of every request is asked again and again, but for one request in eight.
        rows = json.loads(author({"messages": [{"content": body["messages"][0]["content"].partition("already")[0]}]}, 0))[
            "questions"
        ]
        return questions(
            {**rows[0], "question": f"{rows[0]['question']} {next(new)}" if number % 8 == 0 else rows[0]["question"]}
        )

    llm.script = stingy
    asked = {**asked, "validation_task_num": 100, "deduplication_filter": {"enabled": False}}
    source = reader(**asked)
    made = len(list(source.read("validation")))
    report = source.generator.report("validation")
    assert report is not None
    chunks = len(source.generator.build_request("validation").sources(0))
    assert report["requests"] <= 2 * chunks
    assert not report["complete"]
    # With 0 it goes on, from what there is.
    on = reader(**asked, least_yield=0.0)
    on.generator.make("validation")
    assert len(list(on.read("validation"))) > made


def test_tasks_of_a_document_whose_name_is_not_utf8_are_written(
    llm: ScriptedApi, reader: Read, asked: Any, documents: Path
) -> None:
    for path in list(documents.iterdir()):
        path.rename(documents / os.fsdecode(os.fsencode(path.stem) + b"\xe9" + os.fsencode(path.suffix)))
    (task, *_) = reader(**asked).read("validation")
    assert task.metadata["provenance"]["document"] in (r"documents/one\xe9.txt", r"documents/two\xe9.md")


def test_a_sample_with_half_a_character_is_written_as_it_was_read(llm: ScriptedApi, reader: Read, tmp_path: Path) -> None:
    row = {"task_id": "s\ud800", "main_query": "What is 2 + 3?", "answer": "5"}
    (tmp_path / "samples.jsonl").write_text(json.dumps(row) + "\n")
    section = {"type": "dataset_file", "dataset_file": {"training": {"file_path": "samples.jsonl"}}}
    (task,) = reader(query_reader=section, task_num=1).read("train")
    assert task.metadata["provenance"]["sample_task_id"] == "s\ud800"


def test_half_a_character_in_the_question_of_a_sample_reaches_the_llm_as_a_replacement(
    llm: ScriptedApi, reader: Read, tmp_path: Path
) -> None:
    row = {"main_query": "What is 2 + 3? \ud800", "answer": "5"}
    (tmp_path / "samples.jsonl").write_text(json.dumps(row) + "\n")
    section = {"type": "dataset_file", "dataset_file": {"training": {"file_path": "samples.jsonl"}}}
    assert len(list(reader(query_reader=section, task_num=1).read("train"))) == 1
    assert "What is 2 + 3? \ufffd" in llm.bodies[0]["messages"][0]["content"]


def test_what_cannot_be_written_leaves_no_part_of_a_file(tmp_path: Path) -> None:
    with pytest.raises(UnicodeEncodeError):
        write_atomically(tmp_path / "a.txt", "half \ud800")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def interruptible() -> Iterator[None]:
    """As in a terminal: a shell has what it runs in the background ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def in_a_loop_left_to_python(work: Coroutine[Any, Any, None]) -> None:
    """Run without `asyncio.run`, whose own handler answers the first Ctrl-C."""
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(work)
    finally:
        loop.close()


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("run", [asyncio.run, in_a_loop_left_to_python])
def test_ctrl_c_ends_a_silent_llm_where_an_event_loop_runs(
    llm: ScriptedApi, reader: Read, asked: Any, run: Callable[[Coroutine[Any, Any, None]], None]
) -> None:
    silent = threading.Event()

    def interrupted(body: Mapping[str, Any], number: int) -> str:
        if number == 0:
            os.kill(os.getpid(), signal.SIGINT)
        silent.wait(60)
        return "late"

    async def inside() -> None:
        list(reader(**{**asked, "llm": {"max_retries": 0, "timeout_s": 600.0}}).read("validation"))

    llm.script = interrupted
    try:
        with pytest.raises(KeyboardInterrupt):
            run(inside())
        assert llm.under_way > 0
    finally:
        silent.set()


def test_a_document_that_does_not_parse_is_named_and_the_others_are_used(
    llm: ScriptedApi, reader: Read, asked: Any, documents: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pypdf", reason="comes with the extra documents")
    (documents / "broken.pdf").write_bytes(b"%PDF-1.7 cut off")
    assert len(list(reader(**asked).read("validation"))) == 8
    assert "not read: documents/broken.pdf: the pdf cannot be parsed" in capsys.readouterr().err


def test_a_key_is_in_no_file(llm: ScriptedApi, reader: Read, asked: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    llm.script = lambda body, number: Reply(401, {"error": {"message": "wrong key sk-very-secret"}})
    with pytest.raises(RunFailed) as caught:
        list(reader(**asked).read("validation"))
    assert "sk-very-secret" not in str(caught.value)
    written = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()]
    assert not any(b"sk-very-secret" in content for content in written)
