"""The agent: its certificate, and the whole way to its principal from where this command runs."""

import asyncio
import socket

from argocd import names
from argocd.agents.vocabulary import Mode
from certs.key_pair import Material
from checks.doctor.cluster_checks import clock_diagnosis
from checks.doctor.diagnosis import Diagnosis, DoctorCheck, DoctorSection, error, ok, warning
from checks.doctor.examined import Examined, InstalledPart, flag
from checks.doctor.rights import rights_check
from checks.doctor.sidecar_checks import authorities, certificate_diagnosis, key_pair, lease_check
from sidecars.wire.client.dialer import DialError, DialOptions, TrialLogin, try_login
from tiphys import __version__

PART = InstalledPart.AGENT
CERTIFICATE = "agent/certificate"
ADDRESS = "agent/address"
LOGIN = "agent/login"
DNS_SECONDS = 10.0


async def _certificate(examined: Examined) -> Diagnosis:
    return await certificate_diagnosis(
        examined,
        secret=names.AGENT_TLS_SECRET,
        authority=names.AGENT_CA_SECRET,
        remedy="on the control plane: tiphys pki issue agent AGENT --agent-context CONTEXT",
    )


async def _where(examined: Examined) -> tuple[str, int]:
    deployment = await examined.deployment(PART)
    host = examined.options.server_address or flag(deployment, "--server-address")
    told = flag(deployment, "--server-port")
    return host, examined.options.server_port or (int(told) if told.isdigit() else 443)


async def _address(examined: Examined) -> Diagnosis:
    host, port = await _where(examined)
    if not host:
        return error(
            "it is not known where the principal is: Deployment tiphys-agent has no --server-address",
            remedy="give this command --server-address, and --server-port",
        )
    remedy = (
        "correct the agent's --server-address, or the DNS; a name of the cluster is only known inside of it"
    )
    return await address_diagnosis(host, port, remedy=remedy)


async def address_diagnosis(host: str, port: int, *, remedy: str) -> Diagnosis:
    """By the DNS of this machine."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(DNS_SECONDS):
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, TimeoutError) as problem:
        return error(f"{host} has no address here: {problem or 'no answer'}", remedy=remedy)
    return ok(f"{host} is {found[0][4][0]}")


async def _tried(examined: Examined) -> TrialLogin:
    host, port = await _where(examined)
    deployment = await examined.deployment(PART)
    mode = flag(deployment, "--agent-mode")
    material = Material(
        await key_pair(examined, names.AGENT_TLS_SECRET), await authorities(examined, names.AGENT_CA_SECRET)
    )
    return await try_login(
        DialOptions(
            host=host,
            port=port,
            material=material,
            mode=Mode(mode) if mode in list(Mode) else Mode.MANAGED,
            namespace=examined.options.argocd_namespace,
            version=__version__,
        )
    )


async def _login(examined: Examined) -> Diagnosis:
    credentials = flag(await examined.deployment(PART), "--creds")
    if credentials and not credentials.startswith("mtls:"):
        return warning(
            f"not tried: it logs in by {credentials.partition(':')[0]}, and only a certificate can be tried from here",
            remedy="look at the agent's log, or at `tiphys agents list` on the control plane",
        )
    try:
        found = await _tried(examined)
    except DialError as problem:
        host, port = await _where(examined)
        if problem.hopeless:
            remedy = (
                "on the control plane: `tiphys agents inspect AGENT` tells its mode and whether it is blocked"
            )
        else:
            remedy = (
                f"is {host}:{port} open from here (firewall, load balancer), and is the name in the principal's"
                " certificate? `tiphys pki inspect` on the control plane tells"
            )
        return error(str(problem), remedy=remedy)
    return ok(
        f"as {found.me.agent}, {found.me.mode.value}, at a principal of {found.principal.version or '?'}"
    )


async def _clock(examined: Examined) -> Diagnosis:
    before = examined.now().timestamp()
    found = await _tried(examined)
    after = examined.now().timestamp()
    skew = max(before - found.clock - 1, found.clock - after, 0.0)  # it tells whole seconds
    return clock_diagnosis(skew, behind=found.clock > after, whose="the principal's")


SECTION = DoctorSection(
    title="agent",
    applies=lambda examined: examined.has(PART),
    checks=(
        rights_check(PART),
        DoctorCheck(
            id=CERTIFICATE,
            title="its certificate is good for a while, and its principal's authority's",
            look=_certificate,
        ),
        lease_check(PART),
        DoctorCheck(id=ADDRESS, title="its principal's name has an address", look=_address),
        DoctorCheck(
            id=LOGIN,
            title="the principal lets it in, from here",
            look=_login,
            needs=(CERTIFICATE, ADDRESS),
        ),
        DoctorCheck(
            id="agent/clock",
            title="the clocks of this machine and the principal agree",
            look=_clock,
            needs=(LOGIN,),
        ),
    ),
)
