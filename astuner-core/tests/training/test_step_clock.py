from __future__ import annotations

from attrs import define

from astuner.runs.training.step_clock import StepClock


@define
class Seconds:
    """A clock that stands still until it is moved."""

    at: float = 0.0

    def __call__(self) -> float:
        return self.at


def play(clock: StepClock, seconds: Seconds, step: int, took: float) -> None:
    with clock.rollout(step):
        seconds.at += took


def test_a_step_that_is_played_and_then_trained_takes_the_sum_of_both():
    seconds = Seconds(at=100.0)
    clock = StepClock(seconds)
    play(clock, seconds, 1, 5.0)
    clock.begin_update()
    seconds.at += 2.0
    clock.end_update()
    seconds.at += 0.5
    assert clock.take(1) == {"time/rollout_s": 5.0, "time/update_s": 2.5, "time/step_s": 7.5}


def overlap(updates: list[float]) -> list[dict[str, float]]:
    """The times of three steps of 5 s play, whose updates take this long while the next one is played."""
    seconds = Seconds()
    clock = StepClock(seconds)
    play(clock, seconds, 1, 5.0)
    found = []
    for step, took in enumerate(updates, 1):
        clock.begin_update()
        began = seconds.at
        if step < len(updates):
            play(clock, seconds, step + 1, 5.0)
        played = seconds.at
        seconds.at = began + took
        clock.end_update()
        seconds.at = max(played, seconds.at)
        found.append(clock.take(step))
    return found


def test_an_update_hidden_behind_the_next_rollout_costs_no_time_of_its_own():
    assert overlap([2.0, 2.0, 2.0]) == [
        {"time/rollout_s": 5.0, "time/update_s": 2.0, "time/step_s": 5.0},
        {"time/rollout_s": 5.0, "time/update_s": 2.0, "time/step_s": 5.0},
        {"time/rollout_s": 5.0, "time/update_s": 2.0, "time/step_s": 7.0},
    ]


def test_of_an_update_longer_than_the_next_rollout_the_rest_is_time_of_the_step():
    assert overlap([8.0, 2.0]) == [
        {"time/rollout_s": 5.0, "time/update_s": 8.0, "time/step_s": 8.0},
        {"time/rollout_s": 5.0, "time/update_s": 2.0, "time/step_s": 7.0},
    ]
