"""Writes the tasks. No item of the validation is an item of the training."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random

ITEMS = """
anchor apron badge bag ball banana barrel basket bean bell belt bench blanket boat bolt book boot bottle bowl box brick
broom brush bucket button cabinet cage cake camera candle canvas card carpet carrot cart chain chair cheese chisel clock
coat coin comb compass cup curtain cushion desk doll door drill drum envelope fan faucet feather fence flag flower flute
folder fork frame glove guitar hammer harp hat helmet hook jacket jar kettle key kite knife ladder lamp lantern lemon
lock magnet map mask mattress mirror mop mug nail necklace needle notebook oven paddle pan pear pillow pipe plate pot
puzzle rake ring rope ruler saddle scarf
"""
HELD_OUT = 40
"""Items that only the validation asks for."""
PRICES = range(2, 100)


def write_files(directory: Path) -> None:
    """Write the two files of rows: each item several times, at several prices."""
    random = Random(0)
    items = ITEMS.split()
    random.shuffle(items)
    write_rows(directory / "train.jsonl", items[HELD_OUT:], 4, random)
    write_rows(directory / "validation.jsonl", items[:HELD_OUT], 3, random)


def write_rows(file: Path, items: Sequence[str], times: int, random: Random) -> None:
    """Write a row per item and price."""
    prices = {item: random.sample(PRICES, times) for item in items}
    rows = [
        {
            "main_query": f"How much is {'an' if item[0] in 'aeiou' else 'a'} {item}?",
            "item": item,
            "price": str(prices[item][number]),
        }
        for number in range(times)
        for item in items
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    write_files(Path(__file__).parent)
