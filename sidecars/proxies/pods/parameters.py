"""The parameters of a request for a log or a terminal."""

from collections.abc import Iterable
from urllib.parse import parse_qsl

from sidecars.proxies.refusals import RefusedRequestError


def query_pairs(query: str, *, most: int) -> list[tuple[str, str]]:
    """Without what Argo CD's address of an agent says."""
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=most, errors="strict")
    except ValueError as error:
        raise RefusedRequestError("the query cannot be read", status=400) from error
    return [(name, told) for name, told in pairs if name != "agentName"]


def single_parameters(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Of two values two readers could take different ones."""
    found: dict[str, str] = {}
    for name, told in pairs:
        if name in found:
            raise RefusedRequestError(f"the parameter {name[:64]} is there twice", status=400)
        found[name] = told
    return found
