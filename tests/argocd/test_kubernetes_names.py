"""What Kubernetes takes as a name."""

import pytest

from argocd.kubernetes_names import is_account, is_dns_label, is_dns_subdomain, is_label_value


@pytest.mark.parametrize(
    ("text", "label", "subdomain", "value"),
    [
        ("guestbook-ui", True, True, True),
        ("Guestbook", False, False, True),
        ("a.b", False, True, True),
        ("a..b", False, False, True),
        ("", False, False, True),
        ("-a", False, False, False),
        ("a-", False, False, False),
        ("a_b", False, False, True),
        ("a\n", False, False, False),
        ("ä", False, False, False),
        ("a" * 63, True, True, True),
        ("a" * 64, False, True, False),
        ("a" * 254, False, False, False),
    ],
)
def test_names_and_values_have_rules(text: str, *, label: bool, subdomain: bool, value: bool) -> None:
    assert (is_dns_label(text), is_dns_subdomain(text), is_label_value(text)) == (label, subdomain, value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sa", True),
        ("ns:sa", True),
        ("ns:a.b", True),
        ("a.b:sa", False),
        (":sa", False),
        ("a:b:c", False),
        ("a" * 318, False),
    ],
)
def test_an_account_is_a_name_or_a_namespace_and_a_name(text: str, *, expected: bool) -> None:
    assert is_account(text) is expected
