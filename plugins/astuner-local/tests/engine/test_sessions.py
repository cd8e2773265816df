from __future__ import annotations

import pytest

from astuner_local.engine.batch import BatchEngine
from astuner_local.forward.choose import make_forward


def test_a_continued_prompt_computes_only_its_end(engine, run, make_request, make_ids):
    prompt = make_ids(50)
    (first,) = run(engine, make_request("1", prompt, session="s", max_tokens=10))
    run(engine, make_request("2", prompt + first.ids + make_ids(6), session="s"))
    assert engine.stats.prefilled == 50 + 1 + 6  # the last sampled token had not been run


def test_a_group_computes_its_prompt_once(engine, run, make_request, make_ids):
    prompt = make_ids(50)
    run(engine, *(make_request(str(number), prompt, seed=number) for number in range(8)))
    assert engine.stats.prefilled == 50
    assert engine.stats.shared == 7 * 49


def test_siblings_that_arrive_later_find_the_prompt_computed(engine, run, make_request, make_ids):
    prompt = make_ids(50)
    run(engine, make_request("1", prompt))
    run(engine, make_request("2", prompt, seed=2))
    assert engine.stats.prefilled == 50


def test_siblings_go_on_when_the_one_they_waited_for_is_cancelled(engine, make_request, make_ids):
    prompt = make_ids(350)
    slow = BatchEngine(engine._forward, max_model_len=512, prefill_tokens=16)
    first, second = (slow.submit(make_request(str(number), prompt)) for number in range(2))
    slow.step()
    first.cancelled = True
    while slow.busy:
        slow.step()
    assert (first.finish, second.finish) == ("abort", "length")


def test_an_edited_history_keeps_what_is_before_the_edit(engine, run, make_request, make_ids):
    prompt = make_ids(60)
    (first,) = run(engine, make_request("1", prompt, session="s"))
    run(engine, make_request("2", prompt[:40] + make_ids(10, 5), session="s"))
    assert engine.stats.prefilled == 60 + 10
    run(engine, make_request("3", prompt + first.ids + [9], session="s"))
    assert engine.stats.shared >= 40 + 40


def test_parallel_calls_of_a_session_fork(engine, run, make_request, make_ids):
    prompt = make_ids(40)
    (first,) = run(engine, make_request("1", prompt, session="s", max_tokens=5))
    before = engine.stats.prefilled
    stream = prompt + first.ids
    run(engine, *(make_request(f"f{number}", stream + make_ids(6, number + 1), session="s") for number in range(3)))
    assert engine.stats.prefilled - before <= 3 * 7


def test_a_released_session_is_forgotten(engine, run, make_request, make_ids):
    run(engine, make_request("1", make_ids(50), session="s"))
    engine.release("s")
    run(engine, make_request("2", make_ids(50), session="t"))
    assert engine.stats.prefilled == 100


def test_a_session_released_while_it_runs_is_forgotten_at_its_end(engine, run, make_request, make_ids):
    generation = engine.submit(make_request("1", make_ids(50), session="s"))
    engine.step()
    engine.release("s")
    while engine.busy:
        engine.step()
    assert generation.finish == "length"
    assert all(slot.session is None for slot in engine._slots.slots)


def test_sessions_that_are_never_released_make_room_for_others(model, run, make_request, make_ids):
    engine = BatchEngine(make_forward(model, trainable=False), max_model_len=64, max_num_seqs=4)
    for number in range(60):
        (generation,) = run(engine, make_request(str(number), make_ids(9, number), max_tokens=2))
        assert generation.finish == "length"
    assert len(engine._slots.slots) <= 16


def test_a_stop_token_ends_the_output_and_is_part_of_it(engine, run, make_request, make_ids):
    (free,) = run(engine, make_request("1", make_ids(20), max_tokens=30))
    stop = free.ids[4]
    (stopped,) = run(engine, make_request("2", make_ids(20), max_tokens=30, stop_token_ids=(stop,)))
    assert stopped.ids == free.ids[: free.ids.index(stop) + 1]
    assert stopped.finish == "stop"


@pytest.mark.parametrize(("size", "sampled"), [(500, 12), (511, 1), (512, 0), (600, 0)])
def test_a_full_context_ends_the_output(size, sampled, engine, run, make_request, make_ids):
    (generation,) = run(engine, make_request("1", make_ids(size), max_tokens=30))
    assert (len(generation.ids), generation.finish) == (sampled, "length")


@pytest.mark.parametrize("prompt", [[], [3, 97], [-1]])
def test_a_prompt_that_is_no_prompt_is_refused(prompt, engine, make_request):
    with pytest.raises(ValueError, match="request bad: the prompt"):
        engine.submit(make_request("bad", prompt))


def test_counting_top_logprobs_gives_one_entry_per_token(engine, run, make_request, make_ids):
    asked, other = run(engine, make_request("1", make_ids(9), top_logprobs=3), make_request("2", make_ids(9)))
    assert [len(top) for top in asked.tops] == [3] * len(asked.ids)
    assert other.tops == []
