"""The recipes, and the shapes of the models they name."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import yaml
from attrs import frozen

from astuner.cli import exit_code_of

LARGEST_SHARE = 0.9
"""Of a GPU: the rest is for CUDA itself and for fragments."""
RECIPES = Path(__file__).resolve().parents[2] / "recipes"
SHAPES = Path(__file__).parent / "model_shapes"


@frozen(kw_only=True)
class Recipe:
    """One YAML of the folder."""

    path: Path

    @property
    def name(self) -> str:
        """Return the file's name without its extension."""
        return self.path.stem

    @property
    def settings(self) -> Mapping[str, Any]:
        """Return the file's contents, interpolations unresolved."""
        found: Mapping[str, Any] = yaml.safe_load(self.path.read_text(encoding="utf-8"))
        return found

    @property
    def backbones(self) -> tuple[str, ...]:
        """Return the backbones that the command in the file's head names."""
        command = next(line for line in self.path.read_text(encoding="utf-8").splitlines() if "astuner run" in line)
        return tuple(re.findall(r"\b(?:verl|trinity|local)\b", command.split("--backbone")[1].split("(astuner-")[0]))

    @property
    def gpus(self) -> int:
        """Return the GPUs of the whole run."""
        trainer = self.settings["astuner"]["trainer_common"]
        return int(trainer.get("n_gpus_per_node", 1) * trainer.get("nnodes", 1))

    @property
    def gpu_bytes(self) -> int:
        """Return the memory of one of them."""
        size = re.search(r"x(\d+)gb", self.name)
        assert size is not None
        return int(size[1]) * 10**9

    @property
    def shape_home(self) -> Path:
        """Return the directory with the `config.json` of the recipe's model."""
        size = re.search(r"Qwen2\.5-([\d.]+B)-", self.settings["astuner"]["model"]["path"])
        assert size is not None
        return SHAPES / f"qwen2.5-{size[1].lower()}"

    @property
    def shape(self) -> Mapping[str, Any]:
        """Return that `config.json`."""
        found: Mapping[str, Any] = json.loads((self.shape_home / "config.json").read_text(encoding="utf-8"))
        return found


def read_memory_plan(conf: Path, *options: str) -> Mapping[str, Any]:
    """Return what `astuner config memory --json` prints."""
    out = io.StringIO()
    with redirect_stdout(out):
        code = exit_code_of(["config", "memory", "--conf", str(conf), *options, "--json"])
    document: Mapping[str, Any] = json.loads(out.getvalue())
    assert (code, document["unknown"], document["problems"]) == (0, None, [])
    return document


def list_totals(recipe: Recipe, backbone: str) -> list[int]:
    """Return the bytes that each kind of GPU of a recipe holds in each phase, as `config memory` computes them."""
    gpus = f"{min(8, recipe.gpus)}x{recipe.gpu_bytes // 10**9}"
    model = ("--set", f"model.path={recipe.shape_home}", "--backbone", backbone)
    document = read_memory_plan(recipe.path, *model, "--gpus", gpus)
    return [total for device in document["devices"] if device["gpus"] != [-1] for total in device["totals"].values()]


def list_recipes(backbone: str = "") -> list[Recipe]:
    """Return all recipes for GPUs, or those of one backbone, by name."""
    found = [Recipe(path=path) for path in sorted(RECIPES.glob("*gb*.yaml"))]
    return [recipe for recipe in found if not backbone or backbone in recipe.backbones]
