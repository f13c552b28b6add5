"""The `caBundle` of the APIService: the authorities of all replicas that serve the group.

Each replica adds its own, and leaves those of the others, until they expire.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from datetime import datetime
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

MAX_AUTHORITIES: Final = 20
"""Far more than there are replicas, each with an old and a new one. A program that restarts again
and again leaves one each time; the oldest make place, and a living replica adds its own again."""


def read_bundle(text: str) -> list[x509.Certificate]:
    """Return the certificates of a `caBundle`; none if it cannot be read.

    Args:
        text: PEM in base64.
    """
    try:
        return read_certificates(b64decode(text))
    except (ValueError, binascii.Error):
        return []


def read_certificates(pem: bytes) -> list[x509.Certificate]:
    """Return the certificates of a PEM text, which may have none.

    Raises:
        ValueError: One of them cannot be read.
    """
    return x509.load_pem_x509_certificates(pem) if b"-----BEGIN CERT" in pem else []


def with_authority(text: str, own: bytes, now: datetime) -> str:
    """Return a `caBundle` with this authority and every other one that has not expired.

    Args:
        text: The bundle as it is.
        own: Certificate of this replica's authority (PEM).
        now: The time.
    """
    mine = read_certificates(own)
    others = [each for each in _living(read_bundle(text), now) if each not in mine]
    others.sort(key=lambda each: each.not_valid_after_utc)
    return _write(others[-(MAX_AUTHORITIES - len(mine)) :] + mine)


def without_authority(text: str, own: bytes, now: datetime) -> str:
    """Return a `caBundle` without this authority; "" if no other one is left."""
    mine = read_certificates(own)
    return _write([each for each in _living(read_bundle(text), now) if each not in mine])


def has_authority(text: str, own: bytes) -> bool:
    """Return whether the authority is in a `caBundle`."""
    return set(read_certificates(own)) <= set(read_bundle(text))


def _living(certificates: list[x509.Certificate], now: datetime) -> list[x509.Certificate]:
    unique = dict.fromkeys(certificates)
    return [each for each in unique if each.not_valid_after_utc > now]


def _write(certificates: list[x509.Certificate]) -> str:
    return b64encode(b"".join(each.public_bytes(Encoding.PEM) for each in certificates)).decode()
