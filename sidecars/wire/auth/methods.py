"""Which agent is calling: by its certificate, by a header that a mesh wrote, or by a password.

A method is configured as argocd-agent's `--auth`: `mtls:<pattern>`, `mtls:subject:<pattern>`,
`mtls:uri:<pattern>`, `header:<name>:<pattern>`, `userpass:<file>`. A pattern is searched for, and its first
group is the agent's name. Callers learn nothing but "authentication failed"; the reason is for the log.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Protocol

import re2
from cryptography import x509
from cryptography.x509.oid import NameOID

from sidecars.wire.auth.go_subject import go_subject
from tiphys.errors import CallError

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_URI = re.compile(r"[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]+")

# A header such as x-forwarded-client-cert holds a chain of certificates at most.
MAX_TEXT_LENGTH = 16 * 1024
MAX_PATTERN_LENGTH = 1024


class Refusal(StrEnum):
    """Why a caller is nobody; also the label of a metric."""

    ABSENT = "not found"
    NO_MATCH = "does not match"
    EMPTY = "empty"
    BAD_NAME = "invalid agent ID"
    AMBIGUOUS = "ambiguous"
    BAD_CERTIFICATE = "bad certificate"
    UNTRUSTED = "untrusted certificate"
    BLOCKED = "blocked certificate"
    BAD_PASSWORD = "wrong name or password"  # noqa: S105 - a reason, not a secret


class IdentityError(CallError):
    def __init__(self, refusal: Refusal, message: str) -> None:
        super().__init__(message)
        self.refusal = refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class CallCredentials:
    """What a call brings along. The certificate has been verified by the time a method sees it."""

    certificate: x509.Certificate | None = None
    metadata: Mapping[str, Sequence[str]] = field(default_factory=dict, repr=False)
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)


class Method(Protocol):
    """`name` is what an agent's login asks for."""

    @property
    def name(self) -> str: ...

    async def identify(self, evidence: CallCredentials) -> str:
        """The agent's name; raises IdentityError."""
        ...


def is_agent_name(name: str) -> bool:
    return _LABEL.fullmatch(name) is not None


class NamePattern:
    """A search in linear time whose first group is a name."""

    def __init__(self, text: str) -> None:
        options = re2.Options()
        options.log_errors = False  # to stderr, past our logs
        if len(text) > MAX_PATTERN_LENGTH:
            raise CallError(f"the pattern for agent names is longer than {MAX_PATTERN_LENGTH} characters")
        try:
            self._compiled: Any = re2.compile(text, options)
        except re2.error as error:
            reason = error.args[0].decode(errors="replace") if error.args else "unknown reason"
            raise CallError(f"pattern {text!r} for agent names: {reason}") from error
        if self._compiled.groups < 1:
            raise CallError(
                f"pattern {text!r} for agent names has no group: put the name's part in parentheses"
            )
        self.text = text

    def search(self, text: str) -> tuple[str, int] | None:
        """The first group's text and where it starts, or nothing."""
        if len(text) > MAX_TEXT_LENGTH:
            return None
        match = self._compiled.search(text)
        return None if match is None else (match.group(1) or "", match.start(1))


def _checked(name: str, *, source: str) -> str:
    if not name:
        raise IdentityError(Refusal.EMPTY, f"the pattern's first group is empty in the {source}")
    if not is_agent_name(name):
        raise IdentityError(
            Refusal.BAD_NAME, f"{name[:80]!r} from the {source} is no agent's name: a DNS label is needed"
        )
    return name


