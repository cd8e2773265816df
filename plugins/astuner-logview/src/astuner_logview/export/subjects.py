"""What is exported: a group or an episode of a run."""

from __future__ import annotations

import re
from urllib.parse import quote, quote_plus

from attrs import frozen

from astuner.contract.errors import UsageError


@frozen(kw_only=True)
class GroupSubject:
    """All siblings of a task in a step."""

    run: str
    split: str
    step: int
    task: str

    @property
    def page(self) -> str:
        """The address of its page."""
        return f"#/r/{encode(self.run)}/g/{encode(self.split)}/{self.step}/{encode(self.task)}"

    @property
    def answer(self) -> str:
        """The address of its answer."""
        return make_address([self.run, "group"], split=self.split, step=self.step, task=self.task)

    @property
    def file_name(self) -> str:
        """A name for the file, without its suffix."""
        return make_file_name(f"group-{self.split}-{self.step}-{self.task}")


@frozen(kw_only=True)
class EpisodeSubject:
    """One episode."""

    run: str
    id: str

    @property
    def page(self) -> str:
        """The address of its page."""
        return f"#/r/{encode(self.run)}/e/{encode(self.id)}"

    @property
    def answer(self) -> str:
        """The address of its answer."""
        return make_address([self.run, "episode"], id=self.id)

    @property
    def file_name(self) -> str:
        """A name for the file, without its suffix."""
        return make_file_name(f"episode-{self.id}")


Subject = GroupSubject | EpisodeSubject


def parse_group(run: str, text: str) -> GroupSubject:
    """Return the group that `SPLIT/STEP/TASK` names; raises `UsageError`."""
    split, _, rest = text.partition("/")
    step, _, task = rest.partition("/")
    if not task or not re.fullmatch(r"[0-9]{1,15}", step):
        raise UsageError(f"--group {text[:200]!r} does not name a group: write SPLIT/STEP/TASK, for example train/12/task-3")
    return GroupSubject(run=run, split=split, step=int(step), task=task)


def make_address(parts: list[str], **values: str | int | None) -> str:
    """Return the address of an answer about a run, exactly as the pages write it; values that are None are left out."""
    query = "&".join(f"{key}={_encode_value(str(value))}" for key, value in values.items() if value not in (None, ""))
    return "api/runs/" + "/".join(map(encode, parts)) + (f"?{query}" if query else "")


def encode(text: str) -> str:
    """Encode a part of a path as JavaScript's `encodeURIComponent` does."""
    return quote(_mend(text), safe="!~*'()")


def make_file_name(text: str) -> str:
    """Return a text as a file name of at most 120 ASCII characters."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.")[:120] or "export"


def _encode_value(text: str) -> str:
    """Encode a value of a query as JavaScript's `URLSearchParams` does."""
    return quote_plus(_mend(text), safe="*").replace("~", "%7E")


def _mend(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
