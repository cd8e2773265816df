"""Why held-out demonstrations fit worse than trained ones: which tokens are wrong, where, and what would teach them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from attrs import frozen

from astuner.contract.protocols import WarmStartResult
from astuner.contract.schema import Sample

if TYPE_CHECKING:
    from astuner_tools.demonstrations.recording import RecordedDemonstration

FAR = 2.0
"""A held-out loss of more than this many times the trained one is reported."""
MOST_TOKENS = 3
"""Wrong tokens that are named."""
SHOWN = 12
"""Tokens before a wrong one that are shown."""
CONTEXT = 3
"""Tokens before a place that make it the same place in another demonstration."""
ENOUGH = "about a thousand"
"""How many different values teach a tiny model to repeat new ones; 300 do not yet (`benchmarks/repeats.py`)."""

Decode = Callable[[Sequence[int]], str]


@frozen(kw_only=True)
class _Wrong:
    """One trained token of a held-out demonstration, and what the model would write instead."""

    demonstration: str
    sample: Sample
    place: int
    chosen: int

    @property
    def token(self) -> int:
        return int(self.sample.ids[self.place])

    @property
    def is_repeat(self) -> bool:
        """Whether the prompt has the token."""
        before = self.sample.ids[: self.place]
        return bool((before[~self.sample.mask[: self.place]] == self.token).any())

    @property
    def context(self) -> tuple[int, ...]:
        return tuple(self.sample.ids[max(0, self.place - CONTEXT) : self.place].tolist())


def explain_gap(
    result: WarmStartResult,
    trained: Sequence[RecordedDemonstration],
    held_out: Sequence[RecordedDemonstration],
    decode: Decode,
) -> Iterator[str]:
    """Yield lines of a warning if the held-out loss is far above the trained one; none if every held-out token is right."""
    fits = result.after
    if "held out" not in fits or fits["held out"].loss <= FAR * fits["trained"].loss or fits["held out"].accuracy == 1:
        return
    own, other = fits["trained"].loss, fits["held out"].loss
    yield (
        f"warning: the loss of held-out demonstrations, {other:.3f}, is {other / max(own, 1e-9):.1f} times that of trained ones, "
        f"{own:.3f}: part of what was trained is remembered and does not carry over to new tasks"
    )
    measured = [(one.demonstration.place, sample) for one in held_out for sample in one.samples if sample.trained]
    wrong = [
        _Wrong(demonstration=measured[miss.sample][0], sample=measured[miss.sample][1], place=miss.place, chosen=miss.chosen)
        for miss in fits["held out"].misses
    ]
    for token, count in Counter(one.token for one in wrong).most_common(MOST_TOKENS):
        own_misses = [one for one in wrong if one.token == token]
        yield f"  {_describe(own_misses, count, _count_tokens(measured, token), decode)}"
    repeats = [one for one in wrong if one.is_repeat]
    if repeats:
        yield f"  {_advise(repeats, trained, decode)}"
    elif wrong:
        yield "  add demonstrations that differ there, or train fewer epochs (--epochs)"


def _describe(wrong: Sequence[_Wrong], count: int, total: int, decode: Decode) -> str:
    one = wrong[0]
    chosen = Counter(miss.chosen for miss in wrong).most_common(1)[0][0]
    before = decode(one.sample.ids[max(0, one.place - SHOWN) : one.place].tolist())
    return (
        f"{decode([one.token])!r} is wrong in {count} of {total} places ({decode([chosen])!r} instead), first in "
        f"{one.demonstration}, after {before!r}"
    )


def _advise(repeats: Sequence[_Wrong], trained: Sequence[RecordedDemonstration], decode: Decode) -> str:
    """Return how many different tokens the trained demonstrations have at the place where most repeats go wrong."""
    context, count = Counter(one.context for one in repeats).most_common(1)[0]
    values = _count_values(trained, context)
    return (
        f"{count} of the wrong tokens repeat the prompt after {decode(list(context))!r}, where the trained demonstrations have "
        f"{values} different token{'s' * (values != 1)}: repeating is learnt from variety, not from passes. Add demonstrations "
        f"with other values there; a tiny model needs {ENOUGH}"
    )


def _count_values(trained: Sequence[RecordedDemonstration], context: tuple[int, ...]) -> int:
    found: set[int] = set()
    for sample in (sample for one in trained for sample in one.samples):
        ids, width = sample.ids.tolist(), len(context)
        places = (place for place, learnt in enumerate(sample.mask) if learnt and place >= width)
        found |= {ids[place] for place in places if tuple(ids[place - width : place]) == context}
    return len(found)


def _count_tokens(measured: Sequence[tuple[str, Sample]], token: int) -> int:
    return sum(int((sample.ids[sample.mask] == token).sum()) for _, sample in measured)
