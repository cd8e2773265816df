"""Who has the terminal of this process: debuggers one after the other, and what is displayed on it only when none has."""

from __future__ import annotations

import threading
from typing import Protocol

LOOK_AGAIN_S = 0.5
"""How often one that waits looks whether the thread of the other has ended."""


class Display(Protocol):
    """Something that draws on the terminal at any time."""

    def pause(self) -> None:
        """Draw nothing until `resume`."""
        ...

    def resume(self) -> None:
        """Draw again, with what came meanwhile."""
        ...


class Session(Protocol):
    """A debugger from its first prompt until it is told to go on."""

    @property
    def thread(self) -> threading.Thread:
        """Where its prompt is."""
        ...

    @property
    def place(self) -> str | None:
        """Whose code it stopped; see `places.during`."""
        ...


class Terminal:
    """One per process, since there is one terminal."""

    def __init__(self) -> None:
        """Nobody has it."""
        self._changed = threading.Condition()
        self._sessions: list[Session] = []
        self._displays: list[Display] = []
        self._prompting: Session | None = None

    def add(self, display: Display) -> None:
        """Pause a display from now on while a debugger has the terminal."""
        self._displays.append(display)

    def remove(self, display: Display) -> None:
        """Leave a display alone again; one that was never added is no matter."""
        self._displays = [one for one in self._displays if one is not display]

    def take(self, session: Session) -> bool:
        """Wait until no debugger of another thread has the terminal; whether the session did not have it before.

        In one thread a debugger that stops while another one is between two prompts goes first: nobody else could go on.
        """
        with self._changed:
            if session in self._sessions:
                return False
            while any(one.thread is not session.thread and one.thread.is_alive() for one in self._sessions):
                self._changed.wait(LOOK_AGAIN_S)
            if not self._sessions:
                for display in self._displays:
                    display.pause()
            self._sessions.append(session)
            return True

    def hand_to(self, session: Session) -> bool:
        """Note whose prompt comes next; whether it was another one's before."""
        changed, self._prompting = self._prompting is not session, session
        return changed

    def give_back(self, session: Session) -> None:
        """Let the next one have it."""
        self._keep([one for one in self._sessions if one is not session])

    def leave(self, place: str) -> None:
        """End the sessions of a place that is over."""
        if self._sessions:
            self._keep([one for one in self._sessions if one.place != place])

    def find_latest(self, thread: threading.Thread) -> Session | None:
        """Return the session of a thread that began last, of those that have not ended."""
        return next((one for one in reversed(self._sessions) if one.thread is thread), None)

    @property
    def in_use(self) -> bool:
        """Whether a debugger has it."""
        return bool(self._sessions)

    def _keep(self, sessions: list[Session]) -> None:
        with self._changed:
            ended = bool(self._sessions) and not sessions
            self._sessions = sessions
            if ended:
                self._prompting = None
                for display in self._displays:
                    display.resume()
            self._changed.notify_all()


TERMINAL = Terminal()
