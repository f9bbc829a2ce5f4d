"""Believes whatever certificate a server shows: for `--insecure-tls`, and for nothing else.

grpc always verifies, so the certificate is fetched first and then demanded for the connection that follows.
"""

import asyncio
import ssl

from cryptography import x509
from cryptography.x509.oid import NameOID


async def pinned(host: str, port: int) -> tuple[bytes, str]:
    """The certificate that is shown, as PEM, and a name in it. Raises OSError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    _, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=host)
    try:
        shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    finally:
        writer.close()
    return ssl.DER_cert_to_PEM_cert(shown).encode(), _name(x509.load_der_x509_certificate(shown)) or host


def _name(certificate: x509.Certificate) -> str:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        common = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        return str(common[0].value) if common else ""
    for name in names.get_values_for_type(x509.DNSName):
        return name.replace("*", "any")
    for address in names.get_values_for_type(x509.IPAddress):
        return str(address)
    return ""
