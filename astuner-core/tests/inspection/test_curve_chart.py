"""Curves as text: shared axes, gaps that hold their value, panels that wrap."""

from __future__ import annotations

from astuner.runs.inspection.curve_chart import draw_curves


def test_panels_share_their_axes():
    drawn = draw_curves(["a", "b"], [[(1, 0.0), (3, 2.0)], [(2, 1.0)]], width=60).splitlines()
    assert len(drawn) == 8
    assert [line[:3] for line in (drawn[1], drawn[6])] == ["2 |", "0 |"]
    left, right = (drawn[line].split("|")[2] for line in (3, 4))
    # Half as high, from the middle on.
    assert (left.strip(), set(right.strip())) == ("", {"█"})
    assert right.startswith(" " * 12)


def test_a_curve_holds_its_value_until_the_next_point_and_ends_with_the_last():
    bars = draw_curves(["a", "b"], [[(0, 1.0), (1, 1.0)], [(3, 1.0)]], width=60).splitlines()[6]
    assert bars.split("|")[1].rstrip() == "█" * 10


def test_values_below_zero_have_an_axis_of_their_own():
    drawn = draw_curves(["a"], [[(0, -1.0), (1, 1.0)]], width=40).splitlines()
    assert (drawn[1][:4], drawn[6][:5]) == (" 1 |", "-1 |▁")


def test_curves_that_never_move_lie_on_the_axis():
    drawn = draw_curves(["a"], [[(0, 0.0), (9, 0.0)]], width=40).splitlines()
    assert {*drawn[6].split("|")[1]} == {"▁"}
    assert drawn[5].split("|")[1] == ""


def test_panels_that_do_not_fit_are_below_and_long_names_keep_their_end():
    drawn = draw_curves(["first", f"{'long' * 20}/end"], [[(0, 1.0)], [(0, 1.0)]], width=40).splitlines()
    assert len(drawn) == 16
    assert drawn[0].split() == ["first"]
    assert drawn[8].strip().startswith("…")
    assert drawn[8].endswith("/end")
    assert max(map(len, drawn)) <= 40


def test_without_points_there_is_nothing_to_draw():
    assert draw_curves(["a"], [[]], width=40) == ""
