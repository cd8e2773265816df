"""The loop over the messages of a chat template: what each turn of it depends on, and the template with that loop opened."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from attrs import define, field, frozen
from jinja2 import Environment, nodes
from jinja2.filters import FILTERS

OWN = "_astuner_"
STEPS = f"{OWN}steps"
"""The template's name for the function that hands out the turns of the loop."""
TURN = f"{OWN}turn"
"""The template's name for what `loop` is in the original."""
VIEW = f"{OWN}view_"
"""Begins the template's names for the conversation, where single messages of it are looked up."""

LOOP_ATTRIBUTES = frozenset(("index", "index0", "first", "last", "previtem", "nextitem"))
PURE_GLOBALS = frozenset(("range", "dict", "namespace", "raise_exception"))
PURE_FILTERS = (frozenset(FILTERS) - {"random"}) | {"tojson"}

PLAIN_NODES = (
    nodes.Output,
    nodes.TemplateData,
    nodes.If,
    nodes.Assign,
    nodes.AssignBlock,
    nodes.With,
    nodes.FilterBlock,
    nodes.Const,
    nodes.Tuple,
    nodes.List,
    nodes.Dict,
    nodes.Pair,
    nodes.Keyword,
    nodes.CondExpr,
    nodes.Call,
    nodes.Getitem,
    nodes.Getattr,
    nodes.Slice,
    nodes.Concat,
    nodes.Compare,
    nodes.Operand,
    nodes.BinExpr,
    nodes.UnaryExpr,
)
"""Depend on what they are made of, and on nothing else."""


class NotInSteps(Exception):
    """A template whose turns may depend on more than can be followed; the message says on what."""


@frozen(kw_only=True)
class MessageLoop:
    """A template whose loop over the messages takes its turns from a function, and what those turns read."""

    template: nodes.Template
    """The loop is `for turn, *views, message in steps(messages)`, without a filter and without `loop`."""
    reads: tuple[str, ...]
    """Names of outside that the turns read, but for the views and what never changes."""
    views: tuple[str, ...]
    """Names of outside that may be the conversation and are only used to look up messages: `messages[i]`."""
    carried: tuple[tuple[str, str], ...]
    """Namespaces and their attributes that a turn may write and a later one read."""
    fixed: frozenset[str]
    """Names that mean what they mean to the template; with a variable of such a name it says something else."""


def find_loop(template: nodes.Template, environment: Environment) -> MessageLoop:
    """Find the last loop over the messages and open it; the template is changed. Raises NotInSteps.

    White space is settled when Jinja reads a template: trimmed or kept, it is text in the tree by now, so nothing that is
    done to the tree moves any.
    """
    _refuse_strange(template)
    conversational = _conversational(template)
    places = [
        place
        for place, node in enumerate(template.body)
        if isinstance(node, nodes.For) and any(name.name in conversational for name in _names(node.iter))
    ]
    if not places:
        raise NotInSteps("no loop over the messages stands at the top")
    loop = template.body[places[-1]]
    assert isinstance(loop, nodes.For)
    if loop.else_ or loop.recursive or not isinstance(loop.target, nodes.Name):
        raise NotInSteps("the loop has an else, calls itself or takes messages apart")
    assigned = _assigned(template, places[-1])
    macros = {node.name: node for node in template.body if isinstance(node, nodes.Macro)}
    if shadowed := (PURE_GLOBALS | macros.keys()) & assigned.keys():
        raise NotInSteps(f"{sorted(shadowed)} have a second meaning")
    if sum(1 for macro in template.find_all(nodes.Macro) if macro.name in macros) != len(macros):
        raise NotInSteps("two macros have one name")
    body = _Reader(environment=environment, macros=macros)
    body.read(loop.body, scope="loop")
    _open_filter(loop, body)

    def is_view(name: str) -> bool:
        outside = all(place == "before" for place, _ in assigned.get(name, ()))
        return name in conversational and outside and name not in body.reads

    views = tuple(sorted(filter(is_view, body.looked_up)))
    reads = (body.reads | body.looked_up.keys()) - {loop.target.name, *views}
    if "messages" in reads:
        raise NotInSteps("the loop uses 'messages' as a whole")
    carried = tuple(sorted(_carried(body, assigned)))
    for node in body.turns:
        node.name = TURN
    for name in views:
        for node in body.looked_up[name]:
            node.name = VIEW + name
    line = loop.lineno
    targets = [nodes.Name(name, "store", lineno=line) for name in (TURN, *(VIEW + name for name in views))]
    loop.target = nodes.Tuple([*targets, loop.target], "store", lineno=line)
    loop.iter = nodes.Call(nodes.Name(STEPS, "load", lineno=line), [loop.iter], [], None, None, lineno=line)
    template.set_environment(environment)
    reads |= {name for name, _ in carried}
    fixed = PURE_GLOBALS | macros.keys()
    return MessageLoop(template=template, reads=tuple(sorted(reads)), views=views, carried=carried, fixed=fixed)


