"""Who asks through the API server, and who asks with a certificate of its own.

The API server ("front proxy") names its caller in headers. They count only on a connection with a
client certificate that the authority of request headers has signed, for an allowed name: anybody
can send a header.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import unquote

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.x509.oid import NameOID

from queue_insight.visibility.ca_bundle import read_certificates
from shared_api.authorization.caller import Caller
from shared_api.process.http_exchange import Request
from shared_api.text_decoding import TextError, decode_json

CONFIG_NAMESPACE: Final = "kube-system"
CONFIG_NAME: Final = "extension-apiserver-authentication"
"""The ConfigMap in which the API server publishes its front-proxy CA."""

AUTHENTICATED: Final = "system:authenticated"
UNAUTHENTICATED: Final = "system:unauthenticated"
"""The group of callers that the API server cannot authenticate."""


class FrontProxyError(ValueError):
    """The ConfigMap cannot be used; the message is one line."""


class ClientTrust(msgspec.Struct, frozen=True):
    """Which client certificates and headers are believed.

    Attributes:
        proxy_authorities: They sign the certificates of front proxies (PEM).
        user_authorities: They sign the certificates of users (PEM); may be empty.
        allowed_names: Common names of front proxies; empty: any.
        user_headers: Headers with the name of the caller, in lower case, as all headers here.
        uid_headers: Headers with its UID.
        group_headers: Headers with its groups, one each.
        extra_prefixes: What the headers of further facts begin with.
    """

    proxy_authorities: str
    user_authorities: str
    allowed_names: tuple[str, ...]
    user_headers: tuple[str, ...]
    uid_headers: tuple[str, ...]
    group_headers: tuple[str, ...]
    extra_prefixes: tuple[str, ...]

    @property
    def authorities(self) -> str:
        """All authorities of clients (PEM)."""
        return f"{self.proxy_authorities}\n{self.user_authorities}".strip()

    @property
    def believes_every_user(self) -> bool:
        """Whether every user with a certificate may claim to be any other one."""
        return not self.allowed_names and bool(
            set(_certificates(self.proxy_authorities)) & set(_certificates(self.user_authorities))
        )


def read_trust(data: Mapping[str, str]) -> ClientTrust:
    """Return the front-proxy CA that the API server trusts.

    Args:
        data: The data of the ConfigMap.

    Raises:
        FrontProxyError: It names no authority of request headers, or something cannot be read.
    """
    proxies = data.get("requestheader-client-ca-file", "")
    users = data.get("client-ca-file", "")
    try:
        found = read_certificates(proxies.encode())
        read_certificates(users.encode())
    except ValueError as error:
        raise FrontProxyError(f"a certificate cannot be read: {error}") from error
    if not found:
        raise FrontProxyError(
            "there is no requestheader-client-ca-file: the API server aggregates nothing "
            "(--requestheader-client-ca-file)"
        )
    return ClientTrust(
        proxy_authorities=proxies,
        user_authorities=users,
        allowed_names=_names(data, "allowed-names"),
        user_headers=_lower(_names(data, "username-headers")),
        uid_headers=_lower(_names(data, "uid-headers")),
        group_headers=_lower(_names(data, "group-headers")),
        extra_prefixes=_lower(_names(data, "extra-headers-prefix")),
    )


def _names(data: Mapping[str, str], key: str) -> tuple[str, ...]:
    text = data.get(f"requestheader-{key}", "")
    try:
        return decode_json(text, tuple[str, ...]) if text else ()
    except TextError as error:
        raise FrontProxyError(f"requestheader-{key} is no list of texts: {error}") from error


def _lower(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(each.lower() for each in names)


KEPT_CERTIFICATES: Final = 64
"""API servers have one each, users few."""


class _Validity(NamedTuple):
    """When a certificate and an authority that has signed it are both valid."""

    begin: datetime
    end: datetime


class _Holder(NamedTuple):
    """What a client certificate says of its holder.

    Attributes:
        names: Its common names.
        groups: Its organizations.
        as_proxy: When it is one of a front proxy with an allowed name; empty: never.
        as_user: When it is one of a user.
    """

    names: tuple[str, ...]
    groups: tuple[str, ...]
    as_proxy: tuple[_Validity, ...]
    as_user: tuple[_Validity, ...]


class CertificateReader:
    """Identifies callers by the client certificate of their connection.

    Args:
        trust: Which certificates and headers are believed.
    """

    def __init__(self, trust: ClientTrust) -> None:
        self._trust = trust
        self._proxies = _certificates(trust.proxy_authorities)
        self._users = _certificates(trust.user_authorities)
        # The API server shows the same certificate with each request, and to check a signature
        # costs more than all else here.
        self._holder_of = lru_cache(KEPT_CERTIFICATES)(self._read_holder)

    def identify(self, request: Request, now: datetime) -> Caller | None:
        """Return who asks; None if no certificate says so.

        Args:
            request: The request; TLS has checked that its client holds the key of its certificate,
                and that some authority of `trust` has signed it.
            now: The time, for the ends of certificates: a connection may outlive them.
        """
        if not request.certificate:
            return None
        holder = self._holder_of(request.certificate)
        if holder is None:
            return None
        if _is_valid(holder.as_proxy, now):
            caller = self._read_headers(request.lines)
            if caller is not None:
                return caller
        if not holder.names or not _is_valid(holder.as_user, now):
            return None
        return Caller(holder.names[0], groups=_with_authenticated(holder.groups))

    def _read_holder(self, der: bytes) -> _Holder | None:
        try:
            certificate = x509.load_der_x509_certificate(der)
            names = _texts(certificate, NameOID.COMMON_NAME)
            groups = _texts(certificate, NameOID.ORGANIZATION_NAME)
        except ValueError:
            return None
        allowed = self._trust.allowed_names
        may_be_proxy = not allowed or bool(set(names[:1]) & set(allowed))
        return _Holder(
            names,
            groups,
            as_proxy=_validity(certificate, self._proxies if may_be_proxy else []),
            as_user=_validity(certificate, self._users),
        )

    def _read_headers(self, lines: tuple[tuple[str, str], ...]) -> Caller | None:
        trust = self._trust
        try:
            sent = [(name, _text(value)) for name, value in lines]
        except UnicodeDecodeError:
            return None
        users = [value for name, value in sent if name in trust.user_headers and value]
        if not users:
            return None
        uids = [value for name, value in sent if name in trust.uid_headers and value]
        groups = tuple(
            value for each in trust.group_headers for name, value in sent if name == each
        )
        extra: dict[str, tuple[str, ...]] = {}
        for name, value in sent:
            for prefix in trust.extra_prefixes:
                if name.startswith(prefix):
                    key = unquote(name.removeprefix(prefix))
                    extra[key] = (*extra.get(key, ()), value)
                    break
        return Caller(users[0], uids[0] if uids else "", _with_authenticated(groups), extra)


def _certificates(pem: str) -> list[x509.Certificate]:
    return read_certificates(pem.encode())


def _validity(
    certificate: x509.Certificate, authorities: list[x509.Certificate]
) -> tuple[_Validity, ...]:
    """Return when a certificate is valid: a row for each authority that has signed it."""
    return tuple(
        _Validity(
            max(certificate.not_valid_before_utc, each.not_valid_before_utc),
            min(certificate.not_valid_after_utc, each.not_valid_after_utc),
        )
        for each in authorities
        if _has_signed(each, certificate)
    )


def _is_valid(validity: tuple[_Validity, ...], now: datetime) -> bool:
    return any(each.begin <= now <= each.end for each in validity)


def _has_signed(authority: x509.Certificate, certificate: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def _texts(certificate: x509.Certificate, kind: x509.ObjectIdentifier) -> tuple[str, ...]:
    found = certificate.subject.get_attributes_for_oid(kind)
    return tuple(str(each.value) for each in found)


def _with_authenticated(groups: tuple[str, ...]) -> tuple[str, ...]:
    """Return the groups with that of all who are known, as every API server adds it.

    The aggregator itself needs it: it fetches discovery as a user without any group.
    """
    known = {AUTHENTICATED, UNAUTHENTICATED} & set(groups)
    return groups if known else (*groups, AUTHENTICATED)


def _text(value: str) -> str:
    """Return a header's text: the API server sends UTF-8, HTTP hands it over byte by byte."""
    return value.encode("latin-1").decode("utf-8")
