import ast
import json
from pathlib import Path

import pytest

HIDDEN = json.loads(Path("/verifier/hidden.json").read_text())
CASES = HIDDEN["cases"]
BLOCKS = (ast.If, ast.For, ast.While, ast.With, ast.Try, ast.Match, ast.AsyncFor, ast.AsyncWith)
DEFS = (ast.FunctionDef, ast.AsyncFunctionDef)
PLAIN_CALLS = {"frozenset", "tuple", "MappingProxyType", "types.MappingProxyType"}


@pytest.fixture
def tree(candidate):
    return ast.parse(candidate.read_text("/app/pricing.py"))


def plain(result):
    return {**result, "lines": [list(line) for line in result["lines"]]}


@pytest.mark.parametrize("start", range(0, len(CASES), 20))
def test_prices_are_as_they_were(candidate, start):
    for case in CASES[start : start + 4]:
        if "error" in case["price"]:
            with pytest.raises(candidate.Error) as caught:
                candidate.call("pricing", "quote", *case["order"])
            assert (caught.value.type, caught.value.message) == ("ValueError", case["price"]["error"])
        else:
            assert plain(candidate.call("pricing", "quote", *case["order"])) == case["price"]


def test_no_call_depends_on_an_earlier_one(candidate):
    good = [case for case in CASES if "error" not in case["price"]]
    expression = "[pricing.quote(*order) for order in orders]"

    results = candidate.eval(expression, imports=["pricing"], names={"orders": [case["order"] for case in good]})

    assert [plain(result) for result in results] == [case["price"] for case in good]


def test_arguments_are_left_alone(candidate):
    good = [case["order"] for case in CASES if "error" not in case["price"]][:30]
    expression = "([pricing.quote(*order) for order in orders] and None, orders)[1]"

    after = candidate.eval(expression, imports=["pricing"], names={"orders": good})

    assert [list(order) for order in after] == good


def test_the_default_coupon_is_none(candidate):
    case = next(case for case in CASES if case["order"][2] is None and "error" not in case["price"])

    assert plain(candidate.call("pricing", "quote", *case["order"][:2])) == case["price"]


def test_functions_are_short_and_several(tree):
    functions = [node for node in ast.walk(tree) if isinstance(node, DEFS)]
    long = {node.name: node.end_lineno - node.lineno + 1 for node in functions}

    assert len(functions) >= HIDDEN["functions"]
    assert {name: size for name, size in long.items() if size > HIDDEN["longest"]} == {}


def is_elif(node, child):
    return isinstance(node, ast.If) and node.orelse == [child] and isinstance(child, ast.If) and child.col_offset == node.col_offset


def depth(node, level=0, shares_level=False):
    """How deep blocks are nested beneath a node; an elif is as deep as its if."""
    if isinstance(node, BLOCKS) and not shares_level:
        level += 1
    return max([level, *(depth(child, level, is_elif(node, child)) for child in ast.iter_child_nodes(node))])


def test_blocks_are_nested_little(tree):
    deep = {node.name: depth(node) for node in ast.walk(tree) if isinstance(node, DEFS)}

    assert {name: value for name, value in deep.items() if value > HIDDEN["depth"]} == {}


def frozen(node):
    if isinstance(node, ast.Constant):
        return True
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        return isinstance(node, ast.Tuple) and all(frozen(item) for item in node.elts)
    if isinstance(node, ast.Call):
        return ast.unparse(node.func) in PLAIN_CALLS
    if isinstance(node, (ast.BinOp, ast.UnaryOp)):
        return all(frozen(child) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr))
    return isinstance(node, (ast.Name, ast.Attribute, ast.JoinedStr))


def test_nothing_at_the_top_level_can_change(tree):
    assigned = [node for node in tree.body if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign))]
    allowed = (ast.Assign, ast.AnnAssign, ast.Import, ast.ImportFrom, ast.ClassDef, *DEFS)
    others = [node for node in tree.body if not isinstance(node, allowed)]

    assert [ast.unparse(node) for node in assigned if node.value is not None and not frozen(node.value)] == []
    assert all(isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) for node in others)


def test_no_default_or_cache_keeps_state(tree):
    for node in ast.walk(tree):
        if isinstance(node, DEFS):
            defaults = [*node.args.defaults, *[item for item in node.args.kw_defaults if item]]
            assert all(frozen(item) for item in defaults), node.name
            assert not any("cache" in ast.unparse(item) for item in node.decorator_list), node.name


def test_only_the_standard_library_is_imported(tree):
    import sys

    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or "."] if isinstance(node, ast.ImportFrom) else []
        assert all(name.split(".")[0] in sys.stdlib_module_names for name in names), names
