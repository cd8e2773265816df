"""Writes the tables and curves of the runs on a pretrained model into the pages, from `benchmarks/realmodel.jsonl`.

`python docs/write_realmodel.py` replaces what is between `<!-- realmodel: NAME -->` and `<!-- /realmodel: NAME -->`, and draws
`images/realmodel.svg`. Intervals are Wilson's, of 95 %.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from realmodel_curves import draw_curves

HERE = Path(__file__).parent
REPOSITORY = HERE.parent
RESULTS = REPOSITORY / "benchmarks" / "realmodel.jsonl"
PICTURE = HERE / "images" / "realmodel.svg"
PAGES = (
    "README.md",
    "docs/choose_sizes.md",
    "docs/realmodel.md",
    "tutorial/guess_number/README.md",
    "tutorial/one_word/README.md",
    "tutorial/shop/README.md",
)
MARKED = re.compile(r"<!-- (realmodel(?:: (\w+))?) -->\n.*?<!-- /\1 -->", re.DOTALL)
PICTURE_TEXT = "Success in training, step by step: three seeds of each task, and a coin as reward"
Z = 1.959964
"""Of the normal distribution, for 95 %."""
TITLES = {
    "shop": "[an agent with a tool, in two turns](tutorial/shop/README.md)",
    "one_word": "[a review in one word](tutorial/one_word/README.md)",
    "guess_number": "[a number, in three guesses](tutorial/guess_number/README.md)",
}

Row = dict[str, Any]


def compute_interval(rate: float, count: int) -> tuple[float, float]:
    """Return Wilson's interval of a rate that was seen in `count` trials."""
    centre = (rate + Z**2 / (2 * count)) / (1 + Z**2 / count)
    half = Z / (1 + Z**2 / count) * (rate * (1 - rate) / count + Z**2 / (4 * count**2)) ** 0.5
    return max(0.0, centre - half), min(1.0, centre + half)


def format_share(rate: float, count: float | None = None) -> str:
    """Return a share in percent, with its interval if it is known of how many."""
    if count is None:
        return f"{100 * rate:.1f} %"
    low, high = compute_interval(rate, int(count))
    return f"{100 * rate:.1f} % ({100 * low:.1f}–{100 * high:.1f})"


def format_success(found: Row) -> str:
    """Return the success of a validation with its interval."""
    return format_share(found["success"], found["episodes"])


def format_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [f"| {' | '.join(row)} |" for row in (header, *rows)]
    return "\n".join([lines[0], "|---" * len(header) + "|", *lines[1:]])


def name_run(row: Row) -> str:
    """Return what a table calls a run."""
    return f"seed {row['seed']}" if row["arm"] == "reward" else f"{row['arm']}, seed {row['seed']}"


def select(rows: Sequence[Row], tutorial: str, arms: Sequence[str] = ("reward", "coin")) -> list[Row]:
    """Return the runs of a tutorial with these rewards or settings, in their order and that of the seeds."""
    found = [row for row in rows if row["tutorial"] == tutorial and row["arm"] in arms]
    return sorted(found, key=lambda row: (arms.index(row["arm"]), row["seed"]))


def ends(row: Row) -> tuple[Row, Row]:
    """Return the first and the last validation of a run."""
    return row["validation"][0], row["validation"][-1]


def change(row: Row, part: str) -> str:
    """Return how a component of the verdicts changed."""
    before, after = ends(row)
    return f"{100 * before.get(part, 0):.0f} → {100 * after.get(part, 0):.0f} %"


def compute_label_share(found: Row) -> tuple[float, int]:
    """Return how many of the answers in one word have the right label, and how many answers are in one word."""
    answers = round(found["form"] * found["episodes"])
    return (found["success"] * found["episodes"] / answers if answers else 0.0), answers


def format_label(found: Row) -> str:
    """Return the share of right labels, or a dash where there is hardly any answer to take it of."""
    share, answers = compute_label_share(found)
    return f"{100 * share:.0f} % of {answers}" if answers else "–"


def format_cost(row: Row) -> list[str]:
    """Return CPU seconds, wall seconds and memory of a run."""
    return [f"{row['cpu_s']:.0f}", f"{row['wall_s']:.0f}", f"{row['rss_gb']:.1f}"]


COST = ["CPU s", "wall s", "GB"]


def write_shop(rows: Sequence[Row]) -> str:
    """Return the table of the shop."""
    table = [
        [name_run(row), *map(format_success, ends(row)), change(row, "looked"), *format_cost(row)] for row in select(rows, "shop")
    ]
    return format_table(["run", "before", "after", "looks the item up", *COST], table)


def write_one_word(rows: Sequence[Row]) -> str:
    """Return the table of the one-word task, form and label apart."""
    table = [
        [name_run(row), *map(format_success, ends(row)), change(row, "form"), *map(format_label, ends(row)), *format_cost(row)]
        for row in select(rows, "one_word")
    ]
    return format_table(["run", "before", "after", "form", "label before", "label after", *COST], table)


def write_guess_number(rows: Sequence[Row]) -> str:
    """Return the table of the game, with the model before its warm start."""
    found = select(rows, "guess_number")
    table = [
        [name_run(row), *map(format_success, ends(row)), change(row, "form"), change(row, "listened"), *format_cost(row)]
        for row in found
    ]
    text = format_table(["run", "after the warm start", "tuned", "form", "listened", *COST], table)
    if not found:
        return text
    start = found[0]["warm_start"]
    return (
        f"{text}\n\nThe fetched model finds {format_success(start['before'])}. The warm start takes {start['cpu_s']:.0f} CPU s."
    )


