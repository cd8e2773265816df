"""Writes `ppo_trainer.json` beside it: the configuration of the verl that is installed, for tests where none is."""

from __future__ import annotations

import json
from pathlib import Path

from astuner_verl.defaults import verl_defaults

text = json.dumps(verl_defaults(), indent=1, sort_keys=True)
Path(__file__).with_name("ppo_trainer.json").write_text(text + "\n", encoding="utf-8")
