"""Names of time zones that Go's time.LoadLocation knows: those of the IANA database, letter for letter."""

import pkgutil

# Data that comes with a package, read once like the code beside it. Not by importlib.resources: loading that
# takes longer than all the rules about windows.
_KNOWN = frozenset(["", "UTC", "Local", *(pkgutil.get_data("tzdata", "zones") or b"").decode().split()])


def problem(name: str) -> str:
    """Go's complaint, empty where there is none."""
    if name in _KNOWN:
        return ""
    if ".." in name or name.startswith(("/", "\\")):
        return "time: invalid location name"
    return f"unknown time zone {name}"
