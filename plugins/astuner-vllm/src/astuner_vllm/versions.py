"""The weights of a server: its labels and our version numbers."""

from __future__ import annotations

from secrets import token_hex

from attrs import define, field, frozen

from astuner_vllm.failures import BadAnswer


@define(eq=False)
class Versions:
    """The labels of the weights that a server has served, and the version of each.

    Our labels name their run by a random part, so that the weights of another run are noticed.
    """

    version: int = 0
    """The label being served."""
    exchanges: int = field(default=0, init=False)
    """The number of exchanges started."""
    exchanging: bool = field(default=False, init=False)
    """Whether an exchange is under way."""
    _run: str = field(factory=lambda: token_hex(4))
    _known: dict[str, int] = field(factory=dict)

    def begin_with(self, label: str) -> None:
        """Treat a server's weights at the first contact as version 0."""
        self._known[label] = 0

    def take(self, label: str, version: int) -> None:
        """Treat the weights of a label, which the server serves now, as this version."""
        self._known[label] = version
        self.version = version

    @property
    def label(self) -> str:
        """The label of the weights that are served."""
        return next(label for label, version in reversed(self._known.items()) if version == self.version)

    def assign_label(self, version: int) -> str:
        """Return the label for new weights."""
        label = f"{self._run}.{version}"
        self._known[label] = version
        return label

    def resolve(self, label: str, where: str) -> int:
        """Return the version of a label; raises `BadAnswer` for weights that are not ours."""
        version = self._known.get(label)
        if version is None:
            raise BadAnswer(f"{where} answered with weights '{label}', which this run did not give it; does another run use it?")
        return version

    def begin_exchange(self) -> None:
        """From now on it is unknown which weights sample the tokens of requests under way."""
        self.exchanges += 1
        self.exchanging = True

    def end_exchange(self) -> None:
        """Later requests are sampled by the weights of `version`."""
        self.exchanging = False

    def mark(self) -> Mark:
        """Return what is known of the weights for a request sent now."""
        return Mark(versions=self, version=self.version, exchanges=None if self.exchanging else self.exchanges)


@frozen(kw_only=True, eq=False)
class Mark:
    """The weights at one moment."""

    versions: Versions
    version: int
    exchanges: int | None
    """None during an exchange."""

    @property
    def holds(self) -> bool:
        """Whether they are certain: no exchange was under way, and none has started since."""
        return self.versions.exchanges == self.exchanges
