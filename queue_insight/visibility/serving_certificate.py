"""The certificate that the aggregated API shows, and the authority that has signed it.

Both are made here, for this process alone: no Secret holds the key, and nobody else can read it.
The API server trusts the authority because its certificate is in the APIService.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID: Final = timedelta(days=3)
"""A program that cannot renew for a whole day still serves; a leaked key is worth little."""
RENEWED_AFTER: Final = VALID * 2 / 3
SKEW: Final = timedelta(hours=1)
"""How far the clock of the API server may be behind this one."""
MAX_NAME_CHARS: Final = 64
"""The longest common name (RFC 5280)."""


class ServingCertificate(msgspec.Struct, frozen=True):
    """A certificate, its key, and its authority.

    Attributes:
        authority: Certificate of the authority (PEM), which others may see.
        chain_and_key: Certificate and key (PEM), for a TLS context; never written to a file.
        made: When it was made.
        ends: When it expires.
    """

    authority: bytes
    chain_and_key: bytes
    made: datetime
    ends: datetime

    def is_to_be_renewed(self, now: datetime) -> bool:
        """Return whether two thirds of its life are over."""
        return now >= self.made + RENEWED_AFTER or now < self.made - SKEW


def make_serving_certificate(owner: str, names: Sequence[str], now: datetime) -> ServingCertificate:
    """Return a new certificate with a new key, signed by a new authority.

    The authority's own key is forgotten: it signs this one certificate.

    Args:
        owner: Who serves it, such as the name of the pod.
        names: DNS names that it is valid for.
        now: The time.
    """
    authority_key = ec.generate_private_key(ec.SECP256R1())
    key = ec.generate_private_key(ec.SECP256R1())
    ends = now + VALID
    issuer = _name(f"visibility-ca {owner}")
    usage = {"digital_signature": True, "key_cert_sign": True, "crl_sign": True}
    authority = (
        _builder(issuer, issuer, authority_key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(**usage), critical=True)
        .add_extension(_identifier(authority_key), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    certificate = (
        _builder(_name(owner), issuer, key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=False
        )
        .add_extension(signer, critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    chain = certificate.public_bytes(Encoding.PEM)
    return ServingCertificate(authority.public_bytes(Encoding.PEM), chain + private, now, ends)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + VALID)
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common[:MAX_NAME_CHARS])])


def _identifier(key: ec.EllipticCurvePrivateKey) -> x509.SubjectKeyIdentifier:
    return x509.SubjectKeyIdentifier.from_public_key(key.public_key())


def _key_usage(
    *, digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False
) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        encipher_only=False,
        decipher_only=False,
    )