@define(eq=False)
class _Reader:
    """Collects what the body of the loop, and the macros that it calls, read and write."""

    environment: Environment
    macros: Mapping[str, nodes.Macro]
    reads: set[str] = field(factory=set)
    stores: set[str] = field(factory=set)
    writes: set[tuple[str, str, str]] = field(factory=set)
    """Where, the name of a namespace and of its attribute."""
    looked_up: dict[str, list[nodes.Name]] = field(factory=lambda: defaultdict(list))
    """Names in the body of which an element is taken."""
    turns: list[nodes.Name] = field(factory=list)
    """The places that say `loop` and mean this one."""
    _entered: set[str] = field(factory=set)

    def read(self, found: nodes.Node | Iterable[nodes.Node], *, scope: str, nested: bool = False) -> None:
        """Read nodes; `scope` is `loop` or the macro in which they stand, `nested` says that `loop` is one inside."""
        if not isinstance(found, nodes.Node):
            for node in found:
                self.read(node, scope=scope, nested=nested)
            return
        match found:
            case nodes.Getattr(node=nodes.Name(name="loop") as name) if scope == "loop" and not nested:
                if found.attr not in LOOP_ATTRIBUTES:
                    raise NotInSteps(f"loop.{found.attr}")
                self.turns.append(name)
            case nodes.Getitem(node=nodes.Name() as name) if scope == "loop" and name.name != "loop" and not _is_key(found.arg):
                self._refuse_global(name.name)
                self.looked_up[name.name].append(name)
                self.read(found.arg, scope=scope, nested=nested)
            case nodes.Name(ctx="load"):
                self._load(found.name, nested)
            case nodes.Name():
                self.stores.add(found.name)
            case nodes.NSRef():
                self.writes.add((scope, found.name, found.attr))
            case nodes.For(recursive=False):
                # Not every version of Jinja agrees on which loop `loop` is in a filter or an `else`.
                if any(name.name == "loop" for part in (found.test, *found.else_) if part for name in _names(part)):
                    raise NotInSteps("'loop' in the filter or the else of a loop")
                self.read((found.iter, found.target), scope=scope, nested=nested)
                self.read([*([found.test] if found.test else ()), *found.body, *found.else_], scope=scope, nested=True)
            case nodes.Break() | nodes.Continue() if nested or isinstance(found, nodes.Continue):
                pass
            case nodes.CallBlock(call=nodes.Call(node=nodes.ExtensionAttribute(name="_generation_support"))):
                # Marks what an assistant says, and returns it as it is.
                self.read(found.body, scope=scope, nested=nested)
            case nodes.Filter() if found.name in PURE_FILTERS:
                self.read(found.iter_child_nodes(), scope=scope, nested=nested)
            case nodes.Test() if found.name != "sameas":
                self.read(found.iter_child_nodes(), scope=scope, nested=nested)
            case _ if isinstance(found, PLAIN_NODES):
                self.read(found.iter_child_nodes(), scope=scope, nested=nested)
            case _:
                raise NotInSteps(f"{type(found).__name__} {getattr(found, 'name', '')}".strip())

    def _load(self, name: str, nested: bool) -> None:
        if name == "loop" and nested:
            return
        if name in ("loop", "self", "caller"):
            raise NotInSteps(f"'{name}' as a whole")
        self._refuse_global(name)
        if name not in self.macros:
            if name not in PURE_GLOBALS:
                self.reads.add(name)
        elif name not in self._entered:
            self._entered.add(name)
            macro = self.macros[name]
            self.read([*macro.defaults, *macro.args, *macro.body], scope=f"macro {name}")

    def _refuse_global(self, name: str) -> None:
        if name in self.environment.globals and name not in PURE_GLOBALS and name not in self.macros:
            raise NotInSteps(f"{name}()")


