"""Texts and lines have the contrast of WCAG AA on their backgrounds, in light and in dark colours."""

import re
from pathlib import Path

import pytest

TOKENS = Path(__file__).resolve().parent.parent / "src/astuner_logview/static/style/tokens.css"
COLOURS = {
    name: {"light": light, "dark": dark}
    for name, light, dark in re.findall(
        r"--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);", TOKENS.read_text(encoding="utf-8")
    )
}
GROUNDS = ["page", "surface", "raised", "sunken", "hover"]
TEXT_PAIRS = [
    *((text, ground) for text in ["text", "muted", "accent", "good", "bad", "warn"] for ground in GROUNDS),
    *(("faint", ground) for ground in ["page", "surface", "raised", "hover", "sunken"]),
    *((text, "accent-soft") for text in ["text", "muted", "accent"]),
    *((name, f"{name}-soft") for name in ["good", "bad", "warn"]),
    ("on-accent", "accent"),
    ("text", "mark"),
]
# Curves, borders of controls and the focus ring carry meaning without being text.
GRAPHIC_PAIRS = [
    *((f"series-{number}", ground) for number in range(1, 9) for ground in ["surface", "page"]),
    *(("control-line", ground) for ground in ["surface", "page", "raised"]),
    *(("accent", ground) for ground in GROUNDS),
]


def luminance(colour: str) -> float:
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_black_on_white_is_the_largest_contrast() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("text", "ground"), TEXT_PAIRS)
def test_text_is_readable(text: str, ground: str, theme: str) -> None:
    assert contrast(COLOURS[text][theme], COLOURS[ground][theme]) >= 4.5


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("line", "ground"), GRAPHIC_PAIRS)
def test_lines_are_visible(line: str, ground: str, theme: str) -> None:
    assert contrast(COLOURS[line][theme], COLOURS[ground][theme]) >= 3
