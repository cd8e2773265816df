"""Whatever a workflow or a judge returns is stored, or fails as its own episode; what was stored is read back equal."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

import hostile_values as hostile
import pytest
from attrs import evolve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from astuner.contract.errors import DataError
from astuner.contract.plain_values import DEEPEST_RECORD, make_plain
from astuner.contract.protocols import Judge
from astuner.contract.schema import Episode, Task, Unjudged, Verdict, WorkflowOutput
from astuner.contract.user_values.changes import make_mapping_plain
from astuner.contract.user_values.outputs import check_output
from astuner.contract.user_values.tasks import check_task
from astuner.episodes.judging.failures import collect_observations
from astuner.episodes.judging.group_judging import judge_group
from astuner.episodes.judging.simple_judges import make_judge
from astuner.runs.store.codec import decode_episode, dump_episode, encode_episode, encode_record
from astuner_devkit.episodes import episode, group

often = settings(max_examples=int(os.environ.get("ASTUNER_HOSTILE", "150")), suppress_health_check=list(HealthCheck))


def store(one: Episode) -> Episode:
    """Store an episode and read it back; nothing in it may be left to the writer's last line of defence."""
    line = encode_episode(one, pytest.fail)
    line.decode()
    back = decode_episode(line)
    assert dump_episode(back) == dump_episode(one)
    return back


OUTPUTS = st.builds(
    dict,
    reward=st.none() | hostile.NUMBERS | st.dictionaries(hostile.KEYS, hostile.NUMBERS, max_size=3),
    is_success=st.none() | hostile.LEAVES,
    metadata=st.dictionaries(hostile.KEYS, hostile.VALUES, max_size=4),
    log_metrics=st.dictionaries(hostile.KEYS, hostile.NUMBERS, max_size=4),
)


@often
@given(OUTPUTS.map(hostile.Given))
def test_an_output_fails_as_the_workflows_own_or_is_read_back_as_it_was_checked(given: hostile.Given) -> None:
    try:
        output = check_output(WorkflowOutput(**given.value)).output
    except (TypeError, ValueError):
        return
    assert store(evolve(episode(), output=output, verdict=None)).output == output
    judged = asyncio.run(judge_group(group(evolve(episode(), output=output, verdict=None)), None, timeout_s=None)).episodes[0]
    assert isinstance(judged.verdict, Unjudged) is (output.reward is None)
    store(judged)


class Gives(Judge):
    def __init__(self, given: Any) -> None:
        self.given = given

    async def observe(self, episode: Any, environment: Any) -> Any:
        return self.given

    async def judge(self, group: Any) -> Any:
        return [self.given for _ in group.episodes]


ANSWERS = st.one_of(
    hostile.VALUES,
    st.tuples(hostile.NUMBERS, hostile.LEAVES),
    st.builds(Verdict, hostile.NUMBERS, hostile.LEAVES),
    st.builds(
        Verdict,
        st.floats(-1e12, 1e12),
        st.none() | st.booleans(),
        rewards=st.none() | st.dictionaries(hostile.KEYS, hostile.NUMBERS, max_size=3),
        components=st.dictionaries(hostile.KEYS, hostile.NUMBERS, max_size=3),
        rationale=st.none() | hostile.LEAVES,
    ),
    st.builds(lambda reason, detail: Unjudged(reason=reason, detail=detail), hostile.LEAVES, hostile.LEAVES),
)


@often
@given(ANSWERS.map(hostile.Given), st.booleans())
def test_a_judges_answer_is_a_verdict_or_a_reason_and_is_read_back(given: hostile.Given, simple: bool) -> None:
    judge = make_judge(lambda task, output: given.value) if simple else Gives(given.value)
    one = evolve(episode(), verdict=None)
    judged = asyncio.run(judge_group(group(one), judge, timeout_s=None)).episodes[0]
    assert isinstance(judged.verdict, Verdict | Unjudged)
    assert store(judged).verdict == judged.verdict


@often
@given(st.dictionaries(hostile.KEYS, hostile.VALUES, max_size=4).map(hostile.Given))
def test_observations_are_read_back(given: hostile.Given) -> None:
    async def observe() -> dict[str, Any]:
        # asyncio.run may show the result of what it runs, so what it returns is plain.
        seen = await collect_observations(Gives(given.value), episode(), None)
        assert not isinstance(seen, Unjudged)
        return make_mapping_plain(seen, "seen")[0]

    store(evolve(episode(), observations=asyncio.run(observe())))


MESSAGES = st.lists(st.dictionaries(hostile.KEYS, hostile.VALUES, max_size=3), max_size=2)


@often
@given(st.tuples(hostile.LEAVES, MESSAGES, hostile.LEAVES, hostile.VALUES).map(hostile.Given))
def test_a_task_is_refused_before_the_run_or_read_back(given: hostile.Given) -> None:
    query, messages, name, value = given.value
    try:
        task, _ = check_task(Task(query, messages, name, metadata={"value": value}), "train")
    except DataError:
        return
    store(evolve(episode(), task=task))


@often
@given(hostile.VALUES.map(hostile.Given))
def test_what_nobody_has_checked_is_stored_as_text(given: hostile.Given) -> None:
    record = {"kind": "episode", "value": given.value}
    assert json.loads(encode_record(record)) == make_plain(record, deepest=DEEPEST_RECORD).value


@often
@given(hostile.VALUES.map(hostile.Given))
def test_plain_values_stay_as_they_are(given: hostile.Given) -> None:
    plain = make_plain(given.value).value
    again = make_plain(plain)
    assert (again.value, again.mended, again.replaced) == (plain, False, None)
    assert json.loads(json.dumps(plain, allow_nan=False, ensure_ascii=False).encode()) == plain
