"""What a path of the Kubernetes API asks for. Both ends read it, so that neither can be told one thing and do another."""

import re
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import quote, unquote

from tiphys.errors import CallError

MAX_LENGTH = 2048
_MAX_SEGMENT = 253  # the longest name that Kubernetes has
_VERSION = re.compile(r"v[a-z0-9]{1,30}")
_WORD = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
# `.` and `..` would leave the path, `%` and `/` make two readers see two names.
_NO_NAME = re.compile(r"\.{1,2}|.*[/%\x00-\x1f\x7f].*", re.DOTALL)
REFUSED_SUBRESOURCES = frozenset({"attach", "exec", "log", "portforward", "proxy", "token"})
"""Streams, which have ways of their own or none, and what hands out credentials."""

_OF_NAMESPACES = frozenset({"status", "finalize"})
"""In the place of a kind: the two subresources of a Namespace, whose own name looks like one's place."""


class PathError(CallError):
    """Not a path of the API, or not one that is served here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiPath:
    """Objects, or a `document`: what the API server says about itself, by its whole path."""

    document: str = ""
    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    name: str = ""
    subresource: str = ""

    def __str__(self) -> str:
        if self.document:
            return self.document
        parts = ["apis", self.group] if self.group else ["api"]
        parts.append(self.version)
        if self.namespace:
            parts += ["namespaces", self.namespace]
        parts += [self.resource, *filter(None, (self.name, self.subresource))]
        return quote("/" + "/".join(parts), safe=":/")  # no part has a slash of its own

    @property
    def parent(self) -> "ApiPath":
        """The object that a subresource belongs to."""
        return ApiPath(
            group=self.group,
            version=self.version,
            namespace=self.namespace,
            resource=self.resource,
            name=self.name,
        )

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def what(self) -> str:
        """For people."""
        kind = f"{self.resource}.{self.group}" if self.group else self.resource
        place = "/".join(filter(None, (self.namespace, self.name)))
        return f"{kind} {place}".rstrip() if not self.document else self.document


@lru_cache(
    maxsize=1024
)  # whoever looks at an object asks for it again and again, and both ends read the same path
def parse_path(path: str) -> ApiPath:
    """Of a path as it stands in a request line, percent-encoded and without its query."""
    if not path.startswith("/") or len(path) > MAX_LENGTH:
        raise PathError("not a path of the Kubernetes API")
    try:
        segments = [unquote(segment, errors="strict") for segment in _split(path)]
    except UnicodeDecodeError as error:
        raise PathError("a part of the path is no UTF-8") from error
    if any(not segment or len(segment) > _MAX_SEGMENT or _NO_NAME.fullmatch(segment) for segment in segments):
        raise PathError("a part of the path is empty, too long or no name")
    found = _document(segments) or _objects(segments)
    if found is None:
        raise PathError(
            f"/{'/'.join(segments)[:200]} is not served here: objects, their subresources and discovery are"
        )
    return found


def path_of(
    *, group: str, version: str, namespace: str, resource: str, name: str, subresource: str
) -> ApiPath:
    """Of a request of argocd-agent's principal, which tells the parts."""
    if not resource:
        if not version:
            return ApiPath(document="/apis")
        return parse_path(f"/apis/{quote(group, safe='')}/{version}" if group else f"/api/{version}")
    parts = ["apis", group] if group else ["api"]
    parts.append(version)
    if namespace:
        parts += ["namespaces", namespace]
    parts.append(resource)
    if subresource and not name:
        raise PathError("a subresource without a name")
    parts += filter(None, (name, subresource))
    return parse_path("/" + "/".join(quote(part, safe="") for part in parts))


def _split(path: str) -> list[str]:
    segments = path[1:].split("/")
    # Clients of Go end the paths of documents with a slash.
    return segments[:-1] if len(segments) > 1 and not segments[-1] else segments


def _document(segments: list[str]) -> ApiPath | None:
    match segments:
        case ["version" | "api" | "apis"] | ["openapi", "v2" | "v3"]:
            pass
        case ["api", version] | ["openapi", "v3", "api", version] if _VERSION.fullmatch(version):
            pass
        case ["apis", group] | ["openapi", "v3", "apis", group] if _is_group(group):
            pass
        case ["apis", group, version] | ["openapi", "v3", "apis", group, version] if _is_group(
            group
        ) and _VERSION.fullmatch(version):
            pass
        case _:
            return None
    return ApiPath(document="/" + "/".join(segments))


def _is_group(word: str) -> bool:
    """A version in the place of a group is a path without one."""
    return _WORD.fullmatch(word) is not None and not re.fullmatch(r"v\d+((alpha|beta)\d+)?", word)


def _objects(segments: list[str]) -> ApiPath | None:
    match segments:
        case ["api", version, *rest]:
            group = ""
        case ["apis", group, version, *rest] if _is_group(group):
            pass
        case _:
            return None
    if not _VERSION.fullmatch(version):
        return None
    namespace = ""
    match rest:
        case ["namespaces", name, subresource] if not group and subresource in _OF_NAMESPACES:
            return ApiPath(version=version, resource="namespaces", name=name, subresource=subresource)
        case ["namespaces", place, _, *_]:
            namespace, rest = place, rest[2:]
    if not 1 <= len(rest) <= 3 or not _WORD.fullmatch(rest[0]):  # noqa: PLR2004 - resource, name, subresource
        return None
    if len(rest) == 3 and not _WORD.fullmatch(rest[2]):  # noqa: PLR2004
        return None
    resource, name, subresource = [*rest, "", ""][:3]
    return ApiPath(
        group=group,
        version=version,
        namespace=namespace,
        resource=resource,
        name=name,
        subresource=subresource,
    )
