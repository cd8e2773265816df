"""The key `model.chat_template` in a run on the quickstart's project: what is played, saved, resumed and exported."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from harness import SMALL, Cli
from runs_on_disk import record, weights_digest
from transformers import AutoTokenizer

from astuner.runs.inspection import open_run

TEMPLATE = "mine.jinja"


def test_a_template_of_the_configuration_holds_from_the_first_prompt_to_the_export(cli: Cli, project: Path, tmp_path: Path):
    own = (project / "model" / "chat_template.jinja").read_text(encoding="utf-8")
    mine = "{{- '\n\n' -}}" + own
    (project / TEMPLATE).write_text(mine, encoding="utf-8")
    given = ("--conf", "tune.yaml", *SMALL, f"--set=model.chat_template=./{TEMPLATE}", "--set=model.lora_rank=4")
    half = cli("run", *given, "--set=trainer_common.total_training_steps=2", cwd=project)
    assert half.returncode == 0, half.stderr

    tokenizer = AutoTokenizer.from_pretrained(project / "model")
    call = next(iter(open_run(record(project)).episodes())).calls[0]
    asked = {"tools": list(call.tools), "chat_template": mine, "tokenize": False, "add_generation_prompt": True}
    expected = tokenizer.apply_chat_template(list(call.messages), **asked)
    assert expected.startswith("\n\n")
    assert np.array_equal(call.prompt_ids, tokenizer.encode(expected, add_special_tokens=False))

    # The text is the run's own: another template is another run, wherever the file lies.
    (project / TEMPLATE).write_text(own, encoding="utf-8")
    refused = cli("run", *given, "--resume", cwd=project)
    assert (refused.returncode, "model.chat_template" in refused.stderr) == (2, True)
    (project / TEMPLATE).write_text(mine, encoding="utf-8")
    assert cli("run", *given, "--resume", cwd=project).returncode == 0
    whole = cli("run", *given, "--set=experiment_name=whole", cwd=project)
    assert whole.returncode == 0, whole.stderr
    assert weights_digest(record(project), 4) == weights_digest(record(project, "whole"), 4)

    for place, arguments in (("adapters", ()), ("merged", ("--merge-lora",))):
        done = cli("export", record(project), *arguments, "--out", tmp_path / place, cwd=project)
        assert done.returncode == 0, done.stderr
        assert (tmp_path / place / "chat_template.jinja").read_text(encoding="utf-8") == mine
    assert (record(project) / "tokenizer" / "chat_template.jinja").read_text(encoding="utf-8") == mine
