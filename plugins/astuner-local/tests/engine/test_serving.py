from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from importlib.metadata import entry_points
from types import SimpleNamespace

import pytest
import torch

from astuner.contract.errors import AstunerError
from astuner.settings.config.rollout import Rollout
from astuner_local.engine import serving
from astuner_local.engine.plugin import LocalEngine, LocalOptions


async def _collect(engine, request):
    chunks = [chunk async for chunk in engine.generate(request)]
    return [token for chunk in chunks for token in chunk.ids], [p for chunk in chunks for p in chunk.logprobs], chunks


def _serve(model, play, **settings):
    """Run a coroutine function with a started engine over a model."""

    async def run():
        engine = LocalEngine.from_module(model, **({"max_model_len": 256} | settings))
        await engine.start()
        try:
            return await play(engine)
        finally:
            await engine.close()

    return asyncio.run(asyncio.wait_for(run(), 60))


def test_the_entry_point_leads_here():
    (found,) = entry_points(group="astuner.engines", name="local")
    assert found.load() is LocalEngine


def test_the_entry_point_imports_light():
    code = "import sys, astuner_local.engine.plugin; print([m for m in ('torch', 'transformers', 'numpy') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


@pytest.mark.parametrize("slow_s", [1e9, -1.0], ids=["in the loop", "in a thread"])
def test_concurrent_agents_get_what_they_get_alone(slow_s, model, run, kernels, engine, make_request, make_ids, monkeypatch):
    monkeypatch.setattr(serving, "_SLOW_S", slow_s)
    requests = [make_request(str(number), make_ids(5 * number + 3, number), seed=number, max_tokens=40) for number in range(12)]

    async def play(engine):
        return await asyncio.gather(*(_collect(engine, request) for request in requests))

    together = _serve(model, play, compiled=kernels is not None)
    alone = run(engine, *requests)
    assert [(ids, logprobs) for ids, logprobs, _ in together] == [(found.ids, found.logprobs) for found in alone]
    assert [chunks[-1].finish_reason for *_, chunks in together] == [found.finish for found in alone]


def test_other_tasks_run_between_steps(model, make_request, make_ids):
    async def play(engine):
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        ticking = asyncio.create_task(tick())
        await _collect(engine, make_request("a", make_ids(5), max_tokens=100))
        ticking.cancel()
        return ticks

    assert _serve(model, play) >= 100


def test_an_idle_engine_takes_no_turns(model, make_request, make_ids):
    async def play(engine):
        await _collect(engine, make_request("a", make_ids(5)))
        steps = engine.stats.steps
        await asyncio.sleep(0.05)
        return engine.stats.steps - steps

    assert _serve(model, play) == 0


def test_leaving_the_iterator_cancels_the_request(model, make_request, make_ids):
    async def play(engine):
        stream = engine.generate(make_request("a", make_ids(5), max_tokens=10_000))
        task = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await stream.aclose()
        await _collect(engine, make_request("b", make_ids(5, 1)))
        return engine.stats.decoded

    assert _serve(model, play, max_model_len=100_000) < 2000


def test_a_pause_starts_nothing_and_a_resume_does(model, make_request, make_ids):
    async def play(engine):
        await engine.pause()
        task = asyncio.ensure_future(_collect(engine, make_request("a", make_ids(5))))
        await asyncio.sleep(0.02)
        paused = task.done(), engine.stats.steps
        await engine.resume()
        return paused, (await task)[0]

    paused, ids = _serve(model, play)
    assert paused == (False, 0)
    assert len(ids) == 8


def test_new_weights_are_served_and_old_keys_and_values_dropped(make_model, run, make_request, make_ids):
    model, other = make_model(seed=0), make_model(seed=1)
    first, second = (
        make_request("1", make_ids(30), session="s", temperature=0),
        make_request("2", make_ids(34), session="s", temperature=0),
    )

    async def play(engine):
        old = await _collect(engine, first)
        with torch.no_grad():
            for mine, new in zip(model.parameters(), other.parameters(), strict=True):
                mine.copy_(new)
        await engine.update_weights(model, 3)
        return old, await _collect(engine, second)

    (_, _, before), (ids, logprobs, after) = _serve(model, play)
    expected = _serve(other, lambda engine: _collect(engine, second))
    assert (ids, logprobs) == expected[:2]
    assert {chunk.weight_version for chunk in before} == {0}
    assert {chunk.weight_version for chunk in after} == {3}


def test_weights_that_change_midway_are_told_apart(make_model, make_request, make_ids):
    model = make_model()

    async def play(engine):
        task = asyncio.ensure_future(_collect(engine, make_request("a", make_ids(9), max_tokens=60)))
        while engine.stats.decoded < 10:
            await asyncio.sleep(0)
        await engine.update_weights(None, 1)
        return await task

    ids, _, chunks = _serve(model, play)
    sizes = {version: sum(len(chunk.ids) for chunk in chunks if chunk.weight_version == version) for version in (0, 1)}
    assert len(ids) == 60
    assert sizes[0] >= 10
    assert sizes[1] == 60 - sizes[0]


