"""Certificates, keys and a principal on loopback for the tests of the wire.

`sidecars.wire` comes first: grpc reads its ciphers once, when it is first imported.
"""

import sidecars.wire  # noqa: F401  isort: skip
