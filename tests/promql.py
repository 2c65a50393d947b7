"""PromQL against scraped series: the names and labels that an expression uses, and those that its result has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set
from typing import Any

import promql_parser as promql

Series = Mapping[str, Set[str]]
"""Labels by the names of series."""

TARGET = frozenset({"job", "instance"})
"""Labels that Prometheus adds to what it scrapes."""


def samples(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Name and labels of each sample in a text of /metrics."""
    for line in text.splitlines():
        if match := re.match(r"([a-zA-Z_]\w*)(?:\{(.*?)\})? \S+", line):
            yield match[1], dict(re.findall(r'(\w+)="([^"]*)"', match[2] or ""))


def scraped(text: str) -> dict[str, set[str]]:
    """The series of a text of /metrics, with the labels that Prometheus adds."""
    series: dict[str, set[str]] = {}
    for name, labels_ in samples(text):
        series.setdefault(name, set(TARGET)).update(labels_)
    return series


def parse(expr: str) -> Any:
    """The tree of an expression, with values for Grafana's variables."""
    return promql.parse(expr.replace("$__rate_interval", "5m"))


def selectors(tree: Any) -> Iterator[tuple[str, dict[str, str]]]:
    """Name and matched labels of each selector in a tree."""
    found: list[Any] = []
    promql.walk(tree, found.append)
    for node in found:
        vector = node.vector_selector if isinstance(node, promql.MatrixSelector) else node
        if isinstance(vector, promql.VectorSelector):
            yield vector.name, {matcher.name: matcher.value for matcher in vector.matchers.matchers}


def labels(tree: Any, series: Series) -> Set[str]:
    """The labels of an expression's result.

    Raises:
        AssertionError: a series, or a label that it uses, does not exist.
    """
    match tree:
        case promql.NumberLiteral() | promql.StringLiteral():
            return set()
        case promql.VectorSelector():
            assert tree.name in series, f"{tree.name} is not scraped"
            matched = {matcher.name for matcher in tree.matchers.matchers}
            assert matched <= series[tree.name], f"{tree.name} has no labels {matched - series[tree.name]}"
            return series[tree.name]
        case promql.MatrixSelector():
            return labels(tree.vector_selector, series)
        case promql.ParenExpr() | promql.UnaryExpr():
            return labels(tree.expr, series)
        case promql.Call():
            found = set[str]().union(*(labels(argument, series) for argument in tree.args))
            if tree.func.name == "histogram_quantile":
                assert "le" in found
                found.remove("le")
            return found
        case promql.AggregateExpr():
            found, by = labels(tree.expr, series), set(tree.modifier.labels if tree.modifier else ())
            assert by <= found, f"{tree}: no labels {by - found}"
            return by
        case promql.BinaryExpr():
            left, right = labels(tree.lhs, series), labels(tree.rhs, series)
            if isinstance(tree.rhs, promql.NumberLiteral) or str(tree.op) in {"and", "unless"}:
                check_match(tree, left, right)
                return left
            check_match(tree, left, right)
            return left or right
    raise AssertionError(f"unknown expression {type(tree)}")


def check_match(tree: Any, left: Set[str], right: Set[str]) -> None:
    """Checks that series of both sides can match."""
    if not left or not right:
        return
    on = tree.modifier and tree.modifier.matching
    if on is not None and on.type == promql.LabelModifierType.Include:
        assert set(on.labels) <= left & right, f"{tree}: one side has not all of {on.labels}"
    elif on is None:
        assert left == right, f"{tree}: {left} and {right} never match"
