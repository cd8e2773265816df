"""The owner of this process's terminal: one debugger at a time, and live displays only when there is none."""

from __future__ import annotations

import threading
from typing import Protocol

LOOK_AGAIN_S = 0.5
"""Interval at which a waiting debugger checks whether the other's thread has ended."""


class Display(Protocol):
    """Something that draws on the terminal at any time."""

    def pause(self) -> None:
        """Draw nothing until `resume`."""

    def resume(self) -> None:
        """Draw again, including what arrived meanwhile."""


class Session(Protocol):
    """A debugger from its first prompt until it continues."""

    @property
    def thread(self) -> threading.Thread:
        """The thread of its prompt."""

    @property
    def place(self) -> str | None:
        """The code it stopped; see `stopping.name_place`."""


class Terminal:
    """One per process, since there is one terminal."""

    def __init__(self) -> None:
        """Start without an owner."""
        self._changed = threading.Condition()
        self._sessions: list[Session] = []
        self._displays: list[Display] = []
        self._prompting: Session | None = None

    def add(self, display: Display) -> None:
        """Register a display, to be paused while a debugger has the terminal."""
        self._displays.append(display)

    def remove(self, display: Display) -> None:
        """Unregister a display; does nothing if it was never added."""
        self._displays = [one for one in self._displays if one is not display]

    def take(self, session: Session) -> bool:
        """Wait until no debugger of another thread has the terminal; return whether the session is new.

        Within a thread, a debugger that stops while another one is between prompts goes first, else both would block.
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
        """Set the prompting session; return whether it changed."""
        changed, self._prompting = self._prompting is not session, session
        return changed

    def give_back(self, session: Session) -> None:
        """Release the terminal for the next session."""
        self._keep([one for one in self._sessions if one is not session])

    def leave(self, place: str) -> None:
        """End the sessions of a finished place."""
        if self._sessions:
            self._keep([one for one in self._sessions if one.place != place])

    def find_latest(self, thread: threading.Thread) -> Session | None:
        """Return the latest open session of a thread."""
        return next((one for one in reversed(self._sessions) if one.thread is thread), None)

    @property
    def in_use(self) -> bool:
        """Whether a debugger has the terminal."""
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
