from typing import Any

import pytest

from tests.argocd.rules.asking import application, application_set, ask


@pytest.mark.parametrize(
    ("entries", "found"),
    [
        (
            [{"jqPathExpressions": [".webhooks[]?.clientConfig.caBundle", ".a |"]}],
            ["[0].jqPathExpressions[1]"],
        ),
        ([{}, {"jqPathExpressions": [".a | without(.b)"]}], ["[1].jqPathExpressions[0]"]),
        ([{"jqPathExpressions": [".a[$index]"]}], ["[0].jqPathExpressions[0]"]),
        ([{"jqPathExpressions": [".a", 3, None]}, "x", None, {"jqPathExpressions": ".a |"}], []),
        ("x", []),
        (None, []),
    ],
)
def test_a_path_that_does_not_compile_is_told(entries: Any, found: list[str]) -> None:
    things = {
        "ignoreDifferences": ask("application/jq-path", application(ignoreDifferences=entries)),
        "ignoreApplicationDifferences": ask(
            "applicationset/jq-path", application_set(ignoreApplicationDifferences=entries)
        ),
    }
    for field, findings in things.items():
        assert [finding.path for finding in findings] == [f"spec.{field}{path}" for path in found]


def test_the_finding_says_what_gojq_says() -> None:
    (finding,) = ask(
        "application/jq-path", application(ignoreDifferences=[{"jqPathExpressions": [".a | b"]}])
    )
    assert finding.message == "'.a | b': function not defined: b/0"
