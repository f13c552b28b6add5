"""The contract of the controllers' debug API as a file, for readers and for generators of clients.

python -m queue_controllers.debug_api.openapi writes it anew; a test fails when it is stale.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from queue_controllers.debug_api.app import JobDebugApi, build_app
from queue_controllers.decision.owners import NotReadError, Owners
from queue_controllers.reconcile.job_reader import Lookups
from shared_api.debug_api.access import open_access
from shared_api.debug_api.contract import encode_contract
from shared_api.informer.indexed_store import IndexedStore
from shared_api.version import VERSION

CONTRACT_FILE: Final = Path(__file__).with_name("openapi.json")


def build_contract() -> bytes:
    """Return the document, indented, as it is checked in."""
    lookups = Lookups(owners=_no_owners, others=lambda *_: None)
    api = JobDebugApi((), (), units=IndexedStore(), lookups=lookups, is_leader=lambda: False)
    return encode_contract(build_app(api, open_access, VERSION))


def _no_owners(namespace: str) -> Owners:
    raise NotReadError(namespace)


def main() -> None:
    """Write the file."""
    CONTRACT_FILE.write_bytes(build_contract())


if __name__ == "__main__":
    main()
