"""What the answers of both programs have in common: frozen models, which make contracts."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


class View(BaseModel):
    """Frozen, camelCase as everything in Kubernetes."""

    model_config = ConfigDict(frozen=True, alias_generator=_camel, populate_by_name=True)


class ProblemView(View):
    """Why there is no answer."""

    detail: str


class PathList(View):
    """What there is to ask, as the root of an API server answers."""

    paths: list[str]
