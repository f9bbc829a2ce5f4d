"""A peer sent something that cannot be understood, now or ever."""

from tiphys.errors import CallError


class MalformedError(CallError):
    """Sending it again changes nothing. `resource_id` and `event_id`, where they could be read, let the
    receiver acknowledge the event so that its sender stops.
    """

    def __init__(self, reason: str, *, resource_id: str = "", event_id: str = "") -> None:
        super().__init__(reason)
        self.resource_id = resource_id
        self.event_id = event_id

    @property
    def can_be_acknowledged(self) -> bool:
        return bool(self.resource_id and self.event_id)
