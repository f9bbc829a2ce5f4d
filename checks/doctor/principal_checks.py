"""The principal: its certificates, its key for tokens, whom it locks out, and whether its agents are there."""

from argocd import names, reading
from certs.key_pair import due, trusted
from certs.sources import secret_data
from checks.doctor.diagnosis import (
    CheckHealth,
    Diagnosis,
    DoctorCheck,
    DoctorSection,
    counted,
    error,
    ok,
    some,
    warning,
)
from checks.doctor.examined import Examined, InstalledPart, container_words, flag
from checks.doctor.rights import rights_check
from checks.doctor.sidecar_checks import authorities, certificate_diagnosis, lease_check
from checks.doctor.webhook_checks import until
from kube import queries
from kube.resources import DEPLOYMENTS
from kube.store import Object
from sidecars.fleet.agents import Fleet
from sidecars.fleet.pki import JWT_KEY
from sidecars.fleet.principal_client import ask_principal
from sidecars.wire.auth.tokens import load_key
from tiphys.errors import TiphysError

PART = InstalledPart.PRINCIPAL
AUTHORITY = "principal/authority"


def _fleet(examined: Examined) -> Fleet:
    return Fleet(store=examined.store, namespace=examined.options.argocd_namespace)


async def _authority(examined: Examined) -> Diagnosis:
    where = f"Secret {examined.options.argocd_namespace}/{names.AGENT_CA_SECRET}"
    try:
        found = trusted(await authorities(examined, names.AGENT_CA_SECRET), now=examined.now())
    except TiphysError:
        return error(f"{where} does not exist", remedy="tiphys pki init")
    if not found:
        return error(
            f"{where} holds no certificate that is still good",
            remedy="tiphys pki init --replace, then issue all certificates anew",
        )
    last = max(found, key=lambda certificate: certificate.not_valid_after_utc)
    return until(
        last.not_valid_after_utc,
        due(last),
        where=where,
        now=examined.now(),
        remedy="plan a new authority (`tiphys pki init --replace`): every certificate is issued anew with it",
    )


async def _certificate(examined: Examined) -> Diagnosis:
    return await certificate_diagnosis(
        examined,
        secret=names.PRINCIPAL_TLS_SECRET,
        authority=names.AGENT_CA_SECRET,
        remedy="tiphys pki issue principal --dns NAME",
    )


async def _proxy_certificates(examined: Examined) -> Diagnosis:
    """Of the two that argocd-server calls; a principal without one that it needs does not start."""
    deployment = await examined.deployment(PART)
    wanted = []
    if not _without_redis_proxy(deployment):
        wanted.append((names.REDIS_PROXY_TLS_SECRET, "redis-proxy"))
    if flag(deployment, "--enable-resource-proxy") != "false":
        wanted.append((names.RESOURCE_PROXY_TLS_SECRET, "resource-proxy"))
    for secret, issued in wanted:
        found = await certificate_diagnosis(
            examined,
            secret=secret,
            authority=names.AGENT_CA_SECRET,
            remedy=f"tiphys pki issue {issued}",
        )
        if found.health is not CheckHealth.OK:
            return found
    return ok(", ".join(issued for _, issued in wanted) or "it has none")


def _without_redis_proxy(deployment: Object | None) -> bool:
    return not {"--disable-redis-proxy", "--disable-redis-proxy=true"}.isdisjoint(container_words(deployment))


async def _argocd_server(examined: Examined) -> Diagnosis:
    """By its Deployment; an operator may have called it otherwise."""
    server = await queries.find(
        examined.store, DEPLOYMENTS, name=names.ARGOCD_SERVER, namespace=examined.options.argocd_namespace
    )
    if server is None:
        return ok("it is not here")
    told = reading.text(await examined.config_map(names.ARGOCD_CMD_PARAMS_CM), "data", "redis.server")
    asked = flag(server, "--redis") or told or "its own Redis"
    asks_proxy = asked.startswith(names.REDIS_PROXY_SERVICE)
    if _without_redis_proxy(await examined.deployment(PART)):
        if asks_proxy:
            return error(
                f"argocd-server asks {asked}, and the principal has --disable-redis-proxy: nobody answers",
                remedy="start the principal without that flag, or argocd-server with its own Redis",
            )
        return ok("the proxy is switched off")
    if not asks_proxy:
        return warning(
            f"argocd-server asks {asked}, so it shows no resource trees of agents' Applications",
            remedy=f"start argocd-server with --redis={names.REDIS_PROXY_SERVICE}:6379 and its TLS (docs: live resources)",
        )
    return ok(asked)


