"""A Secret's data out of its base64."""

import pytest

from kube.secrets import decoded, decoded_data


@pytest.mark.parametrize(
    ("value", "content"), [("aGk=", b"hi"), ("", b""), (None, b""), ("a", None), ("?", None), (7, None)]
)
def test_what_is_no_base64_is_none(value: object, content: bytes | None) -> None:
    assert decoded(value) == content


def test_what_is_no_base64_is_absent_from_the_data() -> None:
    assert decoded_data({"data": {"good": "aGk=", "bad": "?"}}) == {"good": b"hi"}
    assert decoded_data({"data": None}) == decoded_data({}) == decoded_data(None) == {}
