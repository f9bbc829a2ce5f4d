"""Three things can be bad: the object, the call, or our surroundings.

Libraries' exceptions stop at the door that called the library and are chained as the cause, so that
callers catch these and users read one line. `exit_code` is what a command ends with.
"""

from typing import ClassVar


class TiphysError(Exception):
    """One line for the user: what was wrong, where, and what to do."""

    exit_code: ClassVar[int] = 2


class ObjectError(TiphysError):
    """A user's object is bad."""

    exit_code = 1


class CallError(TiphysError):
    """The call to us is bad: arguments, configuration, a malformed request."""


class SurroundingsError(TiphysError):
    """What we stand on is bad: files, the network, the API server, credentials."""
