"""What the answers of both programs have in common: frozen models, which make contracts."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final, Generic, NamedTuple, Self, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

FactsT = TypeVar("FactsT")
ValueT = TypeVar("ValueT")

_REQUIRED: Final[object] = PydanticUndefined


class _Source(NamedTuple):
    read: Callable[[Any], Any]


class FieldsOf(Generic[FactsT]):
    """Declares fields of a view, each with the function that reads it from the facts.

    So a field is written in one place::

        of_job = FieldsOf[JobFacts]()

        class JobView(View):
            name: str = of_job(lambda job: job.metadata.name)

        JobView.of(job)
    """

    def __call__(self, read: Callable[[FactsT], ValueT], *, default: object = _REQUIRED) -> ValueT:
        """Return a field; `default` is what the contract says of a missing one."""
        field: FieldInfo = cast("Any", Field(default=default))
        field.metadata.append(_Source(read))
        return cast("ValueT", field)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


class View(BaseModel):
    """Frozen, camelCase as everything in Kubernetes."""

    model_config = ConfigDict(frozen=True, alias_generator=_camel, populate_by_name=True)

    @classmethod
    def of(cls, facts: object, **others: object) -> Self:
        """Return the view of facts; `others` are the fields that are not read from them."""
        values = {name: read(facts) for name, read in _sources(cls)}
        return cls(**values, **others)


@cache
def _sources(view: type[View]) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
    return tuple(
        (name, each.read)
        for name, field in view.model_fields.items()
        for each in field.metadata
        if isinstance(each, _Source)
    )


class ProblemView(View):
    """Why there is no answer."""

    detail: str


class PathList(View):
    """What there is to ask, as the root of an API server answers."""

    paths: list[str]
