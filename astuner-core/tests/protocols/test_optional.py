"""What a component may offer is found by the attributes that it has."""

from __future__ import annotations

from typing import Any

import pytest

from astuner.contract.protocols import optional
from astuner.contract.protocols.optional import HasAlignment, MeasuresBusyTime, ReportsProgress, find_offer, find_options_class


class Busy:
    busy_s = 1.5

    def report_to(self, say: Any) -> None:
        say("starting", "info")


class Wrapper:
    def __init__(self, inner: object) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def test_a_component_with_the_attribute_makes_the_offer():
    offer = find_offer(Busy(), MeasuresBusyTime)
    assert offer is not None
    assert offer.busy_s == 1.5


def test_a_component_without_it_makes_none():
    assert find_offer(Busy(), HasAlignment) is None


def test_a_class_makes_offers_too():
    class Aligned:
        alignment = "table"

    assert find_offer(Aligned, HasAlignment) is Aligned


def test_a_wrapper_offers_what_it_wraps():
    assert find_offer(Wrapper(Busy()), ReportsProgress) is not None


@pytest.mark.parametrize("value", [None, "not a method"])
def test_what_cannot_be_called_is_no_method(value: object):
    broken = Busy()
    broken.report_to = value  # type: ignore[assignment, method-assign]
    assert find_offer(broken, ReportsProgress) is None


def test_an_attribute_of_none_counts_as_missing():
    class Unaligned:
        alignment = None

    assert find_offer(Unaligned, HasAlignment) is None


def test_options_are_found_on_the_class():
    class Plain:
        Options = int

    assert find_options_class(Plain) is int
    assert find_options_class(Busy) is None


@pytest.mark.parametrize("name", [name for name, value in vars(optional).items() if getattr(value, "_is_protocol", False)])
def test_nothing_offers_what_it_does_not_have(name: str):
    if name != "Protocol":
        assert find_offer(object(), vars(optional)[name]) is None
