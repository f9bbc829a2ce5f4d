"""Who is on this machine's loopback, and who asked for it by name.

A browser on the operator's own machine is on the loopback of `kubectl port-forward`, and so is every script of every page
that it has open: only who asked for a loopback address by name is answered, not whom a foreign name led here.
"""

from ipaddress import ip_address


def is_loopback(address: str) -> bool:
    try:
        found = ip_address(address)
    except ValueError:
        return False
    mapped = getattr(found, "ipv4_mapped", None)
    return (mapped or found).is_loopback


def host_name(host: str) -> str:
    """A Host header without its port."""
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    return name.strip("[]").lower()


def names_loopback(host: str) -> bool:
    """By a Host header. Programs that name no host are no browsers."""
    name = host_name(host)
    return name in {"", "localhost"} or name.endswith(".localhost") or is_loopback(name)
