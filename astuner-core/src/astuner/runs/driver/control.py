"""Asking a running backbone to stop or to save, from signals and other threads."""

from __future__ import annotations

import _thread
import asyncio
import contextvars
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import cache
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from astuner.contract.protocols import EpisodeStore
from astuner.episodes.containment.endings import UserInterrupt
from astuner.episodes.containment.user_code import make_context_of_run
from astuner.runs.driver.signal_watch import ENDING, SignalWatch

if TYPE_CHECKING:
    from astuner.settings.plugins.hooks import Hooks

T = TypeVar("T")

STOPPING = "stopping: an update or a save under way is finished, then the state is saved; a second signal ends the run at once"
AGAIN_AFTER_S = 0.05


class RunControl:
    """The driver's side of `protocols.Control`."""

    def __init__(
        self,
        *,
        store: EpisodeStore,
        hooks: Hooks,
        resume_step: int,
        notify: Callable[[str, Literal["info", "warning"]], None],
        progress: Callable[[str, int, int], None],
    ) -> None:
        """Start without any request."""
        self.store, self.hooks, self.resume_step = store, hooks, resume_step
        self._notify, self._progress = notify, progress
        self._stop = threading.Event()
        self._save = threading.Event()
        self._callbacks: list[Callable[[], object]] = []
        self.keep_handlers: Callable[[], object] = lambda: None
        """Called as the run proceeds: puts back the run's handlers of signals."""

    def notify(self, text: str, level: Literal["info", "warning"] = "warning") -> None:
        """Show the user a message, at once."""
        self._notify(text, level)

    def progress(self, what: str, done: int, total: int) -> None:
        """Show progress."""
        self.keep_handlers()
        self._progress(what, done, total)

    @property
    def stop(self) -> bool:
        """Whether a stop was requested."""
        return self._stop.is_set()

    def request_stop(self) -> None:
        """Request a stop, and call those that want to cancel work under way."""
        self._stop.set()
        # Signals and debuggers ask inside users' code, in whose name nothing of the run may be cancelled.
        context = make_context_of_run()
        for callback in list(self._callbacks):
            context.run(callback)

    def ensure_stop(self) -> None:
        """Request a stop unless it was requested before."""
        if not self.stop:
            self.request_stop()

    def request_save(self) -> None:
        """Request a checkpoint."""
        self._save.set()

    def take_save(self) -> bool:
        """Return whether a checkpoint was requested since the last call."""
        requested = self._save.is_set()
        self._save.clear()
        return requested

    def on_stop(self, callback: Callable[[], object]) -> None:
        """Call back, in any thread, as soon as a stop is requested; at once if it already was."""
        self._callbacks.append(callback)
        if self.stop:
            callback()


class StopSwitch:
    """Requests of another thread than the run's own, which may come before the run has a control."""

    def __init__(self) -> None:
        """Request nothing yet."""
        self._requested = False
        self._control: RunControl | None = None
        self.keep_handlers: Callable[[], object] = lambda: None
        """Not called: users' code is not in the thread of the handlers."""

    @property
    def requested(self) -> bool:
        """Whether a stop was requested."""
        return self._requested

    def connect(self, control: RunControl) -> None:
        """Pass requests on to the control of a run, an earlier one too."""
        self._control = control
        if self._requested:
            control.ensure_stop()

    def request_stop(self) -> None:
        """Request a stop, as soon as there is something to stop."""
        self._requested = True
        if self._control is not None:
            self._control.ensure_stop()

    ensure_stop = request_stop

    def request_save(self) -> None:
        """Request a checkpoint, if there is a run."""
        if self._control is not None:
            self._control.request_save()


@contextmanager
def unwind_on_sigterm() -> Iterator[None]:
    """Let SIGTERM unwind a run as Ctrl-C does until a request to stop is possible: what was started is ended in order."""
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def stop_on_signals(
    control: RunControl | StopSwitch, say: Callable[[str], None], end_by_force: Callable[[], object] | None = None
) -> Iterator[None]:
    """Turn the first Ctrl-C or SIGTERM into a request to stop; the second ends the process as usual.

    If the process has not ended some time after the second one, `end_by_force` is called, in another thread. Handlers that users'
    code has put in their place are replaced when the next episode ends.
    SIGUSR1 asks for a checkpoint at the end of the step.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: dict[int, Any] = {}
    handlers: dict[int, Any] = {}
    usual_hook = sys.unraisablehook

    @cache
    def announce() -> None:
        control.ensure_stop()
        try:
            say(STOPPING)
        except Exception:  # noqa: BLE001 - the signal may arrive inside a print or an import, which then fails a second time
            # The reader may be gone, as `tee` is after Ctrl-C.
            with suppress(OSError):
                os.write(2, f"warning: {STOPPING}\n".encode())

    def handle(number: int, frame: FrameType | None) -> None:
        for ending in ENDING:
            usual = before[ending]
            handlers[ending] = _interrupt if usual is signal.default_int_handler else usual
            signal.signal(ending, handlers[ending])
        announce()

    def save(number: int, frame: FrameType | None) -> None:
        control.request_save()

    def put_back() -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        for signal_number, handler in handlers.items():
            if signal.getsignal(signal_number) is not handler:
                signal.signal(signal_number, handler)

    def see_dropped(dropped: sys.UnraisableHookArgs) -> None:
        if issubclass(dropped.exc_type, UserInterrupt):
            # Without a lock or an object of `threading`, which the code may hold that the signal came in.
            _thread.start_new_thread(_interrupt_again, (next(one for one in ENDING if handlers[one] is _interrupt),))
        else:
            usual_hook(dropped)

    handlers |= {signal.SIGINT: handle, signal.SIGTERM: handle, signal.SIGUSR1: save}
    for number, handler in handlers.items():
        before[number] = signal.signal(number, handler)
    control.keep_handlers = put_back
    sys.unraisablehook = see_dropped
    try:
        with SignalWatch(announce, end_by_force or (lambda: None)):
            yield
    finally:
        control.keep_handlers = lambda: None
        sys.unraisablehook = usual_hook
        for signal_number, earlier in before.items():
            signal.signal(signal_number, earlier)


def call_without_loop(act: Callable[[], T], switch: StopSwitch) -> T:
    """Call here if no event loop runs in this thread, else in another thread, and return the result.

    While this thread waits for the other one, a first Ctrl-C or SIGTERM uses the switch; a second one is raised here, and the
    other thread ends alone.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return act()
    result: Future[T] = Future()
    context = contextvars.copy_context()

    def work() -> None:
        try:
            result.set_result(context.run(act))
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            result.set_exception(error)

    with stop_on_signals(switch, lambda text: print(f"warning: {text}", file=sys.stderr, flush=True)):
        threading.Thread(target=work, name="astuner-run", daemon=True).start()
        return result.result()


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise UserInterrupt


def _interrupt_again(number: int) -> None:
    """Send a signal again whose exception Python dropped, as in a callback of a weak reference, once that has returned."""
    time.sleep(AGAIN_AFTER_S)
    os.kill(os.getpid(), number)
