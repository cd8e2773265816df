"""Who has this process's terminal: one debugger at a time, and live displays only when there is none."""

from __future__ import annotations

import threading
from typing import Protocol

from astuner.breakpoints.stopping import TERMINAL, Terminal

LOOK_AGAIN_S = 0.5
"""Interval at which a waiting debugger checks whether the other's thread has ended."""


class Session(Protocol):
    """A debugger from its first prompt until it continues."""

    @property
    def thread(self) -> threading.Thread:
        """The thread of its prompt."""

    @property
    def place(self) -> str | None:
        """The code it stopped; see `astuner.breakpoints.stopping.name_place`."""


class Sessions:
    """The open debuggers of a terminal."""

    def __init__(self, terminal: Terminal) -> None:
        """Take over the terminal, without a session."""
        self._terminal = terminal
        self._changed = threading.Condition()
        self._open: list[Session] = []
        self._prompting: Session | None = None
        terminal.leave, terminal.is_in_use = self.leave, lambda: bool(self._open)

    def take(self, session: Session) -> bool:
        """Wait until no debugger of another thread has the terminal; return whether the session is new.

        Within a thread, a debugger that stops while another one is between prompts goes first, else both would block.
        """
        with self._changed:
            if session in self._open:
                return False
            while any(one.thread is not session.thread and one.thread.is_alive() for one in self._open):
                self._changed.wait(LOOK_AGAIN_S)
            if not self._open:
                for display in self._terminal.displays:
                    display.pause()
            self._open.append(session)
            return True

    def hand_to(self, session: Session) -> bool:
        """Set the prompting session; return whether it changed."""
        changed, self._prompting = self._prompting is not session, session
        return changed

    def give_back(self, session: Session) -> None:
        """Release the terminal for the next session."""
        self._keep([one for one in self._open if one is not session])

    def leave(self, place: str) -> None:
        """End the sessions of a finished place."""
        if self._open:
            self._keep([one for one in self._open if one.place != place])

    def find_latest(self, thread: threading.Thread) -> Session | None:
        """Return the latest open session of a thread."""
        return next((one for one in reversed(self._open) if one.thread is thread), None)

    def _keep(self, sessions: list[Session]) -> None:
        with self._changed:
            ended = bool(self._open) and not sessions
            self._open = sessions
            if ended:
                self._prompting = None
                for display in self._terminal.displays:
                    display.resume()
            self._changed.notify_all()


SESSIONS = Sessions(TERMINAL)
