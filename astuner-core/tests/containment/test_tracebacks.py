from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest

from astuner.episodes.containment.contained_call import capture
from astuner.episodes.containment.endings import describe_raised
from astuner.episodes.containment.tracebacks import LONGEST, locate_error

HERE = Path(__file__).name


def parse(text):
    return json.loads(text)


async def raise_in_library():
    parse("{")


async def raise_from():
    try:
        parse("{")
    except ValueError as error:
        raise RuntimeError("no answer") from error


async def exit_here():
    raise SystemExit(2)


class Hostile(Exception):
    def __str__(self):
        raise RuntimeError("no text")


async def raise_hostile():
    raise Hostile


async def recurse():
    await recurse()


async def raise_much():
    raise ValueError("x" * 100_000)


def catch(work):
    error = asyncio.run(capture(work)).error
    assert error is not None
    return error


def test_the_place_is_the_innermost_one_of_the_users_own_files():
    error = catch(raise_in_library)
    at = locate_error(error)
    assert re.search(rf"{HERE}:\d+ in parse$", at.place)
    assert describe_raised(error).endswith(f"({at.place})")


def test_the_traceback_begins_with_the_users_code_and_ends_with_the_error():
    found = locate_error(catch(raise_in_library)).traceback.splitlines()
    assert found[0] == "Traceback (most recent call last):"
    assert found[1].endswith("in raise_in_library")
    assert found[-1].startswith("json.decoder.JSONDecodeError: Expecting property name")


def test_the_cause_is_part_of_the_traceback():
    found = locate_error(catch(raise_from)).traceback
    assert "JSONDecodeError" in found
    assert "The above exception was the direct cause" in found
    assert "contained_call.py" not in found


def test_what_exits_has_a_traceback_too():
    at = locate_error(catch(exit_here))
    assert at.place.endswith("in exit_here")
    assert at.traceback.endswith("SystemExit: 2")


@pytest.mark.parametrize("work", [raise_hostile, recurse, raise_much])
def test_no_traceback_is_long_and_none_raises(work):
    found = locate_error(catch(work)).traceback
    assert found
    assert len(found) < LONGEST + 100


def test_an_error_of_no_users_code_has_no_place():
    assert locate_error(ValueError("x")).place == ""
