"""Requests that schemathesis draws from a contract: answers fit it, and none is a failure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import schemathesis
from hypothesis import HealthCheck, given, seed, settings, strategies
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

Json = dict[str, Any]

EXAMPLES: Final = 20
"""Of each operation, for data that fits the contract, and again for data that does not."""
SEED: Final = 21
CHECKS: Final = [status_code_conformance, content_type_conformance, response_schema_conformance]
UNAVAILABLE: Final = 503
"""Something is not there, such as a record; the contract names it."""
FAILURES: Final = 500


def operations_of(contract: Json) -> Iterator[tuple[str, str]]:
    """Yield method and path of each operation of a contract."""
    for path, operations in contract["paths"].items():
        for method in operations:
            yield method.upper(), path


def check_operation(
    contract: Json, operation: tuple[str, str], url: str, headers: Mapping[str, str] | None = None
) -> set[int]:
    """Send requests of an operation; return the status codes of the answers.

    Args:
        contract: An OpenAPI document.
        operation: Method and path.
        url: Address of the server.
        headers: Sent with each request, whatever is drawn.
    """
    method, path = operation
    found = schemathesis.openapi.from_dict(contract)[path][method]
    modes = [GenerationMode.POSITIVE, GenerationMode.NEGATIVE]
    drawn = [found.as_strategy(generation_mode=each) for each in modes]
    statuses: set[int] = set()

    @seed(SEED)
    @settings(
        max_examples=EXAMPLES * len(modes),
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategies.one_of(*drawn))
    def ask(case: schemathesis.Case[Any]) -> None:
        answer = case.call(base_url=url, headers=dict(headers or {}))
        statuses.add(answer.status_code)
        failed = answer.status_code >= FAILURES and answer.status_code != UNAVAILABLE
        assert not failed, answer.text
        case.validate_response(answer, checks=CHECKS)

    ask()
    return statuses
