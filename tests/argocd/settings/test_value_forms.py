"""Values as Argo CD reads them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argocd import names
from argocd.settings import value_forms
from argocd.settings.keys import keys_of


@pytest.mark.parametrize(
    ("form", "good", "bad"),
    [
        ("boolean", ("true", "False", "1", "t"), ("yes", "on", "tRUE")),
        ("folded-boolean", ("true", "FALSE", "tRuE"), ("1", "yes", "t")),
        ("integer", ("0", "-3", "+7"), ("1.5", "ten", "1_0", "0x1")),
        ("integer:1..1000", ("1", "1000"), ("0", "1001", "-1")),
        ("integer:0..", ("0", "99999999999"), ("-1",)),
        ("number", ("1", "2.5", "1e3"), ("-1", "a", "1,5")),
        ("days", ("10s", "7d", "24h"), ("1h30m", "10", "1.5h", "1w", "-1h", "90 s")),
        ("duration", ("180s", "1h30m", "0", "7d"), ("10", "1w", "-5s", "3 m", "5min")),
        ("duration:..10h", ("10h",), ("11h",)),
        ("duration:1s..8760h", ("1s", "365d"), ("0s", "366d")),
        ("level", ("info", "DEBUG", "warning"), ("verbose", "informational")),
        ("size", ("100M", "1G", "10Mi", "5"), ("1GB", "ten", "10 M")),
        ("pairs", ("a=b", "a=b,c=d"), ("a", "a=b=c", "a:b")),
        (
            "url",
            ("https://argocd.example.com", "http://localhost:8080"),
            ("argocd.example.com", "ftp://x", "https://["),
        ),
        ("expression", ("^.{8,32}$",), ("(", "(?=a)")),
        ("json|text", ("json", "text"), ("JSON", "yaml")),
    ],
)
def test_a_form_takes_what_argo_cd_takes(form: str, good: tuple[str, ...], bad: tuple[str, ...]) -> None:
    assert [text for text in good if value_forms.problem(form, text)] == []
    assert [text for text in bad if not value_forms.problem(form, text)] == []


@given(st.text(max_size=40))
def test_every_text_gets_an_answer_from_every_form(text: str) -> None:
    forms = {
        known.form
        for name in (names.ARGOCD_CM, names.ARGOCD_CMD_PARAMS_CM)
        for known in keys_of(name).exact.values()
    }
    for form in forms - {"switch", "yaml", "account", "customization"}:
        assert isinstance(value_forms.problem(form, text), str)
        assert not value_forms.problem(form, "")
