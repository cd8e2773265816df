from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astuner_judges.final_answer import find_final_answer, parse_gold_answer
from astuner_judges.quantities import are_equal

DUCKS = (
    "Janet’s ducks lay 16 eggs per day. She eats three for breakfast every morning and bakes muffins for her friends every day "
    "with four. She sells the remainder at the farmers' market daily for $2 per fresh duck egg. How much does she make every day?"
)


def agrees(gold: str, text: str, question: str = DUCKS) -> bool:
    right, answer = parse_gold_answer(gold).quantity, find_final_answer(text, question)
    return right is not None and answer is not None and answer.quantity is not None and are_equal(right, answer.quantity)


@pytest.mark.parametrize(
    "text",
    [
        "18",
        "18.",
        "18.0",
        "18.00 dollars",
        "$18.00 per day",
        "**18**",
        "**$18** per day",
        "= 18",
        "x = 18",
        "~18",
        "approximately 18",
        "18$",
        "USD 18",
        "Rs. 18",
        "€18",
        "18 eggs/day",
        "18 cm^2",
        "18th",
        "eighteen",
        "It is 18.",
        "so it is $18",
        "3 * 6 = 18",
        "36/2",
    ],
)
def test_a_bare_answer_is_read_with_its_currency_unit_and_marks(text: str) -> None:
    assert agrees("18", text)


@pytest.mark.parametrize(
    ("gold", "text"),
    [
        ("70000", "$70,000 profit"),
        ("1234567", "1,234,567"),
        ("1234", "1 234".replace(" ", "\u202f")),
        ("80000", "$80 000"),
        ("-5", "−5"),
        ("-5", "-$5"),
        ("-5", "$-5"),
        ("-3", "negative 3"),
        ("2/3", "2/3 of the cake"),
        ("2.5", "2 1/2 hours"),
        ("2.5", "2½ hours"),
        ("33.33", "approximately 33.33"),
        ("33.33", "100/3"),
        ("100/3", "33.33"),
        ("50", "50%"),
        ("0.5", "50 percent"),
        ("70000", "$70k"),
        ("70", "70 thousand dollars"),
        ("1500000", "1.5 million"),
        ("36", "3 dozen"),
        ("1500000", r"1.5 \times 10^6"),
        (".5", "0.5"),
    ],
)
def test_a_number_is_the_same_however_it_is_written(gold: str, text: str) -> None:
    assert agrees(gold, text)


@pytest.mark.parametrize(
    ("gold", "text"),
    [
        ("70000", r"\boxed{70000}"),
        ("70000", r"$\boxed{70{,}000}$"),
        ("70000", r"\[\boxed{70\,000}\]"),
        ("18", r"\boxed{\$18}"),
        ("18", r"\boxed{18\text{ dollars}}"),
        ("18", r"\boxed{18\!}"),
        ("12", r"\boxed{12 \text{ cm}^2}"),
        ("50", r"\boxed{50^\circ}"),
        ("50", r"\boxed{50\%}"),
        ("1/2", r"\boxed{\dfrac{1}{2}}"),
        ("1/2", r"\boxed{\frac12}"),
        ("7/3", r"\boxed{2\frac{1}{3}}"),
        ("18", r"\boxed{x = 18}"),
        ("18", r"\boxed{9 \times 2 = 18}"),
        ("18", r"\boxed{\text{Janet makes } \$18 \text{ each day}}"),
        ("18", r"First \boxed{9}, and in the end \boxed{18}."),
        ("18", r"\boxed{18} dollars for 9 eggs at $2."),
        ("18", r"It is \fbox{18}, in a \boxed environment."),
        ("18", r"\boxed 18"),
    ],
)
def test_the_last_box_counts_with_whatever_latex_is_in_it(gold: str, text: str) -> None:
    assert agrees(gold, text)