async def _token_key(examined: Examined) -> Diagnosis:
    namespace = examined.options.argocd_namespace
    try:
        data = await secret_data(examined.store, namespace=namespace, name=names.AGENT_JWT_SECRET)
        key = load_key(data.get(JWT_KEY, b""), origin=f"Secret {namespace}/{names.AGENT_JWT_SECRET}")
    except TiphysError as problem:
        return error(
            str(problem).partition(": create it")[0],
            remedy=f"delete Secret {names.AGENT_JWT_SECRET} if it is there, then `tiphys pki init` makes one",
        )
    return ok(f"RSA, {key.key_size} bits")


async def _blocklist(examined: Examined) -> Diagnosis:
    blocked = await _fleet(examined).blocked()
    if blocked.unreadable:
        return error(
            f"{some(blocked.unreadable)} in ConfigMap {names.TLS_BLOCKLIST} is no SHA-256 in hex and locks nobody out",
            remedy="tiphys agents block AGENT --certificate FILE, and take the bad entry out",
        )
    count = len(blocked.fingerprints)
    return ok("nobody is locked out" if not count else f"{counted(count, 'certificate')} locked out")


async def _agent_certificates(examined: Examined) -> Diagnosis:
    """With these Argo CD calls the resource proxy, as each agent."""
    now = examined.now()
    found = [(agent.name, agent.proxy) for agent in await _fleet(examined).all()]
    ended = [name for name, proxy in found if proxy and now >= proxy.ends]
    remedy = "tiphys agents remove AGENT --keep-certificates --yes, then `create` makes a new one"
    if ended:
        return error(f"those of {some(ended)} have ended", remedy=remedy)
    if soon := [name for name, proxy in found if proxy and now >= proxy.renew]:
        return warning(f"those of {some(soon)} end soon", remedy=remedy)
    return ok(counted(len(found), "agent"))


async def _agents(examined: Examined) -> Diagnosis:
    agents = await _fleet(examined).all()
    if not agents:
        return ok("there are no agents yet: tiphys agents create AGENT")
    told = await ask_principal(
        examined.store,
        namespace=examined.options.argocd_namespace,
        service=examined.options.principal_service,
        url=examined.options.principal_url,
    )
    if told.problem:
        return warning(
            f"the principal does not tell: {told.problem}",
            remedy="see its Lease above; from outside: kubectl port-forward, and --principal-url",
        )
    away = [
        agent.name
        for agent in agents
        if (status := told.statuses.get(agent.name)) is None or not status.connected
    ]
    if away:
        return error(
            f"{len(away)} of {len(agents)} agents {'is' if len(away) == 1 else 'are'} not connected: {some(away)}",
            remedy="run `tiphys doctor` with the context of the agent's cluster",
        )
    return ok(counted(len(agents), "agent"))


SECTION = DoctorSection(
    title="principal",
    applies=lambda examined: examined.has(PART),
    checks=(
        rights_check(PART),
        DoctorCheck(id=AUTHORITY, title="the fleet's authority is good for a while", look=_authority),
        DoctorCheck(
            id="principal/certificate",
            title="its certificate is good for a while, and the authority's",
            look=_certificate,
            needs=(AUTHORITY,),
        ),
        DoctorCheck(
            id="principal/proxy-certificates",
            title="so are those of its proxies, which argocd-server calls",
            look=_proxy_certificates,
            needs=(AUTHORITY,),
        ),
        DoctorCheck(
            id="principal/argocd-server",
            title="argocd-server asks its Redis proxy",
            look=_argocd_server,
        ),
        DoctorCheck(id="principal/token-key", title="it has a key for agents' tokens", look=_token_key),
        DoctorCheck(id="principal/blocklist", title="the blocklist can be read", look=_blocklist),
        DoctorCheck(
            id="principal/agent-certificates",
            title="the certificates in agents' cluster Secrets are good for a while",
            look=_agent_certificates,
        ),
        lease_check(PART),
        DoctorCheck(id="principal/agents", title="all agents are connected", look=_agents),
    ),
)
