"""Remembers what was found out about short texts: users write the same ones again and again.

A long text is worked out each time, or remembered among few others, so that nobody can fill the memory. The steps that
an answer took (`argocd.budget`) are remembered with it and charged each time.
"""

from collections.abc import Callable
from functools import lru_cache, partial, update_wrapper
from typing import Any, Protocol, TypeVar, TypeVarTuple, cast

from argocd.budget import measured, spend

Arguments = TypeVarTuple("Arguments")
Found = TypeVar("Found")
Answer_co = TypeVar("Answer_co", covariant=True)


class RememberedFunction(Protocol[*Arguments, Answer_co]):
    """`short` and `long` are who answers about either; the function itself is `__wrapped__`."""

    short: Any
    long: Any
    __wrapped__: Any

    def __call__(self, *args: *Arguments) -> Answer_co: ...


def remembered(
    *, longest: int, most: int, most_long: int = 0, length: Callable[..., int] | None = None
) -> Callable[[Callable[[*Arguments], Found]], RememberedFunction[*Arguments, Found]]:
    """For a function of texts: the newest `most` answers about up to `longest` characters are kept.

    The length is that of the first argument if nothing else is said. It is called without keywords.
    """

    def decorate(function: Callable[[*Arguments], Found]) -> RememberedFunction[*Arguments, Found]:
        work = partial(measured, function)
        short: Any = lru_cache(maxsize=most)(work)
        long: Any = lru_cache(maxsize=most_long)(work) if most_long else work

        # Each is as fast as the same line written out where it is needed.
        def by_first(*args: Any) -> Any:
            answer, steps = (short if len(args[0]) <= longest else long)(*args)
            if steps:
                spend(steps)
            return answer

        def by_length(*args: Any) -> Any:
            answer, steps = (short if measure(*args) <= longest else long)(*args)
            if steps:
                spend(steps)
            return answer

        measure: Any = length
        asked: Any = update_wrapper(by_length if length else by_first, function)
        asked.short, asked.long = short, long
        return cast("RememberedFunction[*Arguments, Found]", asked)

    return decorate
