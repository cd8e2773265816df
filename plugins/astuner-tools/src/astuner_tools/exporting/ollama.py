"""Ollama's Modelfile: the chat template in Go's language, where that can be stated exactly."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import frozen

from astuner.settings.config.pretrained import guard_loading
from astuner_tools.exporting.gguf_tokenizer import list_end_tokens, read_chat_template

MODELFILE = "Modelfile"
ROLES = ("system", "user", "assistant")
UNSTATED = """\
# The chat template of this model is not a sequence of turns that a TEMPLATE could state exactly, so there is none here. Ollama
# looks at the template in the GGUF file, and takes one of its own if it knows that one. Compare `ollama show --template` with
# it, or serve the file with llama.cpp, which reads the template itself."""
NO_TOOLS = """\
# TEMPLATE has no tools: this model's chat template writes them in another form. An agent that offers tools is served by
# llama.cpp or vLLM, which read that template."""

Messages = Sequence[Mapping[str, str]]
Render = Callable[[Messages, bool], str]
"""Renders messages as text; whether the beginning of an answer follows."""


@frozen(kw_only=True)
class Turns:
    """A chat template that writes each message between two texts."""

    around: Mapping[str, tuple[str, str]]
    """What is before and after the content, by role."""
    opening: str
    """What an answer follows."""
    default_system: str | None
    """The system message of conversations without one."""

    def render(self, messages: Messages, opens: bool) -> str:
        """Return what the chat template writes."""
        if self.default_system is not None and (not messages or messages[0]["role"] != "system"):
            messages = [{"role": "system", "content": self.default_system}, *messages]
        turns = (self.around[one["role"]][0] + one["content"] + self.around[one["role"]][1] for one in messages)
        return "".join(turns) + (self.opening if opens else "")

    def format_go(self) -> str:
        """Return it in Go's template language, over Ollama's `.Messages`."""
        parts = [
            f'{{{{ {"else " if number else ""}if eq .Role "{role}" }}}}{before}{{{{ .Content }}}}{after}'
            for number, (role, (before, after)) in enumerate(self.around.items())
        ]
        return "{{ range .Messages }}" + "".join(parts) + "{{ end }}{{ end }}" + self.opening


def find_turns(render: Render, leading: str = "") -> Turns | None:
    """Return the turns of a chat template, found from what it makes of test messages; None for a template of another kind.

    `leading` is the text of a token that the program adds itself, and the template writes too.
    """
    try:
        turns = _guess_turns(lambda messages, opens: render(messages, opens).removeprefix(leading))
        return turns if turns is not None and _fits(turns, render, leading) else None
    except Exception:  # noqa: BLE001 - a template may raise anything at messages that it does not want
        return None


def _guess_turns(render: Render) -> Turns | None:
    system, user, answer, more = (f"qq{number}qq" for number in range(4))
    first = {"role": "system", "content": system}
    messages = [
        first, {"role": "user", "content": user}, {"role": "assistant", "content": answer}, {"role": "user", "content": more}
    ]  # fmt: skip
    before_system, after_system = render([first], False).split(system)
    whole = render(messages, False)
    rest = whole.removeprefix(before_system + system + after_system)
    before_user, rest = rest.split(user)
    middle, rest = rest.split(answer)
    between, after_user = rest.split(more)
    if not middle.startswith(after_user) or not between.endswith(before_user):
        return None
    after_answer = between.removesuffix(before_user)
    alone = render([{"role": "user", "content": user}], False)
    default = alone.removesuffix(before_user + user + after_user)
    if default:
        default = default.removeprefix(before_system).removesuffix(after_system)
    return Turns(
        around={
            "system": (before_system, after_system),
            "user": (before_user, after_user),
            "assistant": (middle.removeprefix(after_user), after_answer),
        },
        opening=render(messages, True).removeprefix(whole),
        default_system=default or None,
    )


def _fits(turns: Turns, render: Render, leading: str) -> bool:
    """Whether the turns give what the template gives, also for texts with blanks at their ends and for long conversations."""
    texts = (" blanks at both ends \n", "2 + 2?", "<b>\n\n- one\n- two")
    ask, answer, again = (
        {"role": role, "content": text} for role, text in zip(("user", "assistant", "user"), texts, strict=True)
    )
    system = {"role": "system", "content": texts[0]}
    cases = ([ask], [again], [system, again], [ask, answer, again], [system, again, answer, ask, answer, again])
    same = all(
        turns.render(case, opens) == render(case, opens).removeprefix(leading) for case in cases for opens in (False, True)
    )
    return same and not any(mark in turns.format_go().replace("{{ .Content }}", "") for mark in ('"""', "{{{", "}}}"))


def write_modelfile(folder: Path, out: Path, gguf: str) -> None:
    """Write the Modelfile of a GGUF file next to it; `folder` holds the same model for transformers."""
    (out / MODELFILE).write_text(build_modelfile(folder, gguf), encoding="utf-8")


def build_modelfile(folder: Path, gguf: str) -> str:
    """Return the Modelfile."""
    from tokenizers import Tokenizer
    from transformers import AutoTokenizer

    with guard_loading(folder):
        tokenizer: Any = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    raw = Tokenizer.from_file(str(folder / "tokenizer.json"))
    adds_bos = bool(tokenizer.bos_token) and raw.encode("a").ids[:1] == [tokenizer.bos_token_id]
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    lines = [f"FROM ./{gguf}"]
    template = read_chat_template(folder)

    def render(messages: Messages, opens: bool) -> str:
        return str(tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=opens))

    turns = find_turns(render, tokenizer.bos_token if adds_bos else "") if template is not None else None
    if turns is None:
        lines.append(UNSTATED)
    else:
        lines += [NO_TOOLS] if "tools" in (template or "") else []
        lines.append(f'TEMPLATE """{turns.format_go()}"""')
        lines += [f'SYSTEM """{turns.default_system}"""'] if turns.default_system is not None else []
    ends = [raw.id_to_token(number) for number in list_end_tokens(folder, config)]
    lines += [f'PARAMETER stop "{text}"' for text in ends if text and '"' not in text]
    # Ollama's own is 1.1, with which a model that was tuned to copy does not copy.
    lines.append("PARAMETER repeat_penalty 1.0")
    lines.append(f"PARAMETER num_ctx {config['max_position_embeddings']}")
    return "\n".join(lines) + "\n"
