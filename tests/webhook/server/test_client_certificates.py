"""`--client-ca`: the review port answers whoever shows the right certificate, and nobody else."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from certs.authority import Authority, LeafSubject
from certs.folder import CERTIFICATE, KEY, publish
from certs.key_pair import CertificateError
from certs.tls import server_context
from tests.webhook.conftest import Server, post, publish_leaf, read_response, review

StartServer = Callable[..., Server]


def shown_by(authority: Authority, folder: Path) -> Path:
    leaf = authority.issue(LeafSubject("kube-apiserver"), client=True, now=datetime.now(UTC))
    publish(folder, {CERTIFICATE: leaf.certificate, KEY: leaf.key})
    return folder


def authorities(folder: Path) -> tuple[Authority, Path]:
    authority = Authority.create("API servers", now=datetime.now(UTC))
    file = folder / "client-ca.crt"
    file.write_bytes(authority.pair.certificate)
    return authority, file


def test_the_api_servers_certificate_is_let_in_and_others_are_not(
    start_server: StartServer, tmp_path: Path
) -> None:
    authority, file = authorities(tmp_path)
    server = start_server(client_ca=file)
    assert is_answered(server, shown_by(authority, tmp_path / "right"))
    stranger = Authority.create("API servers", now=datetime.now(UTC))
    assert not is_answered(server, shown_by(stranger, tmp_path / "wrong"))
    assert not is_answered(server, None)


def is_answered(server: Server, shown: Path | None) -> bool:
    """In TLS 1.3 the client hears of its refusal with the first answer."""
    try:
        with server.connect(shown=shown) as connection:
            connection.sendall(post("/validate", review()))
            return read_response(connection)[0] == 200
    except (OSError, EOFError):
        return False


def test_a_file_without_authorities_is_told_in_one_line(tmp_path: Path) -> None:
    publish_leaf(tmp_path / "leaf")
    with pytest.raises(CertificateError, match="the clients' authorities cannot be loaded"):
        server_context(tmp_path / "leaf", client_ca=tmp_path / "none")