def test_weights_from_a_directory_are_served(make_model, make_request, make_ids, tmp_path):
    model, other = make_model(seed=0), make_model(seed=1)
    other.save_pretrained(tmp_path)
    request = make_request("a", make_ids(9), temperature=0)

    async def play(engine):
        await engine.update_weights(tmp_path, 1)
        return await _collect(engine, request)

    assert _serve(model, play)[:2] == _serve(other, lambda engine: _collect(engine, request))[:2]


def test_weights_of_another_shape_are_refused(make_model):
    async def play(engine):
        with pytest.raises(AstunerError, match="num_kv_heads is 4, and was 2"):
            await engine.update_weights(make_model(kv_heads=4), 1)

    _serve(make_model(), play)


def test_weights_that_diverged_end_their_requests_and_not_the_engine(make_model, make_request, make_ids):
    model, good = make_model(), make_model()

    async def play(engine):
        with torch.no_grad():
            model.model.norm.weight.fill_(torch.nan)
        await engine.update_weights(model, 1)
        with pytest.raises(AstunerError, match="request a: its weights have diverged"):
            await _collect(engine, make_request("a", make_ids(5)))
        await engine.update_weights(good, 2)
        return (await _collect(engine, make_request("b", make_ids(5))))[0]

    assert len(_serve(model, play)) == 8


def test_an_error_in_a_step_reaches_the_readers_and_not_the_engine(model, make_request, make_ids, monkeypatch):
    async def play(engine):
        forward = engine._serving._forward
        usual, forward.hidden = forward.hidden, _raise
        with pytest.raises(MemoryError, match="no room"):
            await _collect(engine, make_request("a", make_ids(5)))
        forward.hidden = usual
        return (await _collect(engine, make_request("b", make_ids(5))))[0]

    assert len(_serve(model, play)) == 8


def test_closing_ends_what_is_under_way(model, make_request, make_ids):
    async def play(engine):
        task = asyncio.ensure_future(_collect(engine, make_request("a", make_ids(5), max_tokens=10_000)))
        await asyncio.sleep(0.02)
        await engine.close()
        return (await task)[2][-1].finish_reason

    assert _serve(model, play, max_model_len=100_000) == "abort"


def test_a_prompt_without_room_ends_with_length(model, make_request, make_ids):
    ids, _, chunks = _serve(model, lambda engine: _collect(engine, make_request("a", make_ids(256))))
    assert (ids, chunks[-1].finish_reason) == ([], "length")


def test_a_constraint_is_refused(model, make_request, make_ids):
    from attrs import evolve

    async def play(engine):
        with pytest.raises(AstunerError, match="no constrained generation"):
            await _collect(engine, evolve(make_request("a", make_ids(5)), constraint={"type": "json"}))

    _serve(model, play)


def test_what_it_says_it_can_do(make_model):
    async def play(engine):
        return engine.capabilities

    exact, rounded = _serve(make_model(), play), _serve(make_model(), play, dtype="bfloat16")
    assert (exact.reproducible, exact.weight_updates, exact.max_model_len, exact.logprobs) == (True, True, 256, True)
    assert not rounded.reproducible


def test_it_loads_the_model_of_a_run_when_it_starts(make_model, make_request, make_ids, tmp_path):
    make_model(seed=1).save_pretrained(tmp_path)
    config = SimpleNamespace(
        model=SimpleNamespace(path=str(tmp_path), dtype="auto"), rollout=Rollout(max_model_len=64, max_num_seqs=4)
    )
    request = make_request("a", make_ids(9), temperature=0)

    async def run():
        engine = LocalEngine.from_run(LocalOptions(device="cpu"), SimpleNamespace(config=config))
        assert engine.capabilities.max_model_len == 64
        await engine.start()
        found = await _collect(engine, request)
        await engine.close()
        return found

    expected = _serve(make_model(seed=1), lambda engine: _collect(engine, request))
    assert asyncio.run(run())[:2] == expected[:2]


def test_nothing_is_generated_before_the_start(model, make_request, make_ids):
    with pytest.raises(RuntimeError, match=r"await engine.start\(\)"):
        LocalEngine.from_module(model, max_model_len=64).generate(make_request("a", make_ids(3)))


def test_a_closed_engine_leaves_no_thread(model, make_request, make_ids, monkeypatch):
    import threading

    monkeypatch.setattr(serving, "_SLOW_S", -1.0)
    _serve(model, lambda engine: _collect(engine, make_request("a", make_ids(5))))
    gc.collect()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("astuner-local-engine")]


def _raise(*_):
    raise MemoryError("no room")
