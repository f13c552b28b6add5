"""Keeps the aggregated API reachable: certificate, trust in clients, registration.

One thread calls `step`. What is missing (a right, the APIService) is one line in the log, is tried
again at every step, and ends nothing: the API is not served until then, and the rest of the program
does its work.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from typing import Final

from queue_insight.api_registration.api_service import NAME
from queue_insight.visibility.front_proxy import (
    CONFIG_NAME,
    CONFIG_NAMESPACE,
    CertificateReader,
    ClientTrust,
    FrontProxyError,
    read_trust,
)
from queue_insight.visibility.registration import Registration
from queue_insight.visibility.serving_certificate import (
    ServingCertificate,
    make_serving_certificate,
)
from queue_insight.visibility.tls_contexts import TlsContexts
from shared_api.client.errors import ApiFailure, Forbidden, NotFound
from shared_api.client.resource_client import ResourceClient
from shared_api.client.resource_types import CONFIG_MAPS
from shared_api.process.clock import Clock
from shared_api.process.trouble_log import TroubleLog

LOOK_SECONDS: Final = 15.0
"""Between two looks at the ConfigMap and the APIService: two small requests. They are polled, not
watched: a watch of one object would need a connection of its own all the time, for what changes
every few months."""

WAIT_SECONDS: Final = 1.0
"""Between two looks whether there is anything to answer from."""

_TRUST: Final = "whom the API server lets ask"
_REGISTRATION: Final = "registration of the aggregated API"
_READER_ROLE: Final = "Role extension-apiserver-authentication-reader in kube-system"


class Upkeep:
    """The step of the thread that keeps the API reachable.

    Args:
        client: The client of the API server.
        registration: Tells the API server of this replica.
        contexts: TLS of the port.
        clock: The time.
        is_ready: Returns whether there is anything to answer from. Before, the pod is not ready
            either: the API server would find nobody behind the Service.
        owner: Name of this replica, for its certificate.
        names: DNS names under which the API server asks.
    """

    def __init__(
        self,
        client: ResourceClient,
        registration: Registration,
        contexts: TlsContexts,
        clock: Clock,
        is_ready: Callable[[], bool],
        *,
        owner: str,
        names: Sequence[str],
    ) -> None:
        self._client = client
        self._registration = registration
        self._contexts = contexts
        self._clock = clock
        self._is_ready = is_ready
        self._owner, self._names = owner, names
        self._trouble = TroubleLog("visibility")
        self._trust: ClientTrust | None = None
        self._certificate: ServingCertificate | None = None
        # Read by the port's threads; each change is one assignment.
        self.certificates: CertificateReader | None = None

    def step(self) -> float:
        """Look once; return the seconds until the next look."""
        if self._certificate is None and not self._is_ready():
            return WAIT_SECONDS
        trust = self._read_trust()
        if trust is not None and trust != self._trust:
            self._believe(trust)
        if self._trust is not None:
            self._attempt(_REGISTRATION, self._renew_and_publish)
        return LOOK_SECONDS

    def seconds_left(self) -> float:
        """Return for how long the certificate is valid; NaN before there is one."""
        if self._certificate is None:
            return float("nan")
        return (self._certificate.ends - self._clock.now()).total_seconds()

    def withdraw(self) -> None:
        """Take the registration back; after the thread has ended."""
        certificate = self._certificate
        if certificate is not None:
            self._attempt(_REGISTRATION, lambda: self._registration.withdraw(certificate.authority))

    # ------------------------------------------------------------------ trust in clients

    def _read_trust(self) -> ClientTrust | None:
        found: list[ClientTrust] = []

        def read() -> None:
            config = self._client.get(CONFIG_MAPS, CONFIG_NAMESPACE, CONFIG_NAME)
            found.append(read_trust(config.data))

        self._attempt(_TRUST, read)
        return found[0] if found else None

    def _believe(self, trust: ClientTrust) -> None:
        """Believe these clients from the next connection on."""
        if trust.believes_every_user:
            text = (
                "every user with a client certificate can claim to be any other one: the API "
                "server's --requestheader-client-ca-file is its --client-ca-file, and "
                "--requestheader-allowed-names is empty"
            )
            self._trouble.begin("authorities of clients", text)
        before, self._trust = self._trust, trust
        if self._certificate is not None and not self._serve(self._certificate, trust):
            self._trust = before
            return
        self.certificates = CertificateReader(trust)

    # ------------------------------------------------------------------ certificate

    def _renew_and_publish(self) -> None:
        """Publish the authority of the certificate; a new one is served only after that."""
        current, trust = self._certificate, self._trust
        assert trust is not None, "the caller has checked it"
        now = self._clock.now()
        if current is not None and not current.is_to_be_renewed(now):
            self._registration.publish(current.authority)
            return
        new = make_serving_certificate(self._owner, self._names, now)
        if current is None or current.ends <= now:
            # Nothing would be answered anyway. Before the API server asks for the first time, it
            # must be answered: it would report the API as unavailable.
            self._use(new, trust)
            self._registration.publish(new.authority)
        else:
            self._registration.publish(new.authority)
            self._use(new, trust)

    def _use(self, certificate: ServingCertificate, trust: ClientTrust) -> None:
        if self._serve(certificate, trust):
            self._certificate = certificate

    def _serve(self, certificate: ServingCertificate, trust: ClientTrust) -> bool:
        try:
            self._contexts.change(certificate.chain_and_key, trust.authorities)
        except ssl.SSLError as error:
            self._trouble.begin(_TRUST, f"the authorities cannot be used: {error}")
            return False
        return True

    # ------------------------------------------------------------------ troubles

    def _attempt(self, subject: str, act: Callable[[], None]) -> None:
        """Do something; log what is in its way, when that begins and when it ends."""
        try:
            act()
        except FrontProxyError as error:
            self._trouble.begin(subject, f"ConfigMap {CONFIG_NAMESPACE}/{CONFIG_NAME}: {error}")
        except Forbidden as refusal:
            self._trouble.begin(subject, f"needs {_rights_for(subject)}: {refusal.message}")
        except NotFound as missing:
            self._trouble.begin(subject, f"{missing.message}; it is looked for again")
        except ApiFailure as failure:
            self._trouble.begin(subject, str(failure))
        else:
            self._trouble.end(subject)


def _rights_for(subject: str) -> str:
    if subject == _TRUST:
        return f"the right get on configmaps {CONFIG_NAMESPACE}/{CONFIG_NAME} ({_READER_ROLE})"
    return f"the rights get, create, patch and delete on apiservices {NAME}"
