"""Hides units of namespaces that the reader of an answer may not read.

Fields that name a unit are marked where a view declares them, and `hide` goes by the marks alone:

- `Owner`: the unit that a view is about. In a list, or where null is allowed, a view about a hidden
  unit is left out.
- `OfUnit`: another unit, or a list of units.
- `Sentence`: a text that may name units. It is built from the other fields, after these are hidden.
- `SumOf`: a sum over units.

An answer about one unit is not hidden as a whole: its route has checked the right to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, get_args

from shared_api.debug_api.views import View

ViewT = TypeVar("ViewT", bound=View)
MayRead = Callable[[str], bool]
"""Returns whether the reader may read the units of a namespace."""

OF_OTHERS: Final = "a unit of another namespace"
"""In place of a name."""

LEAST_SUMMED: Final = 3
"""Sums cover at least so many hidden namespaces; a sum over fewer would reveal one of them."""


class Owner(NamedTuple):
    """The unit that a view is about: `namespace/name`, or the namespace alone.

    If it is a list of namespaces, the view is about units of all of them, and only readers of all
    are shown it; "" stands for namespaces that are not known, which readers of everything see.

    Attributes:
        is_asked: The reader has asked about it by name, with a right of its own: it is not hidden.
        stays: The view is shown without its unit, which is then "".
    """

    is_asked: bool = False
    stays: bool = False


class OfUnit(NamedTuple):
    """A unit as `namespace/name`, or a list of such, or of views of units.

    Anything without a slash is no unit, and is shown.

    Attributes:
        hidden: What a name is replaced by; names in a list are left out.
        counted: The field that counts what is left out of a list; "": none does.
        is_other: Returns of a view whether its field names something else, which is shown although
            it may have a slash; None: it never does.
    """

    hidden: str = ""
    counted: str = ""
    is_other: Callable[[Any], bool] | None = None


class Sentence(NamedTuple):
    """A text that `build` makes of the other fields of its view."""

    build: Callable[[Any], str]


class SumOf(NamedTuple):
    """A sum over the units of a list; null if it would tell about units that are hidden.

    Attributes:
        units: The field with the list.
        hidden: What is summed up, over the units that are left out; "" if the sum is over all, and
            is shown as it is.
    """

    units: str
    hidden: str = ""


Mark: TypeAlias = Owner | OfUnit | Sentence | SumOf


def hide(answer: ViewT, may_read: MayRead) -> ViewT:
    """Return an answer that names no unit of a namespace that its reader may not read.

    It is the same object if nothing is hidden.
    """
    return _Reader(may_read).show(answer, is_asked=True)


def may_sum(hidden: Iterable[str]) -> bool:
    """Return whether a reader may see a sum over units of namespaces that are hidden from it.

    A sum over one or two would be what only their readers may know. Their number is shown: it says
    that something is left out.
    """
    return not 0 < len(set(hidden)) < LEAST_SUMMED


def with_sentences(view: ViewT) -> ViewT:
    """Return a view with its sentences built from the other fields."""
    texts = {name: build(view) for name, build in _plan_of(type(view)).sentences}
    return _changed(view, texts) if texts else view


def marks_of(view: type[View]) -> dict[str, Mark]:
    """Return the marks of a view's fields."""
    return {
        name: mark
        for name, field in view.model_fields.items()
        for mark in field.metadata
        if isinstance(mark, Mark)
    }


def views_in(annotation: object) -> Iterator[type[View]]:
    """Yield the views that a value of a type may have in it, without those within them."""
    if isinstance(annotation, type) and issubclass(annotation, View):
        yield annotation
    for each in get_args(annotation):
        yield from views_in(each)


class _Plan(NamedTuple):
    """What there is to hide in a view.

    Attributes:
        unit: The field with the unit that it is about; "" if it is about none.
        owner: That field's mark.
        fields: Fields with units, sums or views; the mark of one with views may be None.
        sentences: Fields, each with what builds it.
    """

    unit: str
    owner: Owner
    fields: tuple[tuple[str, OfUnit | SumOf | None], ...]
    sentences: tuple[tuple[str, Callable[[Any], str]], ...]


