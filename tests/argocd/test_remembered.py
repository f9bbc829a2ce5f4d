"""What is remembered of texts."""

from argocd.remembered import remembered


def test_short_texts_are_remembered_and_long_ones_are_not() -> None:
    @remembered(longest=3, most=2)
    def letters(text: str) -> list[str]:
        return list(text)

    assert letters("abc") is letters("abc")
    assert letters("abcd") == ["a", "b", "c", "d"]
    assert letters("abcd") is not letters("abcd")
    assert letters.short.cache_info().currsize == 1


def test_only_so_many_are_remembered_short_and_long() -> None:
    @remembered(longest=1, most=2, most_long=1)
    def letters(text: str) -> list[str]:
        return list(text)

    first, long = letters("a"), letters("ab")
    assert letters("ab") is long
    for text in ("b", "c", "cd"):
        letters(text)
    assert letters("a") is not first
    assert letters("ab") is not long


def test_a_function_of_several_texts_says_what_is_long() -> None:
    @remembered(longest=3, most=2, length=lambda one, other: len(one) + len(other))
    def joined(one: str, other: str) -> list[str]:
        return [one, other]

    assert joined("a", "bc") is joined("a", "bc")
    assert joined("ab", "cd") is not joined("ab", "cd")
    assert joined.__wrapped__("a", "b") == ["a", "b"]
