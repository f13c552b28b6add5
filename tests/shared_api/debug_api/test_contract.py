"""The OpenAPI document of a debug API as a file."""

from __future__ import annotations

import msgspec

from shared_api.debug_api.access import open_access
from shared_api.debug_api.contract import encode_contract
from shared_api.debug_api.debug_app import build_debug_app


def test_it_is_the_served_document_indented_and_reproducible() -> None:
    app = build_debug_app("Example", "0.0.0", open_access)
    written = encode_contract(app)
    assert msgspec.json.decode(written) == app.openapi()
    assert written.startswith(b'{\n "openapi"')
    assert written.endswith(b"}\n")
    assert written == encode_contract(build_debug_app("Example", "0.0.0", open_access))
