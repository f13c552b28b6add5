"""Authorities and client certificates that a test makes for itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

NOW = datetime(2026, 11, 26, tzinfo=UTC)


@dataclass(frozen=True)
class Identity:
    """A certificate and its key; one that is an authority signs others."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(Encoding.DER)

    @property
    def key_pem(self) -> str:
        form = self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return form.decode()

    def write(self, folder: Path, name: str) -> tuple[Path, Path]:
        """Write both; return the paths of the certificate and of the key."""
        paths = folder / f"{name}.crt", folder / f"{name}.key"
        paths[0].write_text(self.pem)
        paths[1].write_text(self.key_pem)
        return paths


def make_authority(name: str, now: datetime = NOW, *, days: int = 30) -> Identity:
    """Return an authority that signs itself."""
    return _make(name, (), None, now, days, ca=True)


def sign_client(
    authority: Identity,
    name: str,
    groups: Sequence[str] = (),
    now: datetime = NOW,
    *,
    days: int = 30,
) -> Identity:
    """Return a certificate of a client, with the names of its groups as its organizations."""
    return _make(name, groups, authority, now, days, ca=False)


def _make(
    name: str,
    groups: Sequence[str],
    signer: Identity | None,
    now: datetime,
    days: int,
    *,
    ca: bool,
) -> Identity:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.COMMON_NAME, name),
            *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in groups),
        ]
    )
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if signer is None else signer.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .sign(key if signer is None else signer.key, hashes.SHA256())
    )
    return Identity(certificate, key)
