"""Which way the environment sends requests."""

import pytest

from kube.live.environment import proxy_of_environment

PROXY = "http://proxy.example.com:3128"


@pytest.mark.parametrize(
    ("url", "exceptions", "expected"),
    [
        ("https://api.example.com:6443", "", PROXY),
        ("http://api.example.com", "", None),
        ("https://api.example.com", "example.com", None),
        ("https://api.example.com", ".example.com", None),
        ("https://10.96.0.1:443", "10.0.0.0/8,192.168.1.1", None),
        ("https://192.168.1.1", "10.0.0.0/8, 192.168.1.1", None),
        ("https://192.168.1.2", "10.0.0.0/8,192.168.1.1", PROXY),
        ("https://[fd00::1]:443", "fd00::/8", None),
        ("https://[fd00::1]:443", "", PROXY),
        ("https://127.0.0.1:6443", "", None),
        ("https://localhost", "", None),
        ("https://api.example.com", "*", None),
    ],
)
def test_the_environment_is_read_as_kubectl_reads_it(
    monkeypatch: pytest.MonkeyPatch, url: str, exceptions: str, expected: str | None
) -> None:
    for name in ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", PROXY)
    monkeypatch.setenv("NO_PROXY", exceptions)
    assert proxy_of_environment(url) == expected
