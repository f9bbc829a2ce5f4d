"""Why a request of somebody who waits is not served."""

from tiphys.errors import CallError


class RefusedRequestError(CallError):
    """`status` is what HTTP calls it; the text is for whoever asked."""

    def __init__(self, message: str, *, status: int = 403) -> None:
        super().__init__(message)
        self.status = status
