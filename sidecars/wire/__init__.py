"""argocd-agent's protocol as bytes and connections: messages, events, identity, tokens, streams.

grpc has no setting for the lowest TLS version. A list of ciphers that TLS 1.2 cannot use without a key
agreed on beforehand leaves TLS 1.3, whose ciphers it does not touch. grpc reads it once, when it is first
imported, which is why it stands here; `tls` checks what became of it. Who sets the variable decides otherwise.
"""

import os

os.environ.setdefault("GRPC_SSL_CIPHER_SUITES", "ECDHE-PSK-AES128-CBC-SHA")
