"""The worlds as games: what is right, what is wrong, and which tasks there are."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from astuner.contract.errors import DataError
from astuner.contract.schema import Task, WorkflowTask
from astuner_envs.arithmetic import evaluate
from astuner_envs.listing import SPLITS
from astuner_envs.message_answers import extract_answer
from astuner_envs.worlds.calculator import Calculator, make_sum
from astuner_envs.worlds.countdown import CLOSE_SCORE, Countdown, make_puzzle
from astuner_envs.worlds.frozen_lake import MOVES, FrozenLake, make_lake


def play(world: type[Any], options: Any, answers: Any, task_id: str = "train-0") -> tuple[list[Any], float, float]:
    """Return what came of each answer, and the score, dense and sparse; answers are texts or whole messages."""

    async def whole() -> tuple[list[Any], float, float]:
        environment = world(WorkflowTask(Task(task_id=task_id)), options)
        await environment.reset()
        messages = [{"role": "assistant", "content": one} if isinstance(one, str) else one for one in answers]
        steps = [await environment.step(message) for message in messages]
        return steps, await environment.evaluate(), await environment.evaluate(sparse=True)

    return asyncio.run(whole())


def make_call(expression: Any, name: str = "calculate") -> dict[str, Any]:
    arguments = json.dumps({"expression": expression})
    return {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "function": {"name": name, "arguments": arguments}}]}


@pytest.mark.parametrize(
    "options", [Countdown.Options(), Countdown.Options(numbers=3, use_all=True), Countdown.Options(numbers=6, seed=9)]
)
def test_every_countdown_can_be_solved(options):
    for split in SPLITS:
        for number in range(50):
            puzzle = make_puzzle(f"{split}-{number}", options)
            value = evaluate(puzzle.solution)
            assert (value.number, sorted(value.used)) == (puzzle.target, sorted(puzzle.numbers))
            assert 10 <= puzzle.target <= options.largest_target


def test_the_solution_scores_one():
    options = Countdown.Options()
    solution = make_puzzle("train-0", options).solution
    steps, score, sparse = play(Countdown, options, [f"I think it is \\boxed{{{solution}}}"])
    assert (score, sparse, steps[0][1], steps[0][2], steps[0][3]["is_success"]) == (1.0, 1.0, 1.0, True, True)


def test_a_miss_scores_a_little_and_may_be_mended():
    options = Countdown.Options()
    puzzle = make_puzzle("train-0", options)
    steps, score, sparse = play(Countdown, options, [f"{puzzle.numbers[0]}", puzzle.solution])
    assert [step[1] for step in steps] == [CLOSE_SCORE, 1.0 - CLOSE_SCORE]
    assert [step[2] for step in steps] == [False, True]
    assert (score, sparse) == (1.0, 1.0)
    assert "Attempts left: 2." in steps[0][0][0]["content"]


def test_the_score_of_a_miss_tells_dense_from_sparse():
    options = Countdown.Options()
    _, score, sparse = play(Countdown, options, [f"{make_puzzle('train-0', options).numbers[0]}"])
    assert (score, sparse) == (CLOSE_SCORE, 0.0)


def test_the_attempts_are_limited():
    steps, score, _ = play(Countdown, Countdown.Options(attempts=2), ["nothing", "nothing at all"])
    assert [step[2] for step in steps] == [False, True]
    assert score == 0.0


@pytest.mark.parametrize(
    "wrong", ["{target}", "{target} + 0", "{first} + {first} + {first} + {first}", "{first} * 1.0", "9 ** 2"]
)
def test_other_numbers_than_those_given_do_not_count(wrong):
    options = Countdown.Options()
    puzzle = make_puzzle("train-0", options)
    steps, score, _ = play(Countdown, options, [wrong.format(target=puzzle.target, first=puzzle.numbers[0])])
    assert "does not count" in steps[0][0][0]["content"]
    assert score == 0.0


def test_a_number_that_is_left_out_does_not_count_where_all_have_to_be_used():
    options = Countdown.Options(use_all=True)
    steps, _, _ = play(Countdown, options, [str(make_puzzle("train-0", options).numbers[0])])
    assert "is not used" in steps[0][0][0]["content"]


def contents(options: Any, world: str, split: str) -> list[Any]:
    size = options.training_tasks if split == "train" else options.validation_tasks
    made = {"countdown": make_puzzle, "calculator": make_sum, "frozen_lake": lambda *given: make_lake(*given)[0]}[world]
    found = [made(f"{split}-{number}", options) for number in range(size)]
    return [(sorted(one.numbers), one.target) if world == "countdown" else one for one in found]


@pytest.mark.parametrize(
    ("world", "options"),
    [
        ("countdown", Countdown.Options(numbers=2, largest=12, training_tasks=300)),
        ("calculator", Calculator.Options(terms=2, largest=9, training_tasks=300)),
        ("frozen_lake", FrozenLake.Options(size=3, training_tasks=200, validation_tasks=50)),
    ],
)
def test_no_task_is_trained_and_validated_on(world, options):
    if world == "frozen_lake":
        pytest.importorskip("gymnasium", reason="comes with the extra gymnasium")
    train, validation = (contents(options, world, split) for split in SPLITS)
    assert not [one for one in train if one in validation]
    assert contents(options, world, "train") == train


def test_another_seed_gives_other_tasks():
    assert make_puzzle("train-0", Countdown.Options(seed=1)) != make_puzzle("train-0", Countdown.Options(seed=2))


@pytest.mark.parametrize(
    "task_id", ["", "train", "train-", "train-1000", "train--1", "train-01", "test-0", "train-1.5", "x-train-1"]
)
def test_an_id_that_is_not_listed_is_refused_with_those_that_are(task_id):
    with pytest.raises(DataError, match="there are train-0 to train-999 and validation-0 to validation-99"):
        make_puzzle(task_id, Countdown.Options())


def test_options_that_leave_no_task_are_refused_and_do_not_hang():
    with pytest.raises(DataError, match="leave too few different tasks"):
        make_puzzle("train-0", Countdown.Options(numbers=2, largest=3))


def test_the_calculator_calculates():
    steps, _, _ = play(Calculator, Calculator.Options(), [make_call("2 * (3 + 4)")])
    assert steps[0][:3] == ([{"role": "tool", "tool_call_id": "c", "content": "14"}], 0.0, False)


@pytest.mark.parametrize(
    "call", [make_call("2 ** 3"), make_call(None), make_call("1", name="shell"), {**make_call("1"), "tool_calls": [{"id": "x"}]}]
)
def test_a_wrong_call_is_answered_and_the_episode_goes_on(call):
    steps, _, _ = play(Calculator, Calculator.Options(), [call])
    assert steps[0][0][0]["content"].startswith("error: ")
    assert not steps[0][2]


def test_the_right_sum_scores_one_and_any_other_none():
    options = Calculator.Options()
    right = evaluate(make_sum("train-0", options)).number
    assert play(Calculator, options, [f"\\boxed{{{right}}}"])[1:] == (1.0, 1.0)
    assert play(Calculator, options, [f"\\boxed{{{right + 1}}}"])[1:] == (0.0, 0.0)


def test_calls_of_the_calculator_are_limited():
    steps, _, _ = play(Calculator, Calculator.Options(calls=1), [make_call("1"), make_call("2")])
    assert [step[2] for step in steps] == [False, True]


def way_over(lake: tuple[str, ...]) -> list[str]:
    """Return the moves of a shortest way to the goal."""
    size, seen = len(lake), {(0, 0)}
    front: list[tuple[tuple[int, int], list[str]]] = [((0, 0), [])]
    while True:
        (row, column), moves = front.pop(0)
        if lake[row][column] == "G":
            return moves
        for move, (down, right) in zip(MOVES, ((0, -1), (1, 0), (0, 1), (-1, 0)), strict=True):
            place = row + down, column + right
            inside = min(place) >= 0 and max(place) < size
            if inside and place not in seen and lake[place[0]][place[1]] != "H":
                seen.add(place)
                front.append((place, [*moves, move]))


def test_the_lake_can_be_crossed():
    pytest.importorskip("gymnasium", reason="comes with the extra gymnasium")
    options = FrozenLake.Options()
    moves = way_over(make_lake("train-3", options)[0])
    steps, score, _ = play(FrozenLake, options, [f"\\boxed{{{move}}}" for move in moves], "train-3")
    assert [step[2] for step in steps] == [False] * (len(moves) - 1) + [True]
    assert score == 1.0
    assert "[G]" in steps[-1][0][0]["content"]


def test_a_move_that_is_none_costs_one():
    pytest.importorskip("gymnasium", reason="comes with the extra gymnasium")
    steps, score, _ = play(FrozenLake, FrozenLake.Options(moves=2), ["nowhere", "nowhere"])
    assert [step[2] for step in steps] == [False, True]
    assert "Name one move" in steps[0][0][0]["content"]
    assert score == 0.0


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("so \\boxed{1 + {2}} it is", "1 + {2}"),
        ("<answer> 4 </answer> or <answer>5</answer>", "5"),
        ("<action>left</action>", "left"),
        ("first\n\nlast \n", "last"),
        ([{"type": "text", "text": "a "}, {"type": "text", "text": "b"}], "a b"),
        (None, ""),
    ],
)
def test_what_is_put_forward_is_in_the_last_box_or_line(content, found):
    assert extract_answer({"role": "assistant", "content": content}) == found
