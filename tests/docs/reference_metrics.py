"""The metrics of all programs, as the sources declare them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from tests.docs.reference_text import code, prose, table
from tests.tidy.source_tree import SourceFile, shipped_files
from tests.tidy.user_pages import METRIC_TYPES

EVERY_PROGRAM: Final = "Every program"
_PROGRAMS: Final = (
    ("koord-queue-scheduler", ("queue_scheduler/reporting/", "queue_insight/insight_feed/")),
    ("koord-queue-controllers", ("queue_controllers/",)),
    ("koord-queue-insight", ("queue_insight/",)),
    ("Programs of admission checks", ("shared_api/admission_check_kit/",)),
    (EVERY_PROGRAM, ("",)),
)
"""By the beginning of the path of the source; the first that fits."""

_FORECASTS: Final = "queue_insight/insight_program/forecast_metrics.py"


class Declared(NamedTuple):
    """A metric, as the sources declare it.

    Attributes:
        name: As a scrape has it.
        kind: counter, gauge, histogram or untyped.
        labels: Names of labels.
        says: What it counts.
    """

    name: str
    kind: str
    labels: tuple[str, ...]
    says: str


def metrics_text(sources: Iterable[SourceFile] | None = None) -> str:
    """Return the tables of metrics, one for each program."""
    found: dict[str, set[Declared]] = {program: set() for program, _ in _PROGRAMS}
    for source in shipped_files() if sources is None else sources:
        if "prometheus_client" in source.text:
            found[_program(source)] |= set(declared_metrics(source))
    header = ("metric", "type", "labels", "what it counts")
    return "\n".join(
        f"## {program}\n\n{table(header, map(_row, sorted(metrics)))}"
        for program, metrics in found.items()
        if metrics
    )


def declared_metrics(source: SourceFile) -> Iterator[Declared]:
    """Yield the metrics that a file declares."""
    assigned = sorted(_assignments(source.tree), key=lambda each: each.lineno)
    for node in ast.walk(source.tree):
        match node:
            case ast.Call(
                func=ast.Name(id=kind), args=[ast.Constant(value=str(name)), says, *_]
            ) if kind in METRIC_TYPES:
                before = {
                    ast.unparse(each.targets[0]): each.value
                    for each in assigned
                    if each.lineno < node.lineno
                }
                yield Declared(
                    name=name + METRIC_TYPES[kind],
                    kind=_kind(kind),
                    labels=_labels(node, before),
                    says=_text(says, before),
                )
            case _:
                pass


def _program(source: SourceFile) -> str:
    path = str(source.path)
    if path == _FORECASTS:
        return "koord-queue-insight"
    return next(name for name, prefixes in _PROGRAMS if path.startswith(prefixes))


def _row(metric: Declared) -> tuple[str, str, str, str]:
    labels = ", ".join(map(code, metric.labels))
    return code(metric.name), metric.kind, labels, prose(metric.says)


def _kind(constructor: str) -> str:
    kinds = ("counter", "gauge", "histogram")
    return next((kind for kind in kinds if constructor.lower().startswith(kind)), "untyped")


def _assignments(tree: ast.Module) -> Iterator[ast.Assign]:
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name()]):
                yield node
            case ast.AnnAssign(target=ast.Name() as target, value=ast.expr() as value):
                plain = ast.Assign(targets=[target], value=value)
                yield ast.copy_location(plain, node)
            case _:
                pass


def _labels(call: ast.Call, before: dict[str, ast.expr]) -> tuple[str, ...]:
    given = [*call.args[2:], *(each.value for each in call.keywords if each.arg in _LABELS)]
    for each in given:
        value = before.get(ast.unparse(each), each)
        if isinstance(value, ast.Tuple | ast.List):
            return tuple(_text(label, before) for label in value.elts)
    return ()


_LABELS: Final = {"labelnames", "labels"}


def _text(node: ast.expr, before: dict[str, ast.expr]) -> str:
    """Return the text of an expression; names stand for what was assigned to them last."""
    match node:
        case ast.Constant(value=value):
            return str(value)
        case ast.JoinedStr(values=parts):
            return "".join(_text(part, before) for part in parts)
        case ast.FormattedValue(value=value):
            return _text(value, before)
        case ast.Name(id=name) if name in before:
            return _text(before[name], {})
        case _:
            return ast.unparse(node)
