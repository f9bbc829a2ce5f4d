"""What a local cluster with Argo CD costs: seconds to start, memory at work."""

from pathlib import Path

from scripts.cluster.argocd.installation import ArgoCd

KIB_PER_MIB = 1024


def usage_table(argocd: ArgoCd) -> list[str]:
    """One line for each process or step, then the sums."""
    memory = {name: resident_mib(pid) for name, pid in argocd.cluster.pids.items()}
    names = list(dict.fromkeys([*memory, *argocd.seconds]))
    lines = [_line(name, argocd.seconds.get(name), memory.get(name)) for name in names]
    return [*lines, _line("together", sum(argocd.seconds.values()), sum(memory.values()))]


def resident_mib(pid: int) -> int:
    """0 for one that has ended, and where there is no /proc."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    for line in status.splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) // KIB_PER_MIB
    return 0


def _line(name: str, seconds: float | None, mib: int | None) -> str:
    time = "" if seconds is None else f"{seconds:.1f} s"
    size = "" if mib is None else f"{mib} MiB"
    return f"{name:<34}{time:>8}{size:>10}"