def _refuse_strange(template: nodes.Template) -> None:
    others = nodes.Extends | nodes.Include | nodes.Import | nodes.FromImport | nodes.Block
    for node in template.find_all(nodes.Stmt):
        if isinstance(node, others):
            raise NotInSteps(type(node).__name__)
    if any(name.name.startswith(OWN) for name in template.find_all(nodes.Name)):
        raise NotInSteps(f"a name that begins with {OWN}")


def _conversational(template: nodes.Template) -> set[str]:
    """Return the names that may stand for the conversation or for a part of it."""
    found = {"messages"}
    for assign in template.find_all(nodes.Assign):
        if any(name.name in found for name in _names(assign.node)):
            found.update(name.name for name in _names(assign.target))
    return found


def _open_filter(loop: nodes.For, body: _Reader) -> None:
    """Let the loop take every message, and its body skip those that its filter does not take.

    `loop` counts what the filter takes, so it must not be asked.
    """
    if loop.test is None:
        return
    read = {name.name for name in _names(loop.test)}
    if body.turns or "loop" in read or read & body.stores:
        raise NotInSteps("'loop' or a name that is set in a loop with a filter")
    body.read(loop.test, scope="loop")
    line = loop.lineno
    skip = nodes.If(nodes.Not(loop.test, lineno=line), [nodes.Continue(lineno=line)], [], [], lineno=line)
    loop.test, loop.body = None, [skip, *loop.body]


def _carried(body: _Reader, assigned: Mapping[str, list[tuple[str, nodes.Node | None]]]) -> Iterator[tuple[str, str]]:
    """Yield what a turn may leave to the next: attributes of namespaces that are made before the loop.

    One that is made where it is written to lasts no longer than the turn. Where both have one name, either may be meant, and
    it does no harm to count what is never written.
    """
    for scope, name, attribute in body.writes:
        # What is set in a macro or a loop is not seen outside of it.
        seen = [(place, value) for place, value in assigned.get(name, ()) if place in ("before", "after", scope)]
        made = all(
            isinstance(value, nodes.Call) and isinstance(value.node, nodes.Name) and value.node.name == "namespace"
            for _, value in seen
        )
        places = {place for place, _ in seen}
        if not places or not made or "after" in places:
            raise NotInSteps(f"{name}.{attribute} is set, and it is not clear whose it is")
        if "before" in places:
            yield name, attribute


def _assigned(template: nodes.Template, loop: int) -> dict[str, list[tuple[str, nodes.Node | None]]]:
    """Return, for each name that gets a value, where it does, and the value where a plain `set` says it.

    Where is `before` or `after` the loop at the top, `loop`, a macro, or `elsewhere`.
    """
    found: dict[str, list[tuple[str, nodes.Node | None]]] = defaultdict(list)

    def enter(node: nodes.Node, place: str) -> None:
        if isinstance(node, nodes.Assign) and isinstance(node.target, nodes.Name):
            found[node.target.name].append((place, node.node))
            return
        if isinstance(node, nodes.AssignBlock):
            enter(node.target, place)
            place = "elsewhere" if place in ("before", "after") else place
        if isinstance(node, nodes.Name) and node.ctx != "load":
            found[node.name].append((place, None))
        if isinstance(node, nodes.Macro):
            place = f"macro {node.name}" if place in ("before", "after") else "elsewhere"
        elif place in ("before", "after") and not isinstance(node, nodes.If | nodes.Assign | nodes.Tuple):
            place = "elsewhere"
        for child in node.iter_child_nodes():
            enter(child, place)

    for number, node in enumerate(template.body):
        if number == loop:
            for child in node.iter_child_nodes():
                enter(child, "loop")
        else:
            enter(node, "before" if number < loop else "after")
    return found


def _names(node: nodes.Node) -> Iterator[nodes.Name]:
    if isinstance(node, nodes.Name):
        yield node
    yield from node.find_all(nodes.Name)


def _is_key(node: nodes.Node) -> bool:
    return isinstance(node, nodes.Const) and isinstance(node.value, str)
