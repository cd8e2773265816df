"""Tool calls in the formats of every family of models, read while they are sampled."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from astuner.model.rendering.tool_calls import STYLES
from astuner.settings.config.model import ToolCallFormat


def tool(name: str, **properties: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": properties}}}


TOOLS = [
    tool(
        "add",
        a={"type": "integer"},
        b={"type": "number"},
        why={"type": "string"},
        sure={"type": "boolean"},
        how={"type": "object"},
        maybe={"anyOf": [{"type": "string"}, {"type": "null"}]},
        unit={"enum": ["1", "2"]},
    ),
    tool("look"),
]

CALLS = {
    "hermes": '<tool_call>\n{"name": "add", "arguments": {"a":1}}\n</tool_call>',
    "qwen_xml": "<tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>",
    "glm": "<tool_call>add\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n</tool_call>",
    "llama3": '<|python_tag|>{"name": "add", "parameters": {"a":1}}',
    "mistral": '[TOOL_CALLS][{"name": "add", "arguments": {"a":1}}]',
    "deepseek": (
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>add\n```json\n"
        '{"a":1}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>'
    ),
    "deepseek_v32": (
        '<｜DSML｜function_calls>\n<｜DSML｜invoke name="add">\n<｜DSML｜parameter name="a" string="false">1'
        "</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>"
    ),
    "deepseek_v4": (
        '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="add">\n<｜DSML｜parameter name="a" string="false">1'
        "</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>"
    ),
    "kimi": (
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.add:0<|tool_call_argument_begin|>"
        '{"a":1}<|tool_call_end|><|tool_calls_section_end|>'
    ),
    "minimax": ('<minimax:tool_call>\n<invoke name="add">\n<parameter name="a">1</parameter>\n</invoke>\n</minimax:tool_call>'),
    "harmony": '<|start|>assistant<|channel|>commentary to=functions.add <|constrain|>json<|message|>{"a":1}<|call|>',
    "seed": "<seed:tool_call>\n<function=add>\n<parameter=a>1</parameter>\n</function>\n</seed:tool_call>",
    "functionary": '<function=add>{"a":1}</function>',
    "hunyuan": (
        "<tool_calls:opensource>\n<tool_call:opensource>add<tool_sep:opensource>\n<arg_key:opensource>a</arg_key:opensource>\n"
        "<arg_value:opensource>1</arg_value:opensource>\n</tool_call:opensource>\n</tool_calls:opensource>"
    ),
    "minicpm": '<function name="add"><param name="a">1</param></function>',
    "granite": '<|tool_call|>[{"name": "add", "arguments": {"a":1}}]',
    "gigachat": '<|function_call|>{"name": "add", "arguments": {"a":1}}',
    "json_list": '<tool_calls>[{"name": "add", "arguments": {"a":1}}]</tool_calls>',
    "internlm": '<|action_start|><|plugin|>\n{"name": "add", "parameters": {"a":1}}<|action_end|>',
    "cohere": '<|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": "add", "parameters": {"a":1}}\n]<|END_ACTION|>',
    "apertus": '<|tools_prefix|>[{"add": {"a":1}}]<|tools_suffix|>',
    "xlam": '[{"name": "add", "arguments": {"a":1}}]',
    "python": "[add(a=1)]",
    "lfm2": "<|tool_call_start|>[add(a=1)]<|tool_call_end|>",
    "gemma": "<|tool_call>call:add{a:1}<tool_call|>",
    "kimi_k3": (
        '<|open|>tools<|sep|><|open|>call tool="add" index="1"<|sep|><|open|>argument key="a" type="number"<|sep|>1'
        "<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>"
    ),
    "solar": ('<|tool_calls|><|tool_call:begin|>x1<|tool_call:name|>add<|tool_call:args|>{"a":1}<|tool_call:end|><|calls|>'),
    "minimax_m3": (
        ']<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name="add">]<]minimax[>[<a>1]<]minimax[>[</a>]<]minimax[>[</invoke>\n'
        "]<]minimax[>[</tool_call>"
    ),
}
CLOSERS = {
    "hermes": "</tool_call>",
    "qwen_xml": "</tool_call>",
    "glm": "</tool_call>",
    "llama3": "}",
    "mistral": "]",
    "deepseek": "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "deepseek_v32": "</｜DSML｜invoke>\n</｜DSML｜function_calls>",
    "deepseek_v4": "</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
    "kimi": "<|tool_call_end|><|tool_calls_section_end|>",
    "minimax": "</invoke>\n</minimax:tool_call>",
    "harmony": "}<|call|>",
    "seed": "</seed:tool_call>",
    "functionary": "</function>",
    "hunyuan": "</tool_call:opensource>\n</tool_calls:opensource>",
    "minicpm": "</function>",
    "granite": "]",
    "gigachat": "}",
    "json_list": "</tool_calls>",
    "internlm": "<|action_end|>",
    "cohere": "<|END_ACTION|>",
    "apertus": "<|tools_suffix|>",
    "xlam": "]",
    "python": "]",
    "lfm2": "<|tool_call_end|>",
    "gemma": "<tool_call|>",
    "kimi_k3": "<|close|>call<|sep|><|close|>tools<|sep|>",
    "solar": "<|tool_call:end|><|calls|>",
    "minimax_m3": "]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>",
}
TWO = {
    "xlam": '[{"name": "add", "arguments": {"a":1}}, {"name": "add", "arguments": {"a":1}}]',
    "python": "[add(a=1), add(a=1)]",
}
"""Two calls of the formats in which a list of calls is the whole answer, so that nothing comes before it."""
every_format = pytest.mark.parametrize("name", sorted(CALLS))


def parse(name: str, *texts: str, prompt: str = "", tools: Any = TOOLS, parallel: bool = True) -> dict[str, Any]:
    parser = STYLES[name](prompt, tools=tools, parallel=parallel)
    pieces = [piece for text in texts for piece in parser.feed(text)] + list(parser.finish())
    found: dict[str, Any] = {"content": "", "reasoning": "", "calls": [], "malformed": parser.malformed}
    for piece in pieces:
        if piece.kind == "tool_call":
            found["calls"].append((piece.name, piece.text))
        else:
            found[piece.kind] += piece.text
    return {**found, "dropped": parser.dropped}


def calls(name: str, text: str) -> list[tuple[str, Any]]:
    found = parse(name, text)
    assert parse(name, *text) == found
    assert found["malformed"] == 0
    assert found["content"] == ""
    return [(name, json.loads(arguments)) for name, arguments in found["calls"]]


def test_every_format_is_tested() -> None:
    assert CALLS.keys() == STYLES.keys()


@every_format
def test_a_call_is_read(name: str) -> None:
    assert calls(name, CALLS[name]) == [("add", {"a": 1})]


@pytest.mark.parametrize("name", sorted(CALLS.keys() - TWO.keys()))
def test_text_before_a_call_is_said_at_once(name: str) -> None:
    parser = STYLES[name]("", tools=TOOLS, parallel=True)
    said = list(parser.feed("let me see, 1 < 2, " + CALLS[name][: len(CALLS[name]) // 2]))
    assert [(piece.kind, piece.text.rstrip()) for piece in said] == [("content", "let me see, 1 < 2,")]


@every_format
def test_a_call_that_was_cut_off_stays_as_it_was_written(name: str) -> None:
    text = CALLS[name].removesuffix(CLOSERS[name])
    found = parse(name, text)
    assert (found["calls"], found["malformed"]) == ([], 1)
    assert found["content"] == text


@pytest.mark.parametrize("name", ["hermes", "qwen_xml", "glm", "cohere", "json_list", "kimi", "minimax", "deepseek_v4", "lfm2"])
def test_a_call_without_its_closing_marker_is_read_where_that_is_wanted(name: str) -> None:
    style = evolve(STYLES[name], salvage=True)  # type: ignore[type-var]
    for text, expected in ((CALLS[name].removesuffix(CLOSERS[name]), 1), (CALLS[name][: CALLS[name].index("1")], 0)):
        parser = style("", tools=TOOLS, parallel=True)
        pieces = [*parser.feed(text), *parser.finish()]
        assert [(piece.name, json.loads(piece.text)) for piece in pieces if piece.kind == "tool_call"] == [
            ("add", {"a": 1})
        ] * expected
        assert parser.malformed == 1 - expected


@every_format
def test_without_tools_a_call_is_text(name: str) -> None:
    found = parse(name, CALLS[name], tools=())
    assert (found["calls"], found["malformed"]) == ([], 0)
    assert found["content"] == CALLS[name]


@every_format
def test_two_calls_are_two(name: str) -> None:
    assert calls(name, TWO.get(name, 2 * CALLS[name])) == [("add", {"a": 1})] * 2


@every_format
def test_only_the_first_call_is_kept_where_one_is_wanted(name: str) -> None:
    found = parse(name, TWO.get(name, 2 * CALLS[name]), parallel=False)
    assert (len(found["calls"]), found["dropped"]) == (1, 1)


@every_format
def test_reasoning_and_text_come_before_a_call(name: str) -> None:
    style = STYLES[name]
    opened, closed = ("<|channel|>analysis<|message|>", "<|end|>") if name == "harmony" else style.think  # type: ignore[attr-defined]
    text = {"harmony": "<|start|>assistant<|channel|>commentary<|message|>then"}.get(name, "" if name in TWO else "then")
    found = parse(name, f"{opened}hm{closed}{text}", CALLS[name])
    said = text and "then"
    assert found == {"content": said, "reasoning": "hm", "calls": [("add", found["calls"][0][1])], "malformed": 0, "dropped": 0}


parts = st.sampled_from(
    [
        *(*CALLS.values(), *CLOSERS.values(), "<think>", "</think>", "[TOOL_CALLS]", "<tool_call>", "<|message|>", "{", "}", "]"),
        *(
            "<｜tool▁calls▁begin｜>",
            "<|channel|>analysis<|message|>hm",
            "<|channel|>final",
            '{"name": "add"',
            '{"x": 1}',
            ";",
            " ",
            "\n",
            "a",
            "<",
            "中",
            "<|python_tag|>",
        ),
    ]
)


@given(st.sampled_from(sorted(CALLS)), st.lists(parts, max_size=10), st.lists(st.integers(0, 400), max_size=12), st.booleans())
def test_where_the_text_is_cut_into_parts_does_not_matter(name: str, parts: list[str], cuts: list[int], tools: bool) -> None:
    text = "".join(parts)
    places = sorted({min(cut, len(text)) for cut in cuts})
    split = [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]
    offered = TOOLS if tools else ()
    assert parse(name, *split, tools=offered) == parse(name, text, tools=offered)


@pytest.mark.parametrize(
    ("argument", "text", "value"),
    [
        ("a", "7", 7),
        ("a", "seven", "seven"),
        ("a", "true", "true"),
        ("b", "1.50", 1.5),
        ("b", "NaN", "NaN"),
        ("why", "7", "7"),
        ("why", ' "so" \n', ' "so" \n'),
        ("why", "two\n\nlines", "two\n\nlines"),
        ("sure", "True", True),
        ("sure", "false", False),
        ("how", '{"x": [1, null]}', {"x": [1, None]}),
        ("maybe", "null", None),
        ("maybe", "3", "3"),
        ("unit", "1", "1"),
        ("unknown", "[1]", [1]),
        ("unknown", "null", None),
        ("unknown", "so 中", "so 中"),
    ],
)
def test_an_argument_has_the_type_that_its_schema_declares(argument: str, text: str, value: Any) -> None:
    written = f"<tool_call><function=add><parameter={argument}>\n{text}\n</parameter></function></tool_call>"
    assert calls("qwen_xml", written) == [("add", {argument: value})]


def test_a_value_that_says_it_is_a_string_is_one() -> None:
    text = CALLS["deepseek_v4"].replace('string="false"', 'string="true"')
    assert calls("deepseek_v4", text) == [("add", {"a": "1"})]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("llama3", '{"name": "add", "parameters": {"a": 1}}', [("add", {"a": 1})]),
        ("llama3", ' {"name": "add", "arguments": {}}; {"name": "look", "parameters": {}}', [("add", {}), ("look", {})]),
        ("mistral", '[TOOL_CALLS]add{"a": 1}[TOOL_CALLS]look{}', [("add", {"a": 1}), ("look", {})]),
        ("mistral", '[TOOL_CALLS]add[CALL_ID]abc[ARGS]{"a": 1}', [("add", {"a": 1})]),
        (
            "mistral",
            '[TOOL_CALLS] [{"name": "add", "arguments": {}}, {"name": "look", "arguments": {}}]',
            [("add", {}), ("look", {})],
        ),
        ("glm", "<tool_call>look</tool_call>", [("look", {})]),
        ("glm", "<tool_call>add<arg_key>why</arg_key><arg_value>7</arg_value></tool_call>", [("add", {"why": "7"})]),
        ("qwen_xml", "<tool_call><function=look></function></tool_call>", [("look", {})]),
        ("qwen_xml", "<tool_call><function=look><parameter=x></parameter></function></tool_call>", [("look", {"x": ""})]),
        (
            "deepseek",
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>add<｜tool▁sep｜>{}<｜tool▁call▁end｜>\n"
            "<｜tool▁call▁begin｜>look<｜tool▁sep｜>{}<｜tool▁call▁end｜>",
            [("add", {}), ("look", {})],
        ),
        ("harmony", "<|channel|>commentary to=functions.add<|message|>{}", [("add", {})]),
        ("harmony", " to=functions.add<|channel|>commentary json<|message|>{}", [("add", {})]),
    ],
)
def test_other_spellings_of_a_format(name: str, text: str, expected: Any) -> None:
    assert calls(name, text) == expected


@pytest.mark.parametrize("text", ['{"answer": 3}', '{"name": "Ada", "age": 36}', "{so to speak}", "{", '{"a": '])
def test_an_answer_in_json_is_no_call(text: str) -> None:
    found = parse("llama3", text)
    assert (found["content"], found["calls"], found["malformed"]) == (text, [], 0)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("llama3", '{"name": "add", "parameters": [1]}'),
        ("llama3", "<|python_tag|>add.call(a=1)"),
        ("mistral", "[TOOL_CALLS] add(1)"),
        ("mistral", '[TOOL_CALLS][{"name": "add"}]'),
        ("mistral", "[TOOL_CALLS][]"),
        ("qwen_xml", "<tool_call><function=add>stray<parameter=a>1</parameter></function></tool_call>"),
        ("qwen_xml", "<tool_call><function=add><parameter=a>1</parameter><parameter=a>2</parameter></function></tool_call>"),
        ("qwen_xml", '<tool_call>{"name": "add", "arguments": {}}</tool_call>'),
        ("glm", "<tool_call>add <arg_key>a</arg_key></tool_call>"),
        ("glm", "<tool_call></tool_call>"),
        ("kimi", CALLS["kimi"].replace('{"a":1}', "[1]")),
        ("deepseek", CALLS["deepseek"].replace('{"a":1}', '{"a"')),
        ("deepseek", "<｜tool▁calls▁begin｜>nothing<｜tool▁calls▁end｜>"),
        ("minimax", CALLS["minimax"].replace('name="add"', "name=add")),
        ("harmony", "<|channel|>commentary to=functions.add<|message|>a=1<|call|>"),
    ],
)
def test_a_malformed_call_stays_as_it_was_written(name: str, text: str) -> None:
    found = parse(name, text)
    assert (found["content"], found["calls"], found["malformed"]) == (text, [], 1)


def test_a_section_keeps_its_readable_calls() -> None:
    bad = "<|tool_call_begin|>functions.look:1<|tool_call_argument_begin|>{<|tool_call_end|>"
    found = parse("kimi", CALLS["kimi"].replace("<|tool_calls_section_end|>", bad + "<|tool_calls_section_end|>"))
    assert (found["calls"], found["content"], found["malformed"]) == ([("add", '{"a":1}')], bad, 1)


def test_channels_become_reasoning_and_content() -> None:
    text = (
        "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>analysis<|message|>hm hm<|end|>"
        "<|start|>assistant<|channel|>final<|message|>So be it.\n"
    )
    found = parse("harmony", text)
    assert parse("harmony", *text) == found
    assert (found["reasoning"], found["content"]) == ("hm\nhm hm", "So be it.\n")


def test_reasoning_that_the_prompt_opened_is_reasoning() -> None:
    found = parse("mistral", "hm[/THINK]so", prompt="[INST]x[/INST][THINK]\n")
    assert (found["reasoning"], found["content"]) == ("hm", "so")


def texts(*names: str) -> list[dict[str, Any]]:
    return [tool("w", **{key: {"type": "string"} for key in names})]


def read_w(name: str, text: str, *names: str) -> dict[str, Any]:
    found = parse(name, text, tools=texts(*names))
    assert parse(name, *text, tools=texts(*names)) == found
    return {**found, "calls": [(called, json.loads(arguments)) for called, arguments in found["calls"]]}


WRITTEN = {
    "hermes": lambda value: f"<tool_call>\n{json.dumps({'name': 'w', 'arguments': {'t': value}})}\n</tool_call>",
    "qwen_xml": lambda value: f"<tool_call>\n<function=w>\n<parameter=t>\n{value}\n</parameter>\n</function>\n</tool_call>",
    "seed": lambda value: f"<seed:tool_call>\n<function=w>\n<parameter=t>{value}</parameter>\n</function>\n</seed:tool_call>",
    "glm": lambda value: f"<tool_call>w\n<arg_key>t</arg_key>\n<arg_value>{value}</arg_value>\n</tool_call>",
    "minimax": lambda value: (
        f'<minimax:tool_call>\n<invoke name="w">\n<parameter name="t">{value}</parameter>\n</invoke>\n</minimax:tool_call>'
    ),
    "deepseek_v4": lambda value: (
        '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="w">\n<｜DSML｜parameter name="t" string="true">'
        f"{value}</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>"
    ),
    "kimi": lambda value: (
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.w:0<|tool_call_argument_begin|>"
        f"{json.dumps({'t': value})}<|tool_call_end|><|tool_calls_section_end|>"
    ),
    "mistral": lambda value: f"[TOOL_CALLS]w[ARGS]{json.dumps({'t': value})}",
    "cohere": lambda value: f'<|START_ACTION|>[{{"tool_name": "w", "parameters": {json.dumps({"t": value})}}}]<|END_ACTION|>',
    "lfm2": lambda value: f"<|tool_call_start|>[w(t={value!r})]<|tool_call_end|>",
    "gemma": lambda value: f'<|tool_call>call:w{{t:<|"|>{value}<|"|>}}<tool_call|>',
}
VALUES = ("a\n", "\na", "\n", "", "  two\n\n lines \n\n", "é 中 🙂", "<b>1 < 2</b>", "x, y: {z}", "'it' \"is\"", "back\\slash")


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("name", WRITTEN)
def test_a_text_arrives_whole(name: str, value: str) -> None:
    assert read_w(name, WRITTEN[name](value), "t")["calls"] == [("w", {"t": value})]


@pytest.mark.parametrize("name", WRITTEN)
def test_a_closing_marker_inside_a_value_belongs_to_it(name: str) -> None:
    value = f"so: {CLOSERS[name].splitlines()[-1]} ends it"
    found = read_w(name, WRITTEN[name](value) + "done", "t")
    assert (found["calls"], found["content"], found["malformed"]) == ([("w", {"t": value})], "done", 0)


@pytest.mark.parametrize("name", ["hermes", "kimi", "cohere"])
def test_a_quote_that_was_forgotten_does_not_take_the_next_call(name: str) -> None:
    broken = WRITTEN[name]("x").replace('"x"', '"x')
    found = read_w(name, f"{broken}\n{WRITTEN[name]('y')}", "t")
    assert (found["calls"], found["malformed"]) == ([("w", {"t": "y"})], 1)


@pytest.mark.parametrize(
    "rest",
    [
        "<parameter=t>\nDallas\n<parameter=u>\nTX\n</parameter>\n</function>\n</tool_call>",
        "<parameter=t>\nDallas\n</parameter>\n<parameter=u>\nTX\n</function>\n</tool_call>",
        "<parameter=t>\nDallas\n<parameter=u>\nTX\n</function>\n</tool_call>",
    ],
)
def test_a_parameter_whose_end_was_forgotten_ends_before_the_next(rest: str) -> None:
    found = read_w("qwen_xml", f"<tool_call>\n<function=w>\n{rest}\n{WRITTEN['qwen_xml']('z')}", "t", "u")
    assert found["calls"] == [("w", {"t": "Dallas", "u": "TX"}), ("w", {"t": "z"})]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("glm", "<tool_call>w<arg_key>t</arg_key><arg_value>1<arg_key>u</arg_key><arg_value>2</arg_value></tool_call>"),
        ("minimax", WRITTEN["minimax"]('1\n<parameter name="u">2')),
        ("deepseek_v4", WRITTEN["deepseek_v4"]('1\n<｜DSML｜parameter name="u" string="true">2')),
    ],
)
def test_no_value_holds_the_argument_after_it(name: str, text: str) -> None:
    assert read_w(name, text, "t", "u")["calls"] == [("w", {"t": "1", "u": "2"})]


def test_a_function_without_its_outer_marker_is_a_call() -> None:
    text = "Let me see.\n<function=w>\n<parameter=t>\n1\n</parameter>\n</function>"
    found = read_w("qwen_xml", text, "t")
    assert (found["content"], found["calls"], found["malformed"]) == ("Let me see.", [("w", {"t": "1"})], 0)
    found = read_w("qwen_xml", text.removesuffix("</function>"), "t")
    assert (found["calls"], found["malformed"]) == ([], 1)


@pytest.mark.parametrize("name", ["hermes", "llama3", "mistral", "json_list", "internlm", "granite", "gigachat", "xlam"])
@pytest.mark.parametrize(
    ("written", "arguments"),
    [
        ("null", {}),
        ('""', {}),
        ('"{\\"t\\": 1}"', {"t": 1}),
        ('"{\\"t\\": "', None),
        ('"run it"', None),
        ("[1]", None),
        ("7", None),
    ],
)
def test_arguments_are_an_object_or_there_is_no_call(name: str, written: str, arguments: Any) -> None:
    text = CALLS[name].replace('{"a":1}', written).replace('"add"', '"w"')
    found = read_w(name, text)
    assert found["calls"] == ([] if arguments is None else [("w", arguments)])
    assert found["malformed"] == (arguments is None)


@pytest.mark.parametrize(
    ("name", "text", "given"),
    [
        ("kimi", CALLS["kimi"], "functions.add:0"),
        ("kimi", CALLS["kimi"].replace("functions.add:0", "add"), ""),
        ("mistral", '[TOOL_CALLS]add[CALL_ID]a1B2c3D4e[ARGS]{"a":1}', "a1B2c3D4e"),
        ("mistral", '[TOOL_CALLS][{"name": "add", "arguments": {"a":1}, "id": "a1B2c3D4e"}]', "a1B2c3D4e"),
        ("hermes", '<tool_call>{"name": "add", "arguments": {"a":1}, "id": "call-17"}</tool_call>', ""),
    ],
)
def test_a_call_has_the_id_that_the_model_wrote(name: str, text: str, given: str) -> None:
    parser = STYLES[name]("", tools=TOOLS, parallel=True)
    assert [piece.id for piece in [*parser.feed(text), *parser.finish()]] == [given]


def test_lists_and_objects_in_elements_have_the_types_of_their_schemas() -> None:
    properties = {
        "l": {"type": "array", "items": {"type": "string"}},
        "o": {"type": "object", "properties": {"n": {"type": "integer"}, "s": {"type": "string"}}},
    }
    mark = "]<]minimax[>["
    inner = "<l><item>1</item><item>x</item></l><o><n>1</n><s>1</s></o>"
    text = f'<tool_call>\n<invoke name="w">{inner}</invoke>\n</tool_call>'.replace("<", f"{mark}<")
    parser = STYLES["minimax_m3"]("", tools=[tool("w", **properties)], parallel=True)
    (piece,) = [*parser.feed(text), *parser.finish()]
    assert json.loads(piece.text) == {"l": ["1", "x"], "o": {"n": 1, "s": "1"}}


@pytest.mark.parametrize("value", ["['x', 'y\"z']", '["x", "y\\"z"]'])
def test_a_list_in_pythons_notation_is_a_list(value: str) -> None:
    tools = [tool("w", t={"type": "array"})]
    found = parse("seed", WRITTEN["seed"](value), tools=tools)
    assert json.loads(found["calls"][0][1]) == {"t": ["x", 'y"z']}


def test_the_markers_around_an_answer_are_not_part_of_it() -> None:
    text = "<|START_THINKING|>hm<|END_THINKING|><|START_RESPONSE|>So be it.<|END_RESPONSE|>"
    found = parse("cohere", text)
    assert parse("cohere", *text) == found
    assert (found["reasoning"], found["content"]) == ("hm", "So be it.")


def test_an_answer_may_begin_with_the_end_of_reasoning() -> None:
    found = parse("minimax_m3", "</mm:think>" + CALLS["minimax_m3"])
    assert (found["content"], len(found["calls"])) == ("", 1)


def test_every_format_can_be_configured() -> None:
    assert set(get_args(ToolCallFormat)) == {"auto", *STYLES}


@pytest.mark.parametrize(
    ("written", "arguments"),
    [
        ("why='it's \"so\", they say\n', a=1", {"why": 'it\'s "so", they say\n', "a": 1}),
        ("why='it\\'s', a=1", {"why": "it's", "a": 1}),
        ("from='x', why='class=1, from=2', class = 3", {"from": "x", "why": "class=1, from=2", "class": 3}),
        ("why=word, sure=true", {"why": "word", "sure": True}),
        ("a=007, how={'x', 'x'}, why='a\x000'", {"a": 7, "how": ["x", "x"], "why": "a\x000"}),
        ("how={'from': None, 'it\\'s': [1, 'a']}", {"how": {"from": None, "it's": [1, "a"]}}),
    ],
    ids=["open quotes", "escaped quotes", "words of Python's", "no quotes", "zeros and sets", "nested"],
)
@pytest.mark.parametrize("name", ["python", "lfm2"])
def test_python_is_read_as_templates_write_it(name: str, written: str, arguments: Any) -> None:
    found = parse(name, CALLS[name].replace("a=1", written))
    assert [(call, json.loads(text)) for call, text in found["calls"]] == [("add", arguments)]
    assert found == parse(name, *CALLS[name].replace("a=1", written))


@pytest.mark.parametrize("written", ["add(a=1)", '[{"name": "add", "arguments": {"a": 1}}]'])
def test_lfm2_writes_python_or_json(written: str) -> None:
    found = parse("lfm2", f"<|tool_call_start|>{written}<|tool_call_end|>")
    assert found["calls"] == [("add", '{"a": 1}')]


@pytest.mark.parametrize(("kind", "value"), [("array", []), ("object", {}), ("string", "")])
def test_an_element_without_a_text_is_what_its_schema_says(kind: str, value: Any) -> None:
    text = CALLS["minimax_m3"].replace("<a>1", "<x>").replace("</a>", "</x>")
    found = parse("minimax_m3", text, tools=[tool("add", x={"type": kind})])
    assert json.loads(found["calls"][0][1]) == {"x": value}


@pytest.mark.parametrize(
    ("kind", "written", "value"),
    [
        ("float", "3.14", 3.14),
        ("int", "3", 3),
        ("bool", "True", True),
        ("dict", "{'a': 1}", {"a": 1}),
        ("list", "[1]", [1]),
        ("str", "3", "3"),
    ],
)
def test_schemas_may_name_types_as_python_does(kind: str, written: str, value: Any) -> None:
    found = parse("qwen_xml", CALLS["qwen_xml"].replace("1", written), tools=[tool("add", a={"type": kind})])
    assert json.loads(found["calls"][0][1]) == {"a": value}


@pytest.mark.parametrize(
    "name", ["minimax", "minimax_m3", "deepseek", "deepseek_v32", "deepseek_v4", "kimi", "kimi_k3", "solar", "hunyuan"]
)
def test_a_call_without_its_section_is_a_call(name: str) -> None:
    section = STYLES[name].calls  # type: ignore[attr-defined] # a style
    bare = CALLS[name].removeprefix(section.opener).strip().removesuffix(section.close).strip()
    found = parse(name, f"so\n{bare}\nthen {bare}")
    assert found["calls"] == parse(name, CALLS[name], CALLS[name])["calls"]
    assert (found["content"], found["malformed"]) == ("so\nthen", 0)
    assert found == parse(name, *f"so\n{bare}\nthen {bare}")


def test_granite_writes_a_list_after_a_marker_that_others_close() -> None:
    assert parse("granite", '<tool_call> [{"name": "add", "arguments": {}}]')["calls"] == [("add", "{}")]


def test_llama_4_writes_python_between_markers() -> None:
    found = parse("python", f"<|python_start|>{CALLS['python']}<|python_end|>")
    assert (found["calls"], found["content"]) == ([("add", '{"a": 1}')], "")
