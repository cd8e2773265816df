from __future__ import annotations

import asyncio
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import astuner
from astuner.episodes.containment.contained_call import run_contained
from astuner.episodes.containment.guarded_loop import GuardedLoop
from astuner.episodes.containment.step_frames import UserFrame
from astuner.episodes.containment.user_code import UserCode
from astuner.episodes.rollout.loop_looks import Look, ThreadMeter, find_blame
from astuner.episodes.rollout.watchdog import LoopWatchdog


class Idle(ThreadMeter):
    """Of a thread that waits, on a machine that has nothing to do."""

    def read_process_cpu_s(self):
        return 0.0

    def read_cpu_s(self):
        return 0.0

    def is_asleep(self):
        return True


class Watched:
    """A loop whose watchdog looks when it is told, on a clock that is moved by hand."""

    def __init__(self):
        self.now = 0.0
        self.said = []
        self.watchdog = LoopWatchdog(self.said.append, clock=lambda: self.now, make_meter=Idle)
        self.looker = ThreadPoolExecutor(1)

    def hold(self, looks=20, every_s=0.5):
        for _ in range(looks):
            self.now += every_s
            self.looker.submit(self.watchdog.look).result()

    def run(self, *works, code=None):
        async def play():
            self.watchdog.attach()
            codes = [code or UserCode(f"the workflow of train/1/t/{place}") for place, _ in enumerate(works)]
            await asyncio.gather(*(run_contained(work, of) for work, of in zip(works, codes, strict=True)))

        with asyncio.Runner(loop_factory=GuardedLoop) as runner:
            runner.run(play())


def test_a_line_that_waits_through_several_looks_is_named_once():
    watched = Watched()

    async def execute():
        watched.hold()

    watched.run(execute)
    (said,) = watched.said
    assert said.startswith("the workflow of train/1/t/0 has held up all other episodes for over 2 s: it waits at ")
    assert "test_watchdog.py:" in said
    assert "in hold (self.looker.submit(self.watchdog.look).result()). With asyncio.to_thread, run that" in said


def test_many_workflows_that_each_hold_the_loop_shortly_are_not_named():
    watched = Watched()

    async def execute():
        for _ in range(2):
            watched.hold(1, 0.05)
            await asyncio.sleep(0)

    watched.run(*[execute] * 64)
    assert watched.now > 2
    assert watched.said == []


def test_the_run_itself_is_not_named():
    watched = Watched()

    class Launch:
        def execute(self):
            async def go():
                watched.watchdog.attach()
                await asyncio.sleep(0)
                watched.hold()

            with asyncio.Runner(loop_factory=GuardedLoop) as runner:
                runner.run(go())

    Launch().execute()
    assert watched.said == []


def test_what_this_package_does_for_a_workflow_is_not_its_doing():
    watched = Watched()
    ours = {"watched": watched}
    source = "def answer():\n    watched.looker.submit(watched.watchdog.look).result()\n"
    exec(compile(source, str(Path(astuner.__file__).parent / "model" / "gateway" / "made_up.py"), "exec"), ours)

    async def execute():
        for _ in range(20):
            watched.now += 0.5
            ours["answer"]()

    watched.run(execute)
    assert watched.said == []


def test_a_module_that_takes_long_to_import_is_not_named(tmp_path, monkeypatch):
    watched = Watched()
    (tmp_path / "slow_to_import.py").write_text("import sys\nsys.hold()\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "hold", watched.hold, raising=False)

    async def execute():
        import slow_to_import  # noqa: F401

    watched.run(execute)
    assert watched.said == []


def test_looks_that_come_late_prove_nothing():
    watched = Watched()

    async def execute():
        watched.hold(every_s=1.5)

    watched.run(execute)
    assert watched.said == []


def test_a_line_that_awaits_is_not_asked_to_await():
    watched = Watched()

    async def library():
        watched.hold()

    async def execute():
        await library()

    watched.run(execute)
    assert "await it" not in watched.said[0]


def test_a_judge_is_not_told_to_isolate_workflows():
    watched = Watched()

    async def judge():
        watched.hold()

    watched.run(judge, code=UserCode("the judge, on train/1/t,", is_shared=True))
    (said,) = watched.said
    assert said.startswith("the judge, on train/1/t has held up")
    assert "isolation" not in said


def test_the_watching_thread_names_a_line_that_blocks():
    named, said = threading.Event(), []

    def notify(text):
        said.append(text)
        named.set()

    watchdog = LoopWatchdog(notify, blocked_after_s=0.2)

    async def execute():
        assert named.wait(300)

    async def play():
        watchdog.start()
        await run_contained(execute, UserCode("the workflow of e"))

    with asyncio.Runner(loop_factory=GuardedLoop) as runner:
        runner.run(play())
    watchdog.stop()
    assert "named.wait(300)" in said[0]


def frame(function, line=1, call=1):
    return UserFrame(call=call, file="agent.py", function=function, begins_at=1, line=line, awaits=False)


def look(at_s, *frames, cpu=0.0, loop=0.0, asleep=True):
    return Look(at_s=at_s, step=(1, 1), frames=frames, process_cpu_s=cpu, loop_cpu_s=loop, asleep=asleep)


EXECUTE = frame("execute", 2)


@pytest.mark.parametrize(
    ("last", "blamed"),
    [
        (look(3, EXECUTE, cpu=2.5, loop=2.5, asleep=False), True),
        (look(3, EXECUTE, cpu=0.1), True),
        (look(3, frame("execute", 5), cpu=0.1), False),
        (look(3, EXECUTE, cpu=2.5, loop=0.1), False),
        (look(3, EXECUTE, cpu=0.2, loop=0.2, asleep=False), False),
        (look(3, frame("execute", 2, call=7), cpu=0.1), False),
        (look(3, EXECUTE, cpu=0.1, loop=None), True),
    ],
    ids=[
        "it computes",
        "it sleeps",
        "it was elsewhere before",
        "another thread computes",
        "something waits for a core",
        "another call",
        "the clock of the thread cannot be read",
    ],
)
def test_a_call_is_blamed_only_for_what_it_does_itself(last, blamed):
    assert (find_blame([look(0, EXECUTE), last]) is not None) is blamed


def test_what_computes_in_several_functions_is_the_call_that_they_have_in_common():
    looks = [
        look(0, EXECUTE, frame("first", call=2)),
        look(3, frame("execute", 3), frame("second", call=3), cpu=2.9, loop=2.9),
    ]
    blame = find_blame(looks)
    assert blame is not None
    assert blame.frame.format(with_line=blame.stays) == "agent.py:1 in execute"
