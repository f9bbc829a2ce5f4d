"""Certificates on both ends of the stream, swapped while it is open."""

from dataclasses import dataclass
from typing import Any

import grpc

from certs.pairs import KeyPair

TLS_13 = "TLSv1.3"


@dataclass(frozen=True, slots=True)
class Material:
    """Our own certificate with its key, if we show one, and the authorities that the other end must come from."""

    pair: KeyPair | None
    roots: bytes


class ServerCredentials:
    """What a server shows and demands; each new handshake sees the latest."""

    def __init__(self, material: Material, *, require_client_certificate: bool) -> None:
        self._current = _configuration(material)
        self.grpc: Any = grpc.dynamic_ssl_server_credentials(
            # Called on grpc's own thread before each handshake: no more than one look.
            self._current,
            lambda: self._current,
            require_client_certificate,
        )

    def swap(self, material: Material) -> None:
        self._current = _configuration(material)


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
