"""Names of time zones that Go's time.LoadLocation knows: those of the IANA database, letter for letter."""

from importlib import resources

# Data that comes with a package, read once like the code beside it.
_KNOWN = frozenset(["", "UTC", "Local", *resources.files("tzdata").joinpath("zones").read_text().split()])


def problem(name: str) -> str:
    """Go's complaint, empty where there is none."""
    if name in _KNOWN:
        return ""
    if ".." in name or name.startswith(("/", "\\")):
        return "time: invalid location name"
    return f"unknown time zone {name}"
