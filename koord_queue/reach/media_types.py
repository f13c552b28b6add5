"""Media types of what is sent to servers."""

from __future__ import annotations

from typing import Final

JSON: Final = "application/json"
YAML: Final = "application/yaml"
MERGE_PATCH: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
