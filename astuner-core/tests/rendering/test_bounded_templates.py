"""Chat templates that loop or grow are stopped, at the start and during a run; real ones render as they did."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from official_templates import FAMILIES, make_tokenizer, read_template
from test_official_templates import ADD, CONVERSATIONS, WEATHER, for_transformers
from transformers.utils import chat_template_utils

from astuner.contract.errors import AstunerError
from astuner.model.rendering import TemplateRenderer
from astuner.model.rendering.bounded_templates import TooMuch, compile_template
from astuner.model.rendering.compiled_template import CompiledTemplate
from astuner.model.rendering.errors import ApiError
from astuner_devkit.tokenizer import tiny_tokenizer

CHATML = tiny_tokenizer().chat_template
DOUBLE = "{% set ns = namespace(s='abcdefgh', l=[messages]) %}"
MACRO = "{% macro d(s) %}{{ s }}{{ s }}{% endmacro %}"
MANY = (
    "{% set s = 'a' * 9999999 %}{% set ns = namespace(l=[s]) %}{% for i in range(14) %}{% set ns.l = ns.l + ns.l %}{% endfor %}"
)
HOSTILE = {
    "nested loops": "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "three loops": "{% for i in range(9999) %}" * 3 + "x" + "{% endfor %}" * 3,
    "loops over text": "{% set t = 'a' * 99999 %}{% for i in t %}{% for j in t %}{{ i }}{% endfor %}{% endfor %}",
    "loops over a filter": "{% for i in ('a' * 999999)|map('upper') %}" * 2 + "{% endfor %}" * 2,
    "loop with much in it": "{% for i in range(99999) %}" + "{% if messages[0].content == i %}{% endif %}" * 900 + "{% endfor %}",
    "recursive loop": "{% for i in [[1]] recursive %}{{ loop(i) }}{% endfor %}",
    "macros that call twice": "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(60) }}",
    "blocks that call twice": "{% block b %}{% if messages %}{{ self.b() }}{% endif %}{% endblock %}",
    "power": "{{ (9 ** 99999999) % 7 }}",
    "power of powers": "{{ 9 ** 9 ** 9 ** 9 }}",
    "power of a variable": "{% set n = 99999999 %}{% if 9 ** n %}{% endif %}",
    "squares": "{% set n = namespace(x=99999) %}{% for i in range(60) %}{% set n.x = n.x * n.x %}{% endfor %}",
    "long text": "{{ ('a' * 2000000000)|length }}",
    "long text, other way": "{{ (2000000000 * 'a')|length }}",
    "doubled by plus": DOUBLE + "{% for i in range(40) %}{% set ns.s = ns.s + ns.s %}{% endfor %}{{ ns.s }}",
    "doubled by tilde": DOUBLE + "{% for i in range(40) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
    "doubled by join": DOUBLE + "{% for i in range(40) %}{% set ns.s = [ns.s, ns.s]|join %}{% endfor %}",
    "doubled by a method": DOUBLE + "{% for i in range(40) %}{% set ns.s = ''.join([ns.s, ns.s]) %}{% endfor %}",
    "doubled by replace": DOUBLE + "{% for i in range(40) %}{% set ns.s = ns.s.replace('a', 'aa') %}{% endfor %}",
    "doubled by a format": DOUBLE + "{% for i in range(40) %}{% set ns.s = '%s%s' % (ns.s, ns.s) %}{% endfor %}",
    "doubled by format": DOUBLE + "{% for i in range(40) %}{% set ns.s = '{0}{0}'.format(ns.s) %}{% endfor %}",
    "doubled by JSON": DOUBLE + "{% set ns.s = '\"' %}{% for i in range(60) %}{% set ns.s = ns.s|tojson %}{% endfor %}",
    "doubled by a block": DOUBLE + "{% for i in range(40) %}{% set ns.s %}{{ ns.s }}{{ ns.s }}{% endset %}{% endfor %}",
    "doubled by a macro": MACRO + DOUBLE + "{% for i in range(40) %}{% set ns.s = d(ns.s) %}{% endfor %}",
    "doubled line by line": "{% set s = 'abcdefgh' %}" + "{% set s = s ~ s %}" * 40,
    "doubled list": DOUBLE + "{% for i in range(40) %}{% set ns.l = ns.l + ns.l %}{% endfor %}",
    "list that holds itself twice": DOUBLE + "{% for i in range(40) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}",
    "list of lists": DOUBLE + "{% for i in range(40) %}{% set ns.l = [ns.l] + [ns.l] %}{% endfor %}{{ ns.l|tojson }}",
    "object of objects": DOUBLE + "{% for i in range(40) %}{% set ns.l = dict(a=ns.l, b=ns.l) %}{% endfor %}{{ ns.l }}",
    "repeated list": "{{ ([messages] * 99999999)|length }}",
    "much output": "{% set s = 'a' * 999999 %}{% for i in range(2100) %}{{ s }}{% endfor %}",
    "center": "{{ 'a'.center(2000000000)|length }}",
    "center filter": "{{ ('a'|center(2000000000))|length }}",
    "zfill": "{{ 'a'.zfill(2000000000)|length }}",
    "expandtabs": "{{ ('\\t' * 99999).expandtabs(999999)|length }}",
    "width": "{{ ('%2000000000d' % 1)|length }}",
    "width from a value": "{{ ('%*d' % (2000000000, 1))|length }}",
    "width of format": "{{ '{:2000000000}'.format(1)|length }}",
    "width of format from a value": "{{ '{:{}}'.format(1, 2000000000)|length }}",
    "indent": "{{ ('\\n' * 9999)|indent(999999)|length }}",
    "indented JSON": "{{ [[[1]], messages]|tojson(indent=2000000000) }}",
    "translate": "{{ ('a' * 99999).translate({97: 'b' * 99999})|length }}",
    "bytes": "{{ (1).to_bytes(2000000000)|length }}",
    "lipsum": "{{ lipsum(n=999999)|length }}",
    **{
        f"a long text many times, by {way}": MANY + "{{ " + way + " }}"
        for way in (
            "ns.l",
            "ns.l|upper",
            "ns.l|trim",
            "ns.l|pprint",
            "ns.l|tojson",
            "ns.l ~ ''",
            "ns.l|join",
            "''.join(ns.l)",
            "ns.l|string",
        )
    },
    **{
        f"made for JSON, by {way}": MANY + way
        for way in (
            "{% set a = ns.l %}{% set b = a[1:] %}{{ b|tojson }}",
            "{% set messages = ns.l %}{{ messages|tojson }}",
            "{% for a in [ns] %}{{ a.l|tojson }}{% endfor %}",
            "{% for a, b in [(ns.l, 1)] %}{{ a|tojson }}{% endfor %}",
            "{% with a = ns.l %}{{ a|tojson }}{% endwith %}",
            "{% macro m(a) %}{{ a|tojson }}{% endmacro %}{{ m(ns.l) }}",
            "{% for a in messages %}{% set a = ns.l %}{{ a|tojson }}{% endfor %}",
            "{% set a = range(99999)|map(attribute='z', default=ns.l)|list %}{{ a|tojson }}",
        )
    },
    "JSON many times": "{% for i in range(99999) %}{% for j in range(40) %}{% if messages|tojson %}{% endif %}"
    + "{% endfor %}" * 2,
    "source": "{# " + "x" * (1 << 21) + " #}",
}


@pytest.fixture(autouse=True)
def _little_memory() -> Iterator[None]:
    """Let a template that grows fail here, and not the machine."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (900 << 20), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_template_that_loops_or_grows_is_refused_at_the_start(name: str) -> None:
    started = time.thread_time()
    with pytest.raises(AstunerError, match=r"model\.path: the chat template of .* cannot render") as caught:
        TemplateRenderer(tiny_tokenizer(HOSTILE[name] + CHATML))
    assert time.thread_time() - started < 20
    assert "\n" not in str(caught.value)
    assert not isinstance(caught.value.__cause__, MemoryError)