@pytest.mark.parametrize(
    "text",
    [
        "9 * 2 = <<9*2=18>>18\n#### 18",
        "… = 9 * 2 = <<9*2=18>>18. #### 18",
        "#### $18.00",
        "#### 18 dollars for 9 eggs",
        "#### Step 1: count\n16 - 7 = 9\n#### Step 2: multiply\n9 * 2 = 18\n",
        "#### 1. Count\n16 - 7 = 9\n#### 2. Multiply\n9 * 2 gives $18.",
        "#### Final Answer\n18",
        "A: 18",
        "A: 18 dollars\nThere are 9 eggs, at $2 each.",
        "Q: How much for 9 eggs?\nA: There are 9 eggs.\nThey cost 9 * 2 = 18 dollars.",
        "16 - 7 = 9, 9 * 2 = 18\n\nA: $18",
        "Answer: Janet makes $18 per day.\nShe sells 9 eggs at $2 each.",
        "Answer: $18\n\nExplanation: she sells 9 eggs at $2.",
        "**Answer:** 18. This is because 9 eggs cost $2 each.",
        "### Final Answer\n\n**18 dollars**",
        "**Final Answer:** $18",
        "Final answer - 18",
        "Ans. 18",
        "Answer (in dollars): 18",
        '{"answer": 18}',
        "答案是18。",
        "The answer is 18. She sells 9 eggs at $2 each.",
        "The answer is that she sells 9 eggs for 9 * 2 = 18 dollars.",
        "The answer is therefore $18.",
        "The answer to the question is **$18**.",
        "The answer is eighteen.",
        "Final Answer: The final answer is $18$. I hope it is correct.",
        "The answer is 18.\n\nQ: Tom has 5 apples. How many?\nA: 5. The answer is 5.",
        "The answer is 18.<|im_end|>\n<|im_start|>user\n5 more",
        "The answer is 20? No, wait. The answer is 18.",
    ],
)
def test_an_answer_behind_a_marker_is_the_answer_whatever_surrounds_it(text: str) -> None:
    assert agrees("18", text)


@pytest.mark.parametrize(
    "text",
    [
        "So she has 18 dollars left.",
        "She makes $18 every day at the market.",
        "Therefore, Janet makes **$18** every day with 9 eggs at $2 each.",
        "16 - 3 - 4 = 9\n9 x 2 = 18\nJanet makes $18 per day selling 9 eggs for $2.",
        "She sells 9 eggs for 9 * 2 = 18 dollars every 1 day.",
        "She sells 9 eggs a day, making $18 with 16 ducks.",
        "Total: 9 × $2 = **$18**.",
        r"\[ 9 \times 2 = 18 \]" + "\n\nThus, Janet makes \\( \\$18 \\) every day.",
        "She makes 18 dollars because 9 eggs cost 2 dollars each.",
        "She makes 18 dollars a day (9 eggs at $2 each).",
        "She makes 18 dollars. This is because she sells 9 eggs.",
        "She makes $18.\n\nVerification: 18 / 2 = 9 eggs ✓.",
        "She makes $18.\n\nNote: we assume 30 days.",
        "<think>maybe 20? 9 * 2 = 20</think>She makes 18 dollars.",
        "Thus 18 dollars is what Janet makes in 1 day.",
        "1. She sells 9 eggs.\n2. She makes $18.",
        "| Total | 18 |",
        "Janet makes eighteen dollars.",
    ],
)
def test_without_a_marker_the_last_statement_counts_as_a_reader_takes_it(text: str) -> None:
    assert agrees("18", text)


def test_a_condition_of_the_question_that_is_only_repeated_is_not_the_answer() -> None:
    question = "Josh saves $125 each week. How much does he save in 4 weeks?"
    assert agrees("500", "Josh saves $500 in 4 weeks.", question)
    assert agrees("4", "He needs 4 weeks to save $500.", "He saves $125 a week. How many weeks does he need to save $500?")


@pytest.mark.parametrize(
    ("gold", "text"),
    [
        ("18", "17"),
        ("18", "-18"),
        ("18", "1.8"),
        ("18", "180"),
        ("18", "The answer is 9, but 18 is what a reader may expect."),
        ("18", "The answer is 18 or 20."),
        ("18", r"\boxed{18, 20}"),
        ("18", r"\boxed{18}, no: \boxed{20}"),
        ("18", "It is not 18."),
        ("5", "5x"),
        ("25", "$0.25"),
        ("3", "She arrives at 3:00."),
        ("2", "The area is 50 m^2."),
        ("2", "It is H2O."),
        ("1500", "1.5 million"),
        ("0.67", "0.66"),
        ("33", "100/3"),
        ("3", "No idea."),
        ("3", ""),
    ],
)
def test_what_a_reader_would_not_take_for_the_answer_is_wrong(gold: str, text: str) -> None:
    assert not agrees(gold, text)


@pytest.mark.parametrize(
    "gold", ["18", "so 9 * 2 = 18\n#### 18", r"We get \boxed{18}.", "She sells 9 eggs.\nShe makes 9 * 2 = 18 dollars."]
)
def test_the_right_answer_may_be_a_whole_solution(gold: str) -> None:
    assert agrees(gold, "18")


@given(st.text(alphabet=st.sampled_from("0123456789 .,/$%-*^={}\\()boxedAnswer:#\nis"), max_size=200))
def test_any_text_is_read_without_an_error(text: str) -> None:
    find_final_answer(text, text)
    parse_gold_answer(text)


def test_a_number_of_a_million_digits_is_no_trap() -> None:
    assert not agrees("18", "9" * 1_000_000)
