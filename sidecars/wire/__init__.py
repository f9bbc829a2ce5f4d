"""argocd-agent's protocol as bytes and connections: messages, events, identity, tokens, streams.

grpc has no setting for the lowest TLS version. A list of ciphers that TLS 1.2 cannot use without a key
agreed on beforehand leaves TLS 1.3, whose ciphers it does not touch. grpc reads it once, when it is first
imported, which is why it stands here; `tls` checks what became of it. Who sets the variable decides otherwise.

So it is with what grpc itself prints: without a word about it, a line on standard error for every handshake
that fails, at every try of whoever has an expired certificate or scans the port. Its errors stay.
"""

import os

os.environ.setdefault("GRPC_SSL_CIPHER_SUITES", "ECDHE-PSK-AES128-CBC-SHA")
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