@pytest.mark.parametrize("name", ["nested loops", "doubled by tilde", "much output"])
def test_a_template_that_waits_for_a_conversation_is_stopped_in_the_run(name: str) -> None:
    template = "{% if messages[0].content == 'now' %}" + HOSTILE[name] + "{% endif %}"
    renderer = TemplateRenderer(tiny_tokenizer(template + CHATML))
    renderer.render([{"role": "user", "content": "later"}], [], generate=True, kwargs={})
    with pytest.raises(ApiError, match="too"):
        renderer.render([{"role": "user", "content": "now"}], [], generate=True, kwargs={})


def test_what_tokenizers_of_this_process_render_is_bounded_too() -> None:
    tokenizer = tiny_tokenizer(HOSTILE["nested loops"])
    CompiledTemplate(tokenizer)
    with pytest.raises(TooMuch):
        tokenizer.apply_chat_template([{"role": "user", "content": "x", "reasoning": "y"}], tokenize=False)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_real_template_renders_as_without_bounds(family: str) -> None:
    tokenizer = make_tokenizer(family)
    CompiledTemplate(tokenizer)
    like = chat_template_utils._compile_jinja_template.like
    free, bounded = like.from_string(read_template(family)), compile_template(read_template(family), like)
    for messages in CONVERSATIONS.values():
        for tools in (None, [WEATHER, ADD]):
            values = {"messages": for_transformers(messages, False), "tools": tools, "add_generation_prompt": True}
            assert render(bounded, values) == render(free, values)


def render(template: Any, values: dict[str, Any]) -> str:
    try:
        return str(template.render(bos_token="<s>", eos_token="</s>", **values))
    except Exception as error:  # noqa: BLE001 - the same one with and without bounds
        return repr(error)