@cache
def _plan_of(view: type[View]) -> _Plan:
    unit, owner = "", Owner()
    fields: list[tuple[str, OfUnit | SumOf | None]] = []
    sentences = []
    marks = marks_of(view)
    for name, field in view.model_fields.items():
        below = views_in(field.annotation)
        has_marks = (bool(marks) if each is view else _has_marks(each) for each in below)
        mark = marks.get(name)
        if isinstance(mark, Owner):
            unit, owner = name, mark
        elif isinstance(mark, Sentence):
            sentences.append((name, mark.build))
        elif mark is not None or any(has_marks):
            fields.append((name, mark))
    return _Plan(unit, owner, tuple(fields), tuple(sentences))


def _has_marks(view: type[View]) -> bool:
    plan = _plan_of(view)
    return bool(plan.unit or plan.fields or plan.sentences)


class _Reader(NamedTuple):
    """Who reads an answer.

    Attributes:
        may_read: Returns whether it may read the units of a namespace.
        asked: The namespace of the unit that it has asked about; None if it has asked about none.
    """

    may_read: MayRead
    asked: str | None = None

    def show(self, view: ViewT, *, is_asked: bool = False) -> ViewT:
        """Return a view without what is hidden; `is_asked`: it is about what was asked for."""
        plan, reader = _plan_of(type(view)), self
        changes: dict[str, Any] = {}
        if is_asked or plan.owner.is_asked:
            reader = _Reader(self.may_read, next(iter(_namespaces_of(view)), self.asked))
        elif plan.owner.stays and not self.sees(view):
            changes[plan.unit] = ""
        for name, mark in plan.fields:
            changes |= reader.changes_of(view, name, mark)
        return with_sentences(_changed(view, changes))

    def changes_of(self, view: View, name: str, mark: OfUnit | SumOf | None) -> dict[str, Any]:
        """Return what one field is to be, and what counts that which is left out of it."""
        match mark, getattr(view, name):
            case SumOf(units, amount), value:
                hidden = [each for each in getattr(view, units) if not self.sees(each)]
                if not may_sum(name for each in hidden for name in _namespaces_of(each)):
                    return {name: None}
                if value is None or not amount:
                    return {}
                # In an answer that was hidden before, some are left out and summed up already.
                return {name: value + sum(getattr(each, amount) for each in hidden)}
            case _, None | "" | []:
                return {}
            case OfUnit(hidden=instead, is_other=is_other), str() as unit:
                is_shown = (is_other is not None and is_other(view)) or self.sees(unit)
                return {} if is_shown else {name: instead}
            case _, View() as below:
                return {name: self.show(below) if self.keeps(below) else None}
            case _, list() as rows:
                kept = [each for each in rows if self.keeps(each)]
                changes: dict[str, Any] = {}
                if isinstance(mark, OfUnit) and mark.counted:
                    changes[mark.counted] = getattr(view, mark.counted) + len(rows) - len(kept)
                shown = [self.show(each) if isinstance(each, View) else each for each in kept]
                return {name: shown, **changes}
            case _, value:
                raise TypeError(f"{type(view).__name__}.{name}: what units are in {value!r}?")

    def keeps(self, unit: str | View) -> bool:
        """Return whether a unit, or a view of one, is not left out of a list."""
        owner = _plan_of(type(unit)).owner if isinstance(unit, View) else Owner()
        return owner.is_asked or owner.stays or self.sees(unit)

    def sees(self, unit: str | View) -> bool:
        """Return whether it may see a unit, or a view of one; what is of no unit is seen by all."""
        return all(each == self.asked or self.may_read(each) for each in _namespaces_of(unit))


def _namespaces_of(unit: str | View) -> Sequence[str]:
    """Return the namespace of a unit, or those of the units that a view is about, if there are."""
    if isinstance(unit, str):
        namespace, slash, _ = unit.partition("/")
        return (namespace,) if slash else ()
    name = _plan_of(type(unit)).unit
    owner: str | list[str] = getattr(unit, name) if name else []
    return owner if isinstance(owner, list) else (owner.partition("/")[0],)


def _changed(view: ViewT, changes: dict[str, Any]) -> ViewT:
    """Return a view with changes; the same one if they change nothing."""
    real = {name: value for name, value in changes.items() if getattr(view, name) != value}
    return view.model_copy(update=real) if real else view