@dataclass(frozen=True, slots=True)
class SubjectMethod:
    """The subject as Go writes it. Exactly one common name: of several, libraries disagree which counts."""

    pattern: NamePattern
    name: ClassVar[str] = "mtls"

    async def identify(self, evidence: CallCredentials) -> str:
        certificate = _certificate(evidence)
        try:
            subject = go_subject(certificate.subject)
        except ValueError as error:
            raise IdentityError(Refusal.BAD_CERTIFICATE, f"the certificate's subject: {error}") from error
        if len(subject.common_names) != 1 or not subject.common_names[0]:
            raise IdentityError(
                Refusal.AMBIGUOUS,
                f"the certificate has {len(subject.common_names)} common names, exactly one is needed",
            )
        found = self.pattern.search(subject.text)
        if found is None:
            raise IdentityError(
                Refusal.NO_MATCH, f"subject {subject.text[:200]!r} does not match {self.pattern.text!r}"
            )
        if subject.poses(found[1]):
            raise IdentityError(
                Refusal.AMBIGUOUS, f"subject {subject.text[:200]!r} has an attribute inside a value"
            )
        return _checked(found[0], source="subject")


@dataclass(frozen=True, slots=True)
class UriMethod:
    """The URIs among the alternative names, such as SPIFFE ids. Those that match must name one agent."""

    pattern: NamePattern
    name: ClassVar[str] = "mtls"

    async def identify(self, evidence: CallCredentials) -> str:
        certificate = _certificate(evidence)
        try:
            names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
            uris = names.get_values_for_type(x509.UniformResourceIdentifier)
        except x509.ExtensionNotFound:
            uris = []
        except ValueError as error:
            raise IdentityError(Refusal.BAD_CERTIFICATE, f"the alternative names: {error}") from error
        if not uris:
            raise IdentityError(Refusal.ABSENT, "the certificate has no URI among its alternative names")
        if len(certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)) > 1:
            raise IdentityError(Refusal.AMBIGUOUS, "the certificate has several common names")
        if not all(_URI.fullmatch(uri) for uri in uris):
            raise IdentityError(Refusal.BAD_CERTIFICATE, "a URI of the certificate has illegal characters")
        found = {match[0] for match in map(self.pattern.search, uris) if match}
        if not found:
            raise IdentityError(
                Refusal.NO_MATCH, f"no URI of the certificate does match {self.pattern.text!r}"
            )
        if len(found) > 1:
            raise IdentityError(Refusal.AMBIGUOUS, f"the certificate's URIs name {len(found)} agents")
        return _checked(found.pop(), source="URI")


@dataclass(frozen=True, slots=True)
class HeaderMethod:
    """A header that a mesh's sidecar wrote. Only for a plaintext listener that nothing else can reach."""

    header: str
    pattern: NamePattern
    name: ClassVar[str] = "header"

    async def identify(self, evidence: CallCredentials) -> str:
        values = evidence.metadata.get(self.header.lower(), ())
        if not values:
            raise IdentityError(Refusal.ABSENT, f"header {self.header!r} was not found in the call")
        # Go takes the first, which a caller can put before the one of a mesh that only adds its own.
        if len(values) > 1:
            raise IdentityError(Refusal.AMBIGUOUS, f"header {self.header!r} came {len(values)} times")
        found = self.pattern.search(values[0])
        if found is None:
            raise IdentityError(
                Refusal.NO_MATCH, f"the value of header {self.header!r} does not match {self.pattern.text!r}"
            )
        return _checked(found[0], source=f"header {self.header!r}")


def _certificate(evidence: CallCredentials) -> x509.Certificate:
    if evidence.certificate is None:
        raise IdentityError(Refusal.ABSENT, "the call came without a client certificate")
    return evidence.certificate


def certificate_method(config: str) -> SubjectMethod | UriMethod:
    """`subject:<pattern>`, `uri:<pattern>`, or a bare pattern for the subject."""
    source, colon, pattern = config.partition(":")
    if colon and source == "uri":
        return UriMethod(NamePattern(pattern))
    return SubjectMethod(NamePattern(pattern if colon and source == "subject" else config))


def header_method(config: str) -> HeaderMethod:
    """`<name>:<pattern>`."""
    header, colon, pattern = config.partition(":")
    if not header or not colon:
        raise CallError(f"header:{config}: write header:<name>:<pattern>")
    return HeaderMethod(header, NamePattern(pattern))
