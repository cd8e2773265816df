"""Chat templates with bounds: rounds of loops, calls and texts count, so that none runs for long or fills the memory.

Jinja's sandbox keeps a template from other objects, and says nothing of its work. Work is counted and not timed, so that a
template is refused on every machine or on none.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from types import BuiltinMethodType
from typing import Any

from jinja2 import Environment, Template, nodes, pass_context
from jinja2.exceptions import TemplateError
from jinja2.runtime import Context, LoopContext, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

MOST_WORK = 50_000_000
"""Expressions of one rendering: the rounds of a loop times those in it. A real template has a few hundred for each message."""
LONGEST = 32 << 20
"""Characters of a text that a template makes, and of what it returns: several times the largest context of a model."""
LONGEST_SOURCE = 1 << 20
_SHORT = 4096
_SIZED = (str, bytes, list, tuple, dict)
_WIDE = re.compile(r"%[-#0 +.\d]*(\*|\d{4})|[:.][^{}]*(\d{4}|\{)")
"""A width in a format that is long, or comes from a value."""
_METHODS = {"replace", "join", "format", "format_map", "center", "ljust", "rjust", "zfill", "expandtabs", "translate", "to_bytes"}
"""Whose result may be larger than what goes in."""
_FILTERS = {"join", "replace", "format", "tojson", "indent", "center", "wordwrap", "batch", "slice", "sum", "urlize", "xmlattr"}
_TEXT_FILTERS = {"trim", "upper", "lower", "title", "capitalize", "e", "escape", "forceescape", "urlencode", "truncate"}
_TEXT_FILTERS |= {"wordcount"}
"""Which make a text of whatever goes in."""
_SIGNS: dict[str, Callable[[Any, Any], Any]] = {"*": operator.mul, "**": operator.pow, "%": operator.mod}


class TooMuch(TemplateError):
    """A template does more than it may."""


class _Work(Context):
    """The variables of a rendering, and what it has done so far."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # The contexts of blocks share these variables; no template can spell this name.
        self.done = self.parent.setdefault("work done", [0])

    def count(self, work: int) -> None:
        """Raise `TooMuch` once the template has done more than it may."""
        self.done[0] += work
        if self.done[0] > MOST_WORK:
            raise TooMuch(f"it works for too long (over {MOST_WORK:,} expressions)")

    def measure(self, value: Any) -> Any:
        """Return a value that was made; raise `TooMuch` for one that is too large."""
        if isinstance(value, _SIZED) and len(value) > _SHORT:
            _check(len(value))
            self.count(len(value) // 64 if isinstance(value, str | bytes) else len(value))
        return value

    def size(self, *values: Any) -> int:
        """Return the characters and values in something, each as often as it is there."""
        found, inside = 0, list(values)
        for value in inside:
            if isinstance(value, str | bytes):
                found += len(value)
                continue
            found += 1
            if isinstance(value, list | tuple | dict):
                _check(32 * (len(inside) + len(value)))
                inside += value
                if isinstance(value, dict):
                    inside += value.values()
        _check(found)
        self.count(4 * len(inside))
        return found


def _check(size: int) -> None:
    if size > LONGEST:
        raise TooMuch(f"it makes texts, lists or numbers that are too large (over {LONGEST:,} characters or values)")


def _check_growth(context: _Work, name: str, value: Any, args: Sequence[Any]) -> None:
    """Raise `TooMuch` before a text or a list becomes too large."""
    own = context.size(value)
    sizes = [abs(one) if isinstance(one, int) else context.size(one) for one in args]
    if name == "replace" and len(args) > 1:
        _check(own + str(value).count(str(args[0])) * sizes[1])
    elif name in ("format", "format_map", "%"):
        if _WIDE.search(str(value)):
            raise TooMuch("it fills a text up to a width that is too large, or that a value names")
        _check(own + str(value).count("%{"[name != "%"]) * sum(sizes))
    else:
        _check(max(1, abs(value) if isinstance(value, int) and name[0] == "*" else own) * max((1, *sizes)))


class _Bounded(ImmutableSandboxedEnvironment):
    context_class = _Work
    macro_weight = 50
    """What a call of a macro or block counts: its expressions, and as much as it takes besides."""

    @staticmethod
    def concat(pieces: Iterable[str]) -> str:
        pieces = list(pieces)
        _check(sum(map(len, pieces)))
        return "".join(pieces)

    def call(self, context: _Work, function: Any, /, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        kind = type(function)
        if kind is BuiltinMethodType or kind is Macro:
            # What `Context.call` would do, in less time.
            kwargs.pop("_loop_vars", None)
            kwargs.pop("_block_vars", None)
        if kind is Macro:
            context.count(self.macro_weight)
            return function(context.eval_ctx, *args, **kwargs)
        owner = getattr(getattr(function, "__wrapped__", function), "__self__", None)
        if owner is None or function.__name__ in _METHODS:
            context.count(self.macro_weight)
            given = [value for name, value in kwargs.items() if name not in ("_loop_vars", "_block_vars")]
            _check_growth(context, getattr(function, "__name__", "?"), owner, [*args, *given])
        if isinstance(function, LoopContext):
            raise TooMuch("it calls a loop; write a macro that calls itself")
        made = function(*args, **kwargs) if kind is BuiltinMethodType else super().call(context, function, *args, **kwargs)
        return made if type(made) is bool else context.measure(made)


@pass_context
def _rounds(context: _Work, values: Any, weight: int) -> Any:
    if not hasattr(values, "__len__"):
        values = list(islice(values, LONGEST))
        weight += 20
    context.count(len(values) * weight)
    return values


@pass_context
def _measure(context: _Work, value: Any) -> Any:
    return value if type(value) is str and len(value) < _SHORT else context.measure(value)


@pass_context
def _count(context: _Work, text: str) -> str:
    context.count(30 + len(text) // 4)
    return text


@pass_context
def _limit(context: _Work, value: Any) -> Any:
    if type(value) is not str:
        context.size(value)
    return value


@pass_context
def _text(context: _Work, *values: Any) -> str:
    texts = [value if type(value) is str else str(_limit(context, value)) for value in values]
    _check(sum(map(len, texts)))
    return str(context.measure("".join(texts)))


@pass_context
def _operate(context: _Work, left: Any, right: Any, sign: str) -> Any:
    if isinstance(left, str) or sign != "%":
        # The size of a power is in its exponent.
        _check_growth(context, sign, left, (right * 64,) if sign == "**" else (right,))
    return context.measure(_SIGNS[sign](left, right))


def _bound_filter(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    plain = not hasattr(original, "jinja_pass_arg")

    @pass_context
    def call(context: _Work, value: Any, *args: Any, **kwargs: Any) -> Any:
        value = list(islice(value, LONGEST)) if hasattr(value, "__next__") else value
        _check_growth(context, name, value, (*args, *kwargs.values()))
        if plain:
            return context.measure(original(value, *args, **kwargs))
        return context.measure(context.environment.call_filter(f"_{name}", value, args, kwargs, context=context))

    return call


class _Bounds(NodeTransformer):
    """Lets a template count what it does."""

    def __init__(self, tree: nodes.Template) -> None:
        self.made = _find_made(tree)

    def visit_For(self, node: Any) -> Any:
        if node.recursive:
            raise TooMuch("it has a recursive loop; write a macro that calls itself")
        node.iter = _filter(node.iter, "_rounds", nodes.Const(_weigh(node)))
        return self.generic_visit(node)

    def visit_Filter(self, node: Any) -> Any:
        self.generic_visit(node)
        if node.name in _TEXT_FILTERS and node.node is not None:
            node.node = _filter(node.node, "_limit")
        if node.name == "tojson" and not (node.args or node.kwargs) and _find_root(node.node) not in self.made:
            # As large as its part of the request: it suffices to measure the text.
            return _filter(_filter(node.node, "_tojson"), "_count")
        return node

    def visit_Concat(self, node: Any) -> nodes.Node:
        self.generic_visit(node)
        return _filter(node.nodes[0], "_text", *node.nodes[1:])

    def visit_Add(self, node: nodes.Add) -> nodes.Node:
        self.generic_visit(node)
        return node if isinstance(node.left, nodes.Const) or isinstance(node.right, nodes.Const) else _filter(node, "_measure")

    def visit_Assign(self, node: nodes.Assign) -> nodes.Node:
        self.generic_visit(node)
        node.node = _filter(node.node, "_measure") if isinstance(node.node, nodes.Add) else node.node
        return node

    def _bound_operator(self, node: Any) -> nodes.Node:
        self.generic_visit(node)
        return _filter(node.left, "_operate", node.right, nodes.Const(node.operator))

    visit_Mul = visit_Pow = visit_Mod = _bound_operator

    def _bound_list(self, node: Any) -> nodes.Node:
        self.generic_visit(node)
        named = any(not isinstance(part, nodes.Const | nodes.Pair) for part in node.find_all(nodes.Expr))
        return _filter(node, "_limit") if named and getattr(node, "ctx", "load") == "load" else node

    visit_List = visit_Tuple = visit_Dict = _bound_list

    def visit_Name(self, node: nodes.Name) -> nodes.Node:
        return _filter(node, "_limit") if node.name in ("varargs", "kwargs") and node.ctx == "load" else node


def _find_root(value: nodes.Node | None) -> str | None:
    """Return the name whose value, or a part of it, an expression is; None for all others."""
    while isinstance(value, nodes.Getattr | nodes.Getitem):
        value = value.node
    return value.name if isinstance(value, nodes.Name) else None


def _find_made(tree: nodes.Template) -> set[str | None]:
    """Return the names, and None for expressions, that may hold something else than a part of what a rendering is given."""
    loops, sets = tree.find_all(nodes.For), tree.find_all(nodes.Assign)
    sources = [(one.target, one.iter) for one in loops] + [(one.target, one.node) for one in sets]
    named = [(target.name, _find_root(value)) for target, value in sources if isinstance(target, nodes.Name)]
    made: set[str | None] = {None, "loop", "varargs", "kwargs"}
    known = {id(target) for target, _ in sources}
    made |= {name.name for name in tree.find_all(nodes.Name) if name.ctx != "load" and id(name) not in known}
    while more := {name for name, root in named if root in made} - made:
        made |= more
    return made


def _weigh(node: nodes.Node) -> int:
    return 2 + sum(1 for _ in node.find_all(nodes.Expr))


def _filter(value: nodes.Expr, name: str, *args: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(value, name, list(args), [], None, None, lineno=value.lineno)


def compile_template(source: str, like: Environment) -> Template:
    """Return a template with bounds, and with the settings, functions and extensions of another environment."""
    if len(source) > LONGEST_SOURCE:
        raise TooMuch(f"it is longer than {LONGEST_SOURCE:,} characters")
    kinds = [type(one) for one in like.extensions.values()]
    environment = _Bounded(trim_blocks=like.trim_blocks, lstrip_blocks=like.lstrip_blocks, extensions=kinds, finalize=_limit)
    environment.globals = {name: value for name, value in like.globals.items() if name != "lipsum"}
    own: dict[str, Callable[..., Any]] = {name: call for name, call in like.filters.items() if name != "pprint"}
    environment.filters = own | {f"_{name}": own[name] for name in _FILTERS}
    environment.filters |= {name: _bound_filter(name, own[name]) for name in _FILTERS}
    environment.filters |= {call.__name__: call for call in (_text, _rounds, _measure, _count, _limit, _operate)}
    environment.filters["string"] = _text
    tree = environment.parse(source)
    environment.macro_weight = max(map(_weigh, tree.find_all((nodes.Macro, nodes.Block, nodes.CallBlock))), default=0) + 50
    return environment.from_string(_Bounds(tree).visit(tree))
