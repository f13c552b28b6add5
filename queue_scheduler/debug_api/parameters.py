"""What the routes are asked with: names, pages, and times."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Path, Query
from pydantic import AwareDatetime

from shared_api.objects.field_schema import SUBDOMAIN_LENGTH
from shared_api.objects.quota_policy import QUOTA_LENGTH

MAX_PAGE: Final = 1000
DEFAULT_PAGE: Final = 100
MAX_OFFSET: Final = 10_000_000
"""A hundred times the units that the scheduler is measured with; what counts them has an end."""

Name = Annotated[str, Path(max_length=SUBDOMAIN_LENGTH)]
QuotaPath = Annotated[str, Path(max_length=QUOTA_LENGTH)]
"""The name of a quota in a path, where it may have slashes: `root/team`, `namespace/name`."""
QuotaName = Annotated[
    str, Query(max_length=QUOTA_LENGTH, description="only of this quota; of all by default")
]
Offset = Annotated[int, Query(ge=0, le=MAX_OFFSET, description="entries to leave out")]
Limit = Annotated[int, Query(ge=1, le=MAX_PAGE, description="entries at most")]
At = Annotated[
    AwareDatetime | None,
    Query(description="as it was then (RFC 3339); needs the insight program and its record"),
]