def write_greedy(rows: Sequence[Row]) -> str:
    """Return the table of greedy validations."""
    checked = [row for tutorial in TITLES for row in select(rows, tutorial) if "greedy" in row]
    table = [
        [row["tutorial"], name_run(row), format_success(row["greedy"]["before"]), format_success(row["greedy"]["after"])]
        for row in checked
    ]
    return format_table(["tutorial", "run", "before, greedy", "after, greedy"], table)


def write_changes(rows: Sequence[Row]) -> str:
    """Return the table of what else changed."""
    table = []
    for row in (row for tutorial in TITLES for row in select(rows, tutorial) if "changes" in row):
        found = row["changes"]
        different = sum(before != after for _, before, after in found["answers"])
        perplexities = [f"{before:.2f} → {after:.2f}" for before, after in found["perplexity"].values()]
        reloaded = f"{found['reloaded_equal']} of {found['reloaded_calls']}"
        table.append([row["tutorial"], name_run(row), *perplexities, f"{different} of {len(found['answers'])}", reloaded])
    header = ["tutorial", "run", "perplexity, prose", "perplexity, arithmetic", "other answers changed", "equal in transformers"]
    return format_table(header, table)


def write_coins(rows: Sequence[Row]) -> str:
    """Return the table of the coins of the one-word task."""
    arms = list(dict.fromkeys(row["arm"] for row in rows if row["tutorial"] == "one_word" and row["arm"] != "reward"))
    table = []
    for row in select(rows, "one_word", arms):
        steps, after = row["steps"], ends(row)[1]
        tokens = [step["tokens"] / step["episodes"] for step in (steps[0], steps[-1])]
        table.append(
            [
                row["arm"],
                str(row["seed"]),
                change(row, "form"),
                format_label(after),
                f"{100 * after['positive'] / after['form']:.0f} %" if after["form"] else "–",
                f"{tokens[0]:.1f} → {tokens[1]:.1f}",
                f"{steps[-1].get('kl', 0):.2f}",
            ]
        )
    header = ["reward", "seed", "form", "label after", "of these “positive”", "tokens an answer", "KL, nats a token"]
    return format_table(header, table)


def write_sizes(rows: Sequence[Row]) -> str:
    """Return the table of the shop with other settings."""
    arms = list(dict.fromkeys(row["arm"] for row in rows if row["tutorial"] == "shop" and row["arm"] not in ("reward", "coin")))
    table = []
    for row in [*select(rows, "shop", ["reward"])[:1], *select(rows, "shop", arms)]:
        half = row["steps"][len(row["steps"]) // 2 - 1]["success"]
        name = "as in the tutorial" if row["arm"] == "reward" else row["arm"]
        cost = f"{row['cpu_s']:.0f}", f"{row['rss_gb']:.1f}"
        table.append([name, *map(format_success, ends(row)), format_share(half), *cost])
    return format_table(["setting", "before", "after 8 steps", "training, step 4", "CPU s", "GB"], table)


def pool(found: Sequence[Row]) -> str:
    """Return the success over several validations, with its interval."""
    episodes = sum(one["episodes"] for one in found)
    return format_share(sum(one["success"] * one["episodes"] for one in found) / episodes, episodes)


def write_headline(rows: Sequence[Row]) -> str:
    """Return the README's table: a row for each tutorial."""
    table = []
    for tutorial, title in TITLES.items():
        tuned, coins = select(rows, tutorial, ["reward"]), select(rows, tutorial, ["coin"])
        if not tuned:
            continue
        before, after = ([ends(row)[end] for row in tuned] for end in (0, 1))
        each = ", ".join(f"{100 * one['success']:.0f}" for one in after)
        minutes = sum(row["cpu_s"] for row in tuned) / len(tuned) / 60
        coin = ", ".join(f"{100 * ends(row)[1]['success']:.0f}" for row in coins)
        table.append([title, pool(before), pool(after), f"{each} %", f"{coin} %" if coins else "–", f"{minutes:.1f}"])
    header = ["task", "before", "after", "each seed", "a coin as reward", "CPU minutes"]
    return f"{format_table(header, table)}\n\n![{PICTURE_TEXT}](docs/images/realmodel.svg)\n"


BLOCKS: dict[str, Callable[[Sequence[Row]], str]] = {
    "": write_headline,
    "changes": write_changes,
    "coins": write_coins,
    "greedy": write_greedy,
    "guess_number": write_guess_number,
    "one_word": write_one_word,
    "shop": write_shop,
    "sizes": write_sizes,
}


def fill(page: str, rows: Sequence[Row]) -> str:
    """Return a page with new tables."""

    def write_block(found: re.Match[str]) -> str:
        text = BLOCKS[found[2] or ""](rows)
        return f"<!-- {found[1]} -->\n{text}\n<!-- /{found[1]} -->"

    return MARKED.sub(write_block, page)


def read_results(file: Path = RESULTS) -> list[Row]:
    """Return the measured runs."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def main() -> None:
    """Write the pages and the picture."""
    rows = read_results()
    for name in PAGES:
        page = REPOSITORY / name
        page.write_text(fill(page.read_text(encoding="utf-8"), rows), encoding="utf-8")
    PICTURE.write_text(draw_curves(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
