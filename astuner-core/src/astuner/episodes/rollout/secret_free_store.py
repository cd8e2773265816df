"""The store of a run's episodes, with the secrets of its configuration taken out of what failed parts said."""

from __future__ import annotations

from typing import Any

from attrs import asdict, evolve

from astuner.contract.protocols import EpisodeStore, RunInfo
from astuner.contract.schema import Episode, Failure, Group, Unjudged
from astuner.settings.config.places import ROOT
from astuner.settings.config.secrets import Secrets
from astuner.settings.config.structuring import get_converter


class SecretFreeStore:
    """Passes everything on; the texts of failures are those of the user's code, which may quote its options.

    What was said in an episode stays as it is.
    """

    def __init__(self, store: EpisodeStore, run_info: RunInfo) -> None:
        """Put itself before `store`."""
        self._store = store
        tree = {ROOT: get_converter().unstructure(run_info.config)}
        self._secrets = Secrets.of(tree, run_info.native, from_environment=run_info.from_environment)

    def recall(self, identity: str) -> Episode | None:
        """Return a finished episode of an earlier attempt."""
        return self._store.recall(identity)

    def add_episode(self, episode: Episode) -> None:
        """Store a finished episode."""
        self._store.add_episode(self._clean(episode))

    def add_encoded(self, episode: Episode, line: bytes) -> None:
        """Store a finished episode; its line may hold secrets."""
        self.add_episode(episode)

    def add_verdicts(self, group: Group) -> None:
        """Store the verdicts on a group."""
        self._store.add_verdicts(group.with_played(map(self._clean, group.played)))

    def sync(self) -> None:
        """Make everything so far survive a crash of the machine."""
        self._store.sync()

    def _clean(self, episode: Episode) -> Episode:
        verdict = episode.verdict
        if not episode.failures and not isinstance(verdict, Unjudged):
            return episode
        failures = tuple(evolve(failure, **self._hide(failure)) for failure in episode.failures)
        if isinstance(verdict, Unjudged):
            verdict = evolve(verdict, **self._hide(verdict))
        return evolve(episode, failures=failures, verdict=verdict)

    def _hide(self, said: Failure | Unjudged) -> dict[str, Any]:
        """Return every text of a record without the secrets."""
        texts = asdict(said, recurse=False)
        return {name: self._secrets.hide(text) for name, text in texts.items() if isinstance(text, str)}
