"""A conversation that is rendered in steps reads as one that is rendered whole, byte for byte.

Long, since most of it are templates that a hasty reading of a message loop gets wrong, one for each way of looking back or ahead.
`ASTUNER_GROWTHS` is the number of random conversations for each template.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve, frozen
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from astuner.gateway import TemplateRenderer
from astuner.gateway.errors import ApiError
from astuner.gateway.messages import normalise
from astuner.gateway.rendering_compiled import CompiledTemplate
from astuner.gateway.rendering_conversations import RenderedConversations
from astuner.gateway.rendering_library import LibraryRenderer
from astuner.gateway.rendering_loop import NotInSteps
from astuner.gateway.rendering_steps import Steps, StepTemplate
from astuner.testing.tokenizer import tiny_tokenizer

pytestmark = pytest.mark.usefixtures("every_conversation_in_steps")

FOLDER = Path(__file__).parent / "templates"
FILES = ["chatml", *sorted(path.stem for path in FOLDER.glob("*.jinja"))]
GROWTHS = int(os.environ.get("ASTUNER_GROWTHS", "6"))
TOOLS = [{"type": "function", "function": {"name": name, "parameters": {"b": 1, "a": True}}} for name in ("add", "look")]
SAID = "{{ message.role }}: {{ message.content }}\n"
END = SAID + "{% endfor %}"
EACH = "{% for message in messages %}"
ALL = "{{ messages | map(attribute='content') | join(', ') }}"
"""For templates that leave messages out: a message that is nowhere is refused."""

FOLLOWED = {
    "before": EACH + "{{ messages[loop.index0 - 1].role if not loop.first }} " + END,
    "before the first": EACH + "{{ messages[loop.index0 - 1].content }} " + END,
    "after": EACH + "{{ messages[loop.index0 + 1] }} " + END,
    "far after": EACH + SAID + "{{ messages[loop.index + 2] }}{% endfor %}",
    "slice": EACH + SAID + "{% for m in messages[1:loop.index + 1] %}{{ m.role }}{% endfor %}{% endfor %}",
    "rest": EACH + SAID + "{% for m in messages[loop.index:] %}{{ m.role }}{% endfor %}{% endfor %}",
    "from the end": EACH + SAID + "{{ messages[-1].role }}{{ messages[-3:][0].role }}{% endfor %}",
    "last": EACH + SAID + "{{ '(end)' if loop.last }}{% endfor %}",
    "next": EACH + "{{ loop.previtem }}<{{ loop.nextitem }}" + END,
    "all but the first": "{% for message in messages[1:] %}{{ loop.index }}{{ messages[loop.index0].role }}" + END + ALL,
    "renamed": (
        "{% set rest = messages[1:] if messages[0].role == 'system' else messages %}{% for message in rest %}"
        + "{{ rest[0].role }}{{ rest[loop.index] }}{{ loop.index }}"
        + END
        + ALL
    ),
    "reset": (
        "{% set system = messages[0].content %}{% set messages = messages[1:] %}"
        + EACH
        + "{{ messages[loop.index0 - 1].role }}"
        + END
        + "{{ system }}"
    ),
    "reset and looked forward": (
        "{% set system = messages[0].content %}{% set messages = messages[1:] %}"
        + EACH
        + "{{ messages[loop.index].role if not loop.last }}"
        + END
        + "{{ system }}"
    ),
    "by two names": (
        "{% set rest = messages if enable_thinking else messages[1:] %}" + EACH + "{{ (rest[loop.index0] or {}).role }}" + END
    ),
    "only users": "{% for message in messages if message.role == 'user' %}" + END + ALL,
    "selected": "{% for message in messages | rejectattr('role', 'eq', 'system') %}{{ loop.index }}" + END + ALL,
    "reversed": "{% for message in messages | reverse %}" + SAID + "{{ loop.last }}{% endfor %}",
    "reversed in place": "{% for message in messages[::-1] %}" + END,
    "two loops": "{% for m in messages %}{{ m.role[0] }}{% endfor %}|" + EACH + END,
    "skipping": EACH + "{% if message.role == 'tool' %}{% continue %}{% endif %}" + END + ALL,
    "counting": (
        "{% set ns = namespace(n=0, last='') %}"
        + EACH
        + "{{ ns.n }}{{ ns.last }}"
        + SAID
        + "{% set ns.n = ns.n + 1 %}{% set ns.last = message.role %}{% endfor %}{{ ns.n }}"
    ),
    "carrying a list": (
        "{% set ns = namespace(all=[]) %}"
        + EACH
        + "{% set ns.all = ns.all + [message.role] %}{{ ns.all }}"
        + END
        + "{{ ns.all }}"
    ),
    "carrying what is used up": (
        "{% set ns = namespace(it=none) %}"
        + EACH
        + "{% if loop.index0 % 4 == 1 %}{% set ns.it = messages[:3] | map(attribute='role') %}{% endif %}"
        + "{{ ns.it | first if ns.it }}"
        + END
    ),
    "carrying a late field": (
        "{% set ns = namespace() %}"
        + EACH
        + "{{ ns.seen }}"
        + SAID
        + "{% if message.role == 'tool' %}{% set ns.seen = message.nothing if loop.last else message.content %}"
        + "{% endif %}{% endfor %}"
    ),
    "carrying the end": (
        "{% set ns = namespace() %}"
        + EACH
        + "{{ ns.end }}"
        + SAID
        + "{% set ns.end = messages[loop.index] is defined %}{% endfor %}"
    ),
    "a namespace for each": (
        EACH
        + "{% set ns = namespace(n=0) %}{% for c in message.tool_calls %}{% set ns.n = ns.n + loop.index %}"
        + "{% endfor %}{{ ns.n }}"
        + END
    ),
    "last question": (
        "{% set ns = namespace(last=-1) %}{% for m in messages[::-1] %}"
        + "{% if m.role == 'user' and ns.last < 0 %}{% set ns.last = messages | length - loop.index %}"
        + "{% endif %}{% endfor %}"
        + EACH
        + "{{ '*' if loop.index0 > ns.last }}"
        + END
    ),
    "number of messages": "{% set n = messages | length %}" + EACH + "{{ n - loop.index }}" + END,
    "used up": "{% set roles = messages | map(attribute='role') %}" + EACH + "{{ roles | first }}" + END,
    "macro": (
        "{% macro say(m, bare=false) %}{{ '' if bare else m.role }}{{ enable_thinking }}{{ m.content }}"
        + "{% for c in m.tool_calls %}{{ loop.index }}{% set n = c.function.name %}{{ n }}{% endfor %}"
        + "{% endmacro %}"
        + EACH
        + "{{ say(message, loop.first) }};{% endfor %}"
    ),
    "macro with a late value": (
        "{% set a = 1 %}{% macro say(m) %}{{ a }}{{ m.content }}{% endmacro %}"
        + "{% set a = messages | length // 4 %}"
        + EACH
        + "{{ say(message) }}{% endfor %}"
    ),
    "header": EACH + "{{ add_generation_prompt if loop.index0 % 3 == 0 }}" + END,
    "tools": "{{ tools | length if tools }}" + EACH + "{{ tools | tojson if loop.first }}" + END,
    "argument": EACH + "{{ enable_thinking }}" + END,
    "set afterwards": EACH + "{{ enable_thinking }}" + END + "{% set enable_thinking = 3 %}",
    "set in the loop": (
        EACH
        + "{% for c in [1] %}{{ enable_thinking }}{% endfor %}{% set enable_thinking = 3 %}"
        + "{{ enable_thinking }}"
        + END
        + "{{ enable_thinking }}"
    ),
    "set in a filtered loop": (
        "{% for message in messages if message.content %}{% for c in [1] %}{{ enable_thinking }}{% endfor %}"
        + "{% set enable_thinking = 3 %}"
        + END
    ),
    "set sometimes": (
        "{% if messages | length > 3 %}{% set enable_thinking = 3 %}{% endif %}" + EACH + "{{ enable_thinking }}" + END
    ),
    "set before": "{% set x %}{{ messages[0].role }}{{ enable_thinking }}{% endset %}" + EACH + "{{ x }}" + END,
    "order of fields": EACH + "{{ message | tojson }}{{ message.tool_calls }}{% endfor %}",
    "types of arguments": EACH + "{% for c in message.tool_calls %}{{ c | tojson }}{% endfor %}{% endfor %}" + ALL,
    "marked": EACH + "{% generation %}{{ loop.index }}{{ messages[loop.index] }}" + SAID + "{% endgeneration %}{% endfor %}",
    "blocks": (
        EACH
        + "{% set x %}{{ loop.index }}{% endset %}{% with y = x ~ '!' %}{% filter upper %}{{ y }}"
        + SAID
        + "{% endfilter %}{% endwith %}{% endfor %}"
        + ALL
    ),
    "a loop inside": (
        EACH
        + "{% for c in message.content %}{{ loop.cycle(1, 2) }}{{ loop.length }}{% if loop.index > 2 %}"
        + "{% break %}{% endif %}{% endfor %}"
        + END
    ),
    "refusing": EACH + "{% if 'y' in message.content %}{{ raise_exception('no y') }}{% endif %}" + END,
    "date before": "{% set now = strftime_now('%Y') %}" + EACH + "{{ now }}" + END,
    "space": (
        "  {%- for message in messages -%}  \n {{ message.content }}  \n\n  {%+ endfor %}" + "  \n {{ messages | length }}"
    ),
    "a namespace in a macro": (
        "{% set ns = namespace(n=0) %}{% macro m() %}{% set ns.n = ns.n + 1 %}{{ ns.n }}{% endmacro %}" + EACH + "{{ m() }}" + END
    ),
    "a namespace by two names": (
        "{% set ns = namespace(n=0) %}"
        + EACH
        + "{% if loop.first %}{% set ns = namespace(n=5) %}{% endif %}{% set ns.n = ns.n + 1 %}{{ ns.n }}"
        + END
    ),
    "a namespace of a macro": (
        "{% macro m(x) %}{% if x %}{% set ns = namespace(n=9) %}{% endif %}{% set ns.n = ns.n + 1 %}{{ ns.n }}{% endmacro %}"
        + "{% set ns = namespace(n=0) %}"
        + EACH
        + "{{ m(message.tool_calls) }}{{ ns.n }}"
        + END
    ),
    "range": EACH + "{{ range(2) | list if loop.first }}" + END,
    "begins where tools say": "{% for message in (messages[1:] if tools else messages) %}" + END + ALL,
    "filtered by an argument": "{% for message in messages if message.role != 'user' or enable_thinking %}" + END + ALL,
    "only the last": EACH + "{{ message.content if loop.last }}{% endfor %}",
}

NOT_FOLLOWED = {
    "a namespace made afterwards": EACH + "{% if false %}{% set ns.n = 1 %}{% endif %}" + END + "{% set ns = namespace() %}",
    "a namespace made elsewhere": "{% for x in [1] %}{% set ns = namespace() %}{% endfor %}"
    + EACH
    + "{% if false %}{% set ns.n = 1 %}{% endif %}"
    + END,
    "a namespace that is given": "{% macro m(ns) %}{% if ns > 1 %}{% set ns.n = 1 %}{% endif %}{% endmacro %}"
    + EACH
    + "{{ m(1) }}"
    + END,
    "no loop": "{{ messages | length }}",
    "loop in a branch": "{% if true %}" + EACH + END + "{% endif %}",
    "changed": EACH + "{{ loop.changed(message.role) }}" + END,
    "cycle": EACH + "{{ loop.cycle(1, 2) }}" + END,
    "length of the loop": EACH + "{{ loop.length }}" + END,
    "from its end": EACH + "{{ loop.revindex }}" + END,
    "the loop": "{% macro m(x) %}{{ x.length }}{% endmacro %}" + EACH + "{{ m(loop) }}" + END,
    "number of messages": EACH + "{{ messages | length }}" + END,
    "messages to a macro": "{% macro m(x) %}{{ x | length }}{% endmacro %}" + EACH + "{{ m(messages) }}{% endfor %}",
    "messages in a macro": "{% macro m() %}{{ messages[0].role }}{% endmacro %}" + EACH + "{{ m() }}" + END,
    "cycler": "{% set c = cycler(1, 2) %}" + EACH + "{{ cycler(1, 2).next() }}" + END,
    "joiner": EACH + "{{ joiner()() }}" + END,
    "time": EACH + "{{ strftime_now('%Y') }}" + END,
    "time in a macro": "{% macro m() %}{{ strftime_now('%Y') }}{% endmacro %}" + EACH + "{{ m() }}" + END,
    "random": EACH + "{{ [1] | random }}" + END,
    "identity": EACH + "{{ message is sameas(none) }}" + END,
    "break": EACH + "{% if loop.index > 3 %}{% break %}{% endif %}" + END,
    "else": EACH + SAID + "{% else %}nothing{% endfor %}",
    "recursive": "{% for message in messages recursive %}" + END,
    "taken apart": "{% for a, b in messages %}{{ a }}{{ b }}{% endfor %}",
    "counted with a filter": "{% for message in messages if message.content %}{{ loop.index }}" + END,
    "set in its filter": "{% for message in messages if x is not defined %}{% set x = 1 %}" + END,
    "another name for a namespace": (
        "{% set ns = namespace(n=0) %}" + EACH + "{% set other = ns %}{% set other.n = other.n + 1 %}{{ ns.n }}" + END
    ),
    "another name before": (
        "{% set ns = namespace(n=0) %}{% set other = ns %}" + EACH + "{% set other.n = other.n + 1 %}{{ ns.n }}" + END
    ),
    "another range": "{% macro range(x) %}{{ x }}{% endmacro %}{% set range = 1 %}" + EACH + "{{ range }}{% endfor %}",
    "block": EACH + END + "{% block b %}{% endblock %}",
    "macro in the loop": EACH + "{% macro m() %}1{% endmacro %}{{ m() }}" + END,
    "called back": "{% macro m() %}{{ caller() }}{% endmacro %}" + EACH + "{% call m() %}1{% endcall %}{% endfor %}",
    "a name of its own": EACH + "{{ _astuner_turn }}" + END,
}

SOURCES = {**FOLLOWED, **{f"not {name}": source for name, source in NOT_FOLLOWED.items()}}


class Whole(TemplateRenderer):
    """Remembers nothing."""

    def _remembering(self) -> None:
        return None


@cache
def one_tokenizer() -> Any:
    return tiny_tokenizer()


@cache
def renderers(template: str) -> tuple[TemplateRenderer, TemplateRenderer]:
    """Return one that renders in steps, and one that renders whole."""
    tokenizer = copy.copy(one_tokenizer())
    if template in SOURCES:
        tokenizer.chat_template = SOURCES[template]
    elif (path := FOLDER / f"{template}.jinja").exists():
        tokenizer.chat_template = path.read_text(encoding="utf-8")
    return TemplateRenderer(tokenizer), Whole(tokenizer)


def step_template(source: str) -> StepTemplate:
    from transformers.utils.chat_template_utils import _compile_jinja_template

    return StepTemplate(source, _compile_jinja_template(source).environment)


texts = st.sampled_from(
    ["", " ", "x", "yes", "y", "{{ 1 }}", "é 中", "a\n", '"q"', "<think>h</think>so", "<|im_end|>", "word " * 9, "\ud800"]
)
argument_texts = st.sampled_from(
    ['{"a": 1}', '{"a": true}', '{"a": 1.0}', '{"b": 2, "a": 1}', '{"a": 1, "b": 2}', "{}", "no", "[1]"]
)
calls = st.lists(
    st.builds(
        lambda id_, name, arguments: {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}},
        st.sampled_from(["123456789", "123456780", "f", ""]),
        st.sampled_from(["add", "look"]),
        argument_texts,
    ),
    max_size=2,
)
assistants = st.builds(
    lambda said, thought, called: {"role": "assistant", "content": said, "reasoning_content": thought, "tool_calls": called},
    texts,
    st.sampled_from(["", "", "hm"]),
    st.one_of(st.just([]), calls),
)
results = st.builds(
    lambda content, id_, name: {"role": "tool", "content": content, "tool_call_id": id_, **name},
    texts,
    st.sampled_from(["123456789", "123456780", ""]),
    st.sampled_from([{}, {"name": "add"}]),
)
others = st.builds(
    lambda role, content, name: {"role": role, "content": content, **name},
    st.sampled_from(["user", "user", "user", "system"]),
    texts,
    st.sampled_from([{}, {}, {"name": "bob"}]),
)
a_message = st.one_of(assistants, results, others)
exchange = st.tuples(assistants, st.one_of(results, others)).map(list)
"""The common way to go on."""
given_variables = st.sampled_from(
    [{}] * 6
    + [{"enable_thinking": value} for value in (True, False, 1, 0, None)]
    + [{"open_think": True}, {"date_string": "1"}, {"range": 1}, {"namespace": 2}, {"say": 3}]
    + [{"messages": []}, {"self": 1}, {"tool": {}}]
)


@frozen(kw_only=True)
class Request:
    """What one call renders: messages are added, another put in place of one, or the last ones dropped first."""

    kept: float
    changed: Mapping[str, Any] | None
    added: list[dict[str, Any]]
    tools: int
    kwargs: Mapping[str, Any]
    generate: bool
    reordered: bool


requests = st.builds(
    Request,
    kept=st.sampled_from([1.0] * 8 + [0.9, 0.7, 0.4, 0.0]),
    changed=st.one_of(st.none(), st.none(), st.none(), a_message),
    added=st.one_of(exchange, exchange, exchange, exchange, st.lists(a_message, max_size=3)),
    tools=st.sampled_from([2] * 6 + [1, 0]),
    kwargs=given_variables,
    generate=st.sampled_from([True, True, True, False]),
    reordered=st.sampled_from([False] * 7 + [True]),
)
growths = st.lists(requests, min_size=3, max_size=14)
OPENING = [{"role": "system", "content": "be"}, {"role": "user", "content": "hello"}]


def outcome(renderer: TemplateRenderer, messages: Any, request: Request) -> Any:
    try:
        return renderer.render(messages, TOOLS[: request.tools], generate=request.generate, kwargs=dict(request.kwargs))
    except ApiError as error:
        return error.status, str(error), error.param


def grow(steps: TemplateRenderer, whole: TemplateRenderer, growth: list[Request]) -> None:
    messages = list(OPENING)
    for request in growth:
        messages = messages[: round(len(messages) * request.kept)]
        if request.changed and messages:
            messages[len(request.added) * 7 % len(messages)] = dict(request.changed)
        messages = [*messages, *request.added] or list(OPENING)
        # Read from JSON each time, as a request is.
        sent = normalise(json.loads(json.dumps(messages)))
        if request.reordered:
            sent = tuple(dict(reversed(message.items())) for message in sent)
        assert outcome(whole, sent, request) == outcome(steps, sent, request)
        shorter, without_header = sent[: len(sent) - len(request.added)] or sent, evolve(request, generate=False)
        assert outcome(whole, shorter, without_header) == outcome(steps, shorter, without_header)


def growing(examples: int) -> Callable[[Any], Any]:
    def decorate(test: Any) -> Any:
        test = given(growth=growths)(test)
        return settings(max_examples=examples, suppress_health_check=list(HealthCheck), database=None)(test)

    return decorate


@pytest.mark.parametrize("template", FILES)
@growing(GROWTHS)
def test_a_growing_conversation_reads_as_a_whole_one(template: str, growth: list[Request]) -> None:
    grow(*renderers(template), growth)


@pytest.mark.parametrize("template", FOLLOWED)
@growing(GROWTHS)
def test_so_it_does_whatever_the_template_looks_at(template: str, growth: list[Request]) -> None:
    grow(*renderers(template), growth)


@pytest.mark.parametrize("template", [name for name in SOURCES if name not in FOLLOWED])
@growing(max(1, GROWTHS // 4))
def test_so_it_does_where_the_template_is_rendered_whole(template: str, growth: list[Request]) -> None:
    grow(*renderers(template), growth)


@pytest.mark.parametrize("template", ["chatml", "qwen25", "qwen3", "counting", "kimi", "alternating"])
@growing(GROWTHS)
def test_so_it_does_with_little_memory(template: str, growth: list[Request]) -> None:
    steps = copy.copy(renderers(template)[0])
    forgetful = RenderedConversations(CompiledTemplate(steps.tokenizer), steps.shape, most=2, most_bytes=3000)
    steps._conversations = forgetful
    grow(steps, renderers(template)[1], growth)
    assert len(forgetful._kept) <= 2
    assert forgetful._size <= 3000


@pytest.mark.parametrize("template", FILES)
def test_these_templates_are_followed(template: str) -> None:
    assert step_template(renderers(template)[0].tokenizer.chat_template)


@pytest.mark.parametrize("template", FOLLOWED)
def test_these_constructs_are_followed(template: str) -> None:
    assert step_template(FOLLOWED[template])


@pytest.mark.parametrize("template", FOLLOWED)
def test_these_constructs_render(template: str) -> None:
    messages = normalise([*OPENING[:1], *talk(2)] if template != "only the last" else OPENING[:1])
    assert isinstance(renderers(template)[0].render(messages, TOOLS, generate=True, kwargs={}), str)


@pytest.mark.parametrize("template", NOT_FOLLOWED)
def test_these_constructs_are_not(template: str) -> None:
    with pytest.raises(NotInSteps):
        step_template(NOT_FOLLOWED[template])


def talk(turns: int) -> list[dict[str, Any]]:
    call = {"id": "123456789", "type": "function", "function": {"name": "add", "arguments": {"a": 1}}}
    answer = {"role": "assistant", "content": "so", "tool_calls": [call]}
    turn = [answer, {"role": "tool", "content": "7", "tool_call_id": "123456789"}]
    return [{"role": "user", "content": "sum?"}, *(turn * turns)]


def tell(turns: int) -> list[dict[str, Any]]:
    turn = [{"role": "assistant", "content": "so"}, {"role": "user", "content": "and?"}]
    return [{"role": "user", "content": "sum?"}, *(turn * turns)]


def taken_over(template: str, messages: list[dict[str, Any]], earlier: list[dict[str, Any]], **changes: Any) -> int:
    """Return how many messages are not rendered again."""
    made = step_template(renderers(template)[0].tokenizer.chat_template)
    variables = {"tools": TOOLS, "add_generation_prompt": True}
    before = made.render(variables, earlier)
    assert before is not None
    after = made.render({**variables, **changes}, messages, before, min(len(messages), len(earlier)))
    assert isinstance(after, Steps)
    return 0 if after.shared == after.head else after.first + after.starts.index(after.shared - after.head)


@pytest.mark.parametrize("template", [name for name in FILES if name not in ("alternating", "qwen25")])
def test_what_is_added_to_a_talk_with_tools_is_all_that_is_rendered(template: str) -> None:
    assert len(talk(9)) == taken_over(template, talk(10), talk(9))


def test_results_that_share_a_turn_with_the_next_are_rendered_again() -> None:
    assert len(talk(9)) - 1 == taken_over("qwen25", talk(10), talk(9))


@pytest.mark.parametrize("template", ["chatml", "plain", "qwen_xml", "qwen25", "deepseek", "kimi", "llama3", "alternating"])
def test_what_is_added_to_a_talk_is_all_that_is_rendered(template: str) -> None:
    assert len(tell(9)) == taken_over(template, tell(10), tell(9))


@pytest.mark.parametrize("template", ["forgetful", "glm", "mistral", "qwen3"])
def test_what_a_new_question_may_change_is_rendered_again(template: str) -> None:
    assert taken_over(template, tell(10), tell(9)) == 0


@pytest.mark.parametrize("template", FILES)
def test_a_shorter_conversation_takes_all_from_a_longer_one(template: str) -> None:
    earlier = tell(9) if template == "alternating" else talk(9)
    assert len(earlier) - 2 <= taken_over(template, earlier[:-1], earlier)


@pytest.mark.parametrize("template", ["chatml", "llama3", "qwen3"])
def test_the_header_of_the_next_answer_changes_no_message(template: str) -> None:
    assert len(talk(9)) == taken_over(template, talk(9), talk(9), add_generation_prompt=False)


def told(template: str, *conversations: list[dict[str, Any]], kwargs: Mapping[str, Any] | None = None) -> tuple[Any, Any]:
    """Return what the last of some conversations is, after the others and alone; `kwargs` come with the last."""
    steps, whole = renderers(template)
    request = Request(kept=1, changed=None, added=[], tools=2, kwargs={}, generate=True, reordered=False)
    for conversation in conversations[:-1]:
        outcome(steps, normalise(conversation), request)
    last, request = normalise(conversations[-1]), evolve(request, kwargs=kwargs or {})
    return outcome(steps, last, request), outcome(whole, last, request)


def test_a_result_is_named_after_a_call_that_was_rendered_before() -> None:
    after, alone = told("kimi", talk(5)[:-1], talk(5))
    assert after == alone
    assert "## Return of functions.add:4" in after


def test_what_was_shown_before_and_is_dropped_now_is_refused() -> None:
    opening = [{"role": "user", "content": "first"}]
    after, alone = told("only the last", opening, [*opening, {"role": "user", "content": "second"}])
    assert after == alone
    assert "drops messages[0]" in after[1]


def test_a_variable_that_takes_the_name_of_a_function_is_refused_as_ever() -> None:
    after, alone = told("range", tell(3), tell(4), kwargs={"range": 1})
    assert after == alone
    assert "not callable" in after[1]


@pytest.mark.parametrize("later", [1, 1.0, True])
def test_equal_arguments_of_other_types_are_told_apart(later: object) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "add", "arguments": json.dumps({"a": later})}}
    other = {**call, "function": {"name": "add", "arguments": '{"a": 1}'}}
    conversations = [[*tell(1), {"role": "assistant", "content": "", "tool_calls": [each]}, *tell(1)] for each in (other, call)]
    after, alone = told("types of arguments", *conversations)
    assert after == alone
    assert json.dumps({"a": later}) in after


def test_a_conversation_is_found_among_its_siblings(renderer: TemplateRenderer) -> None:
    remembered = RenderedConversations(CompiledTemplate(renderer.tokenizer), renderer.shape)
    siblings = [normalise([*talk(1), {"role": "user", "content": f"no {number}"}]) for number in range(5)]
    for sibling in siblings:
        remembered.render(sibling, (), True, {})
    grown = [(*sibling, *normalise(tell(1))) for sibling in siblings]
    for sibling in grown:
        remembered.render(sibling, (), True, {})
    assert [conversation.messages for conversation in remembered._kept] == grown


def test_the_least_used_conversation_is_forgotten(renderer: TemplateRenderer) -> None:
    remembered = RenderedConversations(CompiledTemplate(renderer.tokenizer), renderer.shape, most=2)
    first, second, third = (normalise([{"role": "user", "content": content}]) for content in ("a", "b", "c"))
    for messages in (first, second, first, third):
        remembered.render(messages, (), True, {})
    assert [conversation.messages for conversation in remembered._kept] == [first, third]


def test_what_it_remembers_is_what_it_counts(renderer: TemplateRenderer) -> None:
    remembered = RenderedConversations(CompiledTemplate(renderer.tokenizer), renderer.shape, most_bytes=4000)
    for turns in (*range(1, 30), 3, 4, 1):
        remembered.render(normalise(talk(turns)), (), True, {})
    assert remembered._size == sum(conversation.size for conversation in remembered._kept)
    assert sorted(map(id, remembered._kept)) == sorted(id(one) for group in remembered._by_key.values() for one in group)


def test_the_renderers_library_renders_whole() -> None:
    assert LibraryRenderer._remembering(None) is None  # type: ignore[arg-type]
