"""What changed since a run was last started, besides keys of its user: refused for tasks and model, reported for code."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal, get_args

from attrs import frozen

from astuner.contract.errors import UsageError
from astuner.runs.store.fingerprints import compare_fingerprints

Kind = Literal["data", "model", "code", "defaults"]
KINDS: tuple[Kind, ...] = get_args(Kind)

_NOUNS = {"train": "training", "validation": "validation"}


@frozen(kw_only=True)
class SourceChanges:
    """What is another one than at the last start, by kind, each a text that names the place."""

    data: tuple[str, ...] = ()
    model: tuple[str, ...] = ()
    code: tuple[str, ...] = ()
    defaults: tuple[str, ...] = ()
    """Of keys that nobody set, which another version has changed."""
    versions: tuple[str, ...] = ()
    """Of packages."""
    rewritten: tuple[str, ...] = ()
    """Files with another content and the same tasks."""

    def find(self, kind: Kind) -> tuple[str, ...]:
        """Return the changes of a kind."""
        found: tuple[str, ...] = getattr(self, kind)
        return found

    def check_accepted(self, run: str, accepted: Collection[str]) -> None:
        """Raise `UsageError` if tasks or model have changed and that is not accepted."""
        reasons = {
            "data": "it would go on with other tasks than it began with",
            "model": "its weights, or its reference, began as another model",
        }
        refused = [kind for kind in reasons if self.find(kind) and kind not in accepted]  # type: ignore[arg-type]  # keys of reasons
        if refused:
            lines = [f"{text}; {reasons[kind]}" for kind in refused for text in self.find(kind)]  # type: ignore[arg-type]
            flags = " ".join(f"--accept-changes {kind}" for kind in refused)
            raise UsageError(
                "\n".join(lines) + f"\n{run} is not resumed: put back what changed, or start a new run with another "
                f"experiment_name. With {flags} it is resumed as things are now: episodes that are stored after its checkpoint "
                "are not used, but played again"
            )


def find_changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> SourceChanges:
    """Compare two contents of `run.json`; what the older one does not have, as that of an older version, is not compared."""
    then, here = before.get("sources") or {}, now["sources"]
    files = _compare(then, here, "data", "files")
    revisions = [
        f"{name}: was {old} and is {here['data']['revisions'][name]}"
        for name, old in (then.get("data") or {}).get("revisions", {}).items()
        if here["data"]["revisions"].get(name, old) != old
    ]
    tasks = [text for split in ("train", "validation") if (text := _compare_tasks(then, here, split))]
    where = [*(f"{name} {what}" for name, what in files.items()), *revisions]
    versions = [*_compare_versions(before, now), *([] if tasks else revisions)]
    return SourceChanges(
        data=(*where, *tasks) if tasks else (),
        model=tuple(
            f"{'the model' if part == 'model' else 'the base of the model'}: {name} {what}"
            for part in (then.get("model") or {}).keys() & here["model"].keys()
            for name, what in _compare(then, here, "model", part).items()
        ),
        code=tuple(f"{name} {what}" for name, what in _compare(then, here, "code").items()),
        versions=tuple(versions),
        rewritten=() if tasks else tuple(files),
    )


def _compare(then: Mapping[str, Any], here: Mapping[str, Any], *path: str) -> dict[str, str]:
    old, new = then, here
    for part in path:
        if part not in old:
            return {}
        old, new = old[part], new[part]
    return compare_fingerprints(old, new)


def _compare_tasks(then: Mapping[str, Any], here: Mapping[str, Any], split: str) -> str | None:
    old, new = (then.get("data") or {}).get(split), here["data"][split]
    if old is None or old["content"] == new["content"]:
        return None
    noun = f"the {_NOUNS[split]} tasks"
    if old["tasks"] != new["tasks"]:
        return f"{noun} were {old['tasks']:,} and are {new['tasks']:,}"
    if old["unordered"] == new["unordered"]:
        return f"{noun} are the same in another order"
    return (
        f"{noun} have the same ids and another content" if old["ids"] == new["ids"] else f"{noun} are others, as many as before"
    )


def _compare_versions(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    old = {**before.get("versions", {}), **{row["distribution"]: row["version"] for row in before.get("plugins", ())}}
    new = {**now["versions"], **{row["distribution"]: row["version"] for row in now["plugins"]}}
    return [f"{name} was {old[name]} and is {new[name]}" for name in sorted(old.keys() & new.keys()) if old[name] != new[name]]
