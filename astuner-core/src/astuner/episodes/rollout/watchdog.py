"""Names the line of users' code that holds the event loop, if that is certain."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

from astuner.episodes.containment.guarded_loop import OwnedTask
from astuner.episodes.containment.step_frames import read_step_frames
from astuner.episodes.containment.user_code import OwnedCoroutine, UserCode
from astuner.episodes.rollout.loop_looks import Blame, Look, ThreadMeter, find_blame

BLOCKED_AFTER_S = 2.0
"""How long users' code may hold the loop, in one step of a task, before it is named."""
LOOKS = 4
"""In that time."""


class LoopWatchdog:
    """Looks at one event loop from a thread, and reports each place that holds it once.

    Only what several looks saw in the same step of a task is reported: a loop that is late because it has much to do, or
    because the machine has, makes its steps one after the other.
    """

    def __init__(
        self,
        notify: Callable[[str], None],
        *,
        blocked_after_s: float = BLOCKED_AFTER_S,
        clock: Callable[[], float] = time.monotonic,
        make_meter: Callable[[int, int], ThreadMeter] = ThreadMeter,
    ) -> None:
        """Report through `notify`, which is called from the thread that looks."""
        self._notify, self._clock, self._make_meter = notify, clock, make_meter
        self._blocked_after_s = blocked_after_s
        self._looks: list[Look] = []
        self._named: set[str] = set()
        self._over = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def attach(self) -> None:
        """Choose the running loop."""
        self._loop = asyncio.get_running_loop()
        self._meter = self._make_meter(threading.get_ident(), threading.get_native_id())

    def start(self) -> None:
        """Watch the running loop."""
        self.attach()
        threading.Thread(target=self._watch, name="astuner-loop-watchdog", daemon=True).start()

    def stop(self) -> None:
        """End the watch."""
        self._over.set()

    def look(self) -> None:
        """Look once, from a thread other than the loop's."""
        task = asyncio.current_task(self._loop)
        coroutine = task.get_coro() if isinstance(task, OwnedTask) else None
        if not isinstance(coroutine, OwnedCoroutine) or coroutine.code is None:
            self._looks.clear()
            return
        look = self._describe(coroutine)
        previous = self._looks[-1] if self._looks else None
        # A look that comes late was itself kept waiting: by the machine, a debugger, or another thread that held the interpreter.
        late = previous is not None and look is not None and look.at_s - previous.at_s > 2 * self._blocked_after_s / LOOKS
        if look is None or previous is None or late or previous.step != look.step:
            self._looks = [] if look is None else [look]
            return
        self._looks.append(look)
        while len(self._looks) > 2 and look.at_s - self._looks[1].at_s >= self._blocked_after_s:
            del self._looks[0]
        if look.at_s - self._looks[0].at_s < self._blocked_after_s:
            return
        if (blame := find_blame(self._looks)) is not None:
            self._report(blame, coroutine.code)

    def _watch(self) -> None:
        while not self._over.wait(self._blocked_after_s / LOOKS):
            self.look()

    def _describe(self, coroutine: OwnedCoroutine[object]) -> Look | None:
        """Return what the loop does in a step; None if the step has ended meanwhile, or if it is not at users' code."""
        step = (id(coroutine), coroutine.steps)
        look = Look(
            at_s=self._clock(),
            step=step,
            frames=read_step_frames(self._meter.thread, coroutine.work),
            process_cpu_s=self._meter.read_process_cpu_s(),
            loop_cpu_s=self._meter.read_cpu_s(),
            asleep=self._meter.is_asleep(),
        )
        return look if look.frames and step == (id(coroutine), coroutine.steps) else None

    def _report(self, blame: Blame, code: UserCode) -> None:
        place = blame.frame.format(with_line=blame.stays)
        if place in self._named:
            return
        self._named.add(place)
        text = f" ({blame.frame.text})" if blame.stays and blame.frame.text else ""
        doing = "computes" if blame.computes else "waits"
        remedy = "run what it awaits there in a thread" if blame.frame.awaits else "run that in a thread"
        isolation = "" if code.is_shared else ", or set rollout.isolation to thread or process"
        self._notify(
            f"{code.name.rstrip(',')} has held up all other episodes for over {self._blocked_after_s:g} s: it {doing} at "
            f"{place}{text}. With asyncio.to_thread, {remedy}{isolation}"
        )
