"""The parameters of a list: how many, from where on, which."""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final, NamedTuple

from queue_insight.visibility.statuses import StatusError, bad_request

MAX_PAGE: Final = 1000
DEFAULT_PAGE: Final = 100
"""The items of a page by default, as in the debug API: a page is built in one go."""

LONGEST_SELECTOR: Final = 2000
"""Three fields with names of 253 characters, escaped."""

FIELDS: Final = ("metadata.name", "metadata.namespace", "spec.queue")

_LIMIT: Final = re.compile(r"-?[0-9]{1,19}")
_TERM: Final = re.compile(r"\s*([A-Za-z.]+)\s*(==|!=|=)\s*([^\\=!\s]*)\s*")
"""Names have none of the characters that a selector would escape."""


class Term(NamedTuple):
    """A condition on a field: it has the value, or has not."""

    field: str
    value: str
    is_equal: bool = True


class Selection(NamedTuple):
    """Which units are asked for; all conditions hold.

    Attributes:
        terms: Conditions on fields.
        namespaces: The namespaces of the units; None: any.
    """

    terms: tuple[Term, ...] = ()
    namespaces: frozenset[str] | None = None

    def only(self, field: str) -> str | None:
        """Return the one value of a field that all its units have; None: they may have several."""
        return next((each.value for each in self.terms if each[::2] == (field, True)), None)

    def takes(self, key: str, queue: str) -> bool:
        """Return whether a unit is asked for; `key`: its `namespace/name`."""
        namespace, _, name = key.partition("/")
        values = (name, namespace, queue)
        if self.namespaces is not None and namespace not in self.namespaces:
            return False
        return all(
            (values[FIELDS.index(field)] == value) is is_equal
            for field, value, is_equal in self.terms
        )


class ListQuery(NamedTuple):
    """What a request for a list asks.

    Attributes:
        limit: Units at most, up to `MAX_PAGE`.
        token: `continue` of the page before; "": none.
        selection: Which units.
    """

    limit: int
    token: str
    selection: Selection

    def narrowed(self, term: Term) -> ListQuery:
        """Return the query for those units alone for which a further condition holds."""
        terms = (*self.selection.terms, term)
        return self._replace(selection=self.selection._replace(terms=terms))

    def within(self, namespaces: frozenset[str]) -> ListQuery:
        """Return the query for the units of these namespaces alone."""
        return self._replace(selection=self.selection._replace(namespaces=namespaces))


def read_query(parameters: Mapping[str, str]) -> ListQuery:
    """Return the parameters of a list.

    Raises:
        StatusError: They cannot be read, or ask for what is not offered.
    """
    if is_set(parameters, "watch"):
        raise StatusError(
            HTTPStatus.METHOD_NOT_ALLOWED,
            "watch is not offered: positions change all the time; list again, or watch queueunits",
        )
    if parameters.get("labelSelector", ""):
        raise bad_request(
            "label selectors are not supported: units have the labels of their QueueUnits, "
            "which can be selected with kubectl get queueunits"
        )
    return ListQuery(
        read_limit(parameters.get("limit", "")),
        parameters.get("continue", ""),
        read_selection(parameters.get("fieldSelector", "")),
    )


def is_set(parameters: Mapping[str, str], name: str) -> bool:
    """Return a flag as the API server reads it: set, unless it is absent, "0" or "false"."""
    return parameters.get(name, "0").lower() not in {"0", "false"}


def read_limit(text: str) -> int:
    """Return how many units a page has.

    Too many are capped: a server may return fewer than the limit (the conventions of Kubernetes),
    and a client goes on with `continue`. Without a limit the conventions know no bound; here it is
    `DEFAULT_PAGE`, so that no request builds 100,000 units at once.

    Raises:
        StatusError: 400: it is no whole number of 64 bits, or below 0.
    """
    if not text:
        return DEFAULT_PAGE
    number = int(text) if _LIMIT.fullmatch(text) else -1
    if not 0 <= number < 2**63:
        raise bad_request(f"limit is to be a whole number from 0 on, not {text[:40]!r}")
    return min(number or DEFAULT_PAGE, MAX_PAGE)


def read_selection(text: str) -> Selection:
    """Return a field selector, such as "spec.queue=team,metadata.namespace!=test".

    Raises:
        StatusError: 400: it cannot be read, or names another field.
    """
    if len(text) > LONGEST_SELECTOR:
        raise bad_request(f"a field selector may have at most {LONGEST_SELECTOR} characters")
    parts = text.split(",") if text.strip() else []
    return Selection(tuple(_read_term(part) for part in parts))


def _read_term(text: str) -> Term:
    found = _TERM.fullmatch(text)
    if found is None:
        raise bad_request(f"field selector {text!r} is to be field=value or field!=value")
    field, operator, value = found.groups()
    if field not in FIELDS:
        raise bad_request(
            f"field {field!r} cannot be selected by, only {', '.join(FIELDS[:-1])} and {FIELDS[-1]}"
        )
    return Term(field, value, operator != "!=")
