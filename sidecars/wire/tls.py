"""Certificates on both ends of the stream, swapped while it is open."""

import threading
from typing import Any

import grpc

from certs.key_pair import Material

TLS_13 = "TLSv1.3"


class ServerCredentials:
    """What a server shows and demands; the next handshake after a swap sees the new.

    grpc asks before every handshake, on a thread of its own. It must hear of a change once and otherwise
    "none": each answer replaces what handshakes on other threads are using, and has crashed there.
    """

    def __init__(self, material: Material, *, require_client_certificate: bool) -> None:
        self._lock = threading.Lock()
        self._pending: Any = None
        self.grpc: Any = grpc.dynamic_ssl_server_credentials(
            _configuration(material), self._news, require_client_certificate
        )

    def swap(self, material: Material) -> None:
        configuration = _configuration(material)
        with self._lock:
            self._pending = configuration

    def _news(self) -> Any:
        with self._lock:
            news, self._pending = self._pending, None
            return news


def channel_credentials(material: Material) -> Any:
    pair = material.pair
    return grpc.ssl_channel_credentials(
        root_certificates=material.roots,
        private_key=pair.key if pair else None,
        certificate_chain=pair.certificate if pair else None,
    )


def _configuration(material: Material) -> Any:
    assert material.pair is not None, "a server has a certificate"
    return grpc.ssl_server_certificate_configuration(
        [(material.pair.key, material.pair.certificate)], root_certificates=material.roots
    )
