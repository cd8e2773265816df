"""Which weights a server serves, as it labels them and as we count them."""

from __future__ import annotations

from secrets import token_hex

from attrs import define, field, frozen

from astuner_vllm.failures import BadAnswer


@define(eq=False)
class Versions:
    """The labels under which a server has served weights, and the version that each of them is to us.

    Our labels name their run by a random part, so that the weights of another run are noticed.
    """

    version: int = 0
    """What is served."""
    exchanges: int = field(default=0, init=False)
    """How often an exchange was begun."""
    exchanging: bool = field(default=False, init=False)
    """Whether one is under way."""
    _run: str = field(factory=lambda: token_hex(4))
    _known: dict[str, int] = field(factory=dict)

    def begin_with(self, label: str) -> None:
        """Take what a server serves when it is first met as version 0."""
        self._known[label] = 0

    def assign_label(self, version: int) -> str:
        """Return the label for weights that are to be served."""
        label = f"{self._run}.{version}"
        self._known[label] = version
        return label

    def resolve(self, label: str, where: str) -> int:
        """Return the version that a label stands for; raises `BadAnswer` for weights that are not ours."""
        version = self._known.get(label)
        if version is None:
            raise BadAnswer(f"{where} answered with weights '{label}', which this run did not give it; does another run use it?")
        return version

    def begin_exchange(self) -> None:
        """From now on it is open which weights sample the tokens of requests under way."""
        self.exchanges += 1
        self.exchanging = True

    def end_exchange(self) -> None:
        """What is sent from now on is sampled by the weights of `version`."""
        self.exchanging = False

    def mark(self) -> Mark:
        """Return what is known of the weights that sample a request which is sent now."""
        return Mark(versions=self, version=self.version, exchanges=None if self.exchanging else self.exchanges)


@frozen(kw_only=True, eq=False)
class Mark:
    """The weights at a moment."""

    versions: Versions
    version: int
    exchanges: int | None
    """None in the middle of an exchange."""

    @property
    def holds(self) -> bool:
        """Whether they are certain: no exchange was under way, and none was begun since."""
        return self.versions.exchanges == self.exchanges
