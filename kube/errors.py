"""What an API server can answer instead of an object, as our own exceptions.

The client library's exceptions differ between its sync, asyncio and watch sides; these do not, and the
embedded store raises the same ones.
"""

from typing import Any, ClassVar

from tiphys.errors import SurroundingsError


class ApiError(SurroundingsError):
    """An API server refused or failed; `status` is its Status object where it sent one, `retry_after` the seconds
    that it wants to be left alone.
    """

    code: ClassVar[int] = 500
    reason: ClassVar[str] = "InternalError"

    def __init__(
        self, message: str, *, status: dict[str, Any] | None = None, retry_after: float = 0.0
    ) -> None:
        super().__init__(message)
        self.status = status or {}
        self.retry_after = retry_after


class BadRequestError(ApiError):
    code, reason = 400, "BadRequest"


class UnauthorizedError(ApiError):
    code, reason = 401, "Unauthorized"


class ForbiddenError(ApiError):
    code, reason = 403, "Forbidden"


class NotFoundError(ApiError):
    code, reason = 404, "NotFound"


class AlreadyExistsError(ApiError):
    code, reason = 409, "AlreadyExists"


class ConflictError(ApiError):
    code, reason = 409, "Conflict"


class GoneError(ApiError):
    """The resource version or continue token has been compacted away: list afresh."""

    code, reason = 410, "Expired"


class InvalidError(ApiError):
    code, reason = 422, "Invalid"


class TooManyRequestsError(ApiError):
    code, reason = 429, "TooManyRequests"


class UnavailableError(ApiError):
    """No answer, or one that says to come back: network errors, timeouts and 5xx.

    `outcome_unknown` says that a write may have happened all the same.
    """

    code, reason = 503, "ServiceUnavailable"

    def __init__(
        self,
        message: str,
        *,
        status: dict[str, Any] | None = None,
        retry_after: float = 0.0,
        outcome_unknown: bool = False,
    ) -> None:
        super().__init__(message, status=status, retry_after=retry_after)
        self.outcome_unknown = outcome_unknown


class KubeconfigError(SurroundingsError):
    """A kubeconfig, or what it names, cannot be used; raised on connecting only."""


def without_values(error: Exception, *, whole: bool = True) -> str:
    """One line for a log: the fields that an API server complains of and what sort of complaint it is, but not its
    words, which quote the values. Where it names no field its words are kept if `whole`, else the sort of error alone.
    """
    causes = error.status.get("details", {}).get("causes") if isinstance(error, ApiError) else None
    fields = [f"{cause.get('field')} ({cause.get('reason')})" for cause in causes or () if cause.get("field")]
    if fields:
        return f"{type(error).__name__}: {', '.join(fields)}"
    text = " ".join(str(error).split()) if whole else ""
    return text or type(error).__name__
