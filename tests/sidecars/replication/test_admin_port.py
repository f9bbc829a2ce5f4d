"""The admin port: everywhere with `--ha-admin-auth`, for whose certificate matches; argocd-agent's calls as they are."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml
from grpc import aio

from certs.authority import Authority, LeafSubject
from certs.key_pair import KeyPair, Material
from sidecars.fleet.ha_client import HaClient, HaRefusedError
from sidecars.replication.control.settings import ADMIN_PORT
from sidecars.wire.generated import haadmin_pb2, hacontrol_pb2
from sidecars.wire.tls import channel_credentials
from tests.cluster.installation import MANIFESTS
from tests.sidecars.replication.paired_principals import FencedStore, Region, regions
from tiphys.errors import SurroundingsError

OPS_URI = "spiffe://example.org/ops/jo"
WORD = hacontrol_pb2.Word(who="somebody else", reason="a test")


def issued(authority: Authority, name: str, *uris: str) -> KeyPair:
    subject = LeafSubject(common_name=name, uris=uris)
    now = datetime.now(UTC)
    return authority.issue(subject, now=now, lifetime=timedelta(hours=1), server=False, client=True)


def material(region: Region, pair: KeyPair | None) -> Material:
    return Material(pair=pair, roots=region.pki.authority.pair.certificate)


def address(region: Region) -> str:
    assert region.process is not None
    assert region.process.pair is not None
    assert region.process.pair.admin is not None
    return f"localhost:{region.process.pair.admin.port}"


def operator(region: Region, pair: KeyPair | None) -> HaClient:
    return HaClient(address=address(region), material=material(region, pair))


async def upstream(region: Region, pair: KeyPair, call: str, request: Any, reply: type[Any]) -> Any:
    """As argocd-agentctl calls it."""
    credentials = channel_credentials(material(region, pair))
    async with aio.secure_channel(address(region), credentials) as channel:
        raw = await channel.unary_unary(f"/haadminapi.HAAdmin/{call}")(
            request.SerializeToString(), timeout=30
        )
        return reply.FromString(raw)


async def listening(*pair: Region) -> None:
    for region in pair:
        await region.start()
    one, two = pair
    await one.until("active")
    await two.until("replicating")
    for region in pair:
        assert region.process is not None
        assert region.process.pair is not None
        assert region.process.pair.admin is not None
        await region.process.pair.admin.listening.wait()


@pytest.mark.parametrize(
    ("auth", "right", "wrong"),
    [
        ("mtls:subject:CN=ops(,|$)", ("ops",), [("oops",), ("agent-a",), ("ops-2", OPS_URI)]),
        (
            "mtls:uri:^spiffe://example\\.org/ops/",
            ("jo", OPS_URI),
            [("ops",), ("agent-a",), ("jo", "spiffe://example.org/dev/jo"), ("jo", f"x{OPS_URI}")],
        ),
    ],
)
async def test_only_a_certificate_that_matches_is_heard(
    auth: str, right: tuple[str, ...], wrong: list[tuple[str, ...]]
) -> None:
    async with regions(FencedStore(), FencedStore()) as (one, two):
        for region in (one, two):
            region.ha = {"admin_auth": auth}
        await listening(one, two)
        before = one.controller.role.held_record()
        authority = one.pki.authority
        for names in wrong:
            with pytest.raises(HaRefusedError, match="lets change roles"):
                await operator(one, issued(authority, *names)).change_role("Demote", WORD)
        stranger = Authority.create("strangers", now=datetime.now(UTC), lifetime=timedelta(days=1))
        for pair in (None, issued(stranger, *right)):
            with pytest.raises(SurroundingsError, match="does not answer"):
                await operator(one, pair).status()
        plain = HaClient(address=address(one))
        with pytest.raises(SurroundingsError, match="does not answer"):
            await plain.status()
        assert (one.state, one.controller.role.held_record()) == ("active", before)
        # The right one is heard, and the audit trail has the name in the certificate, not the one that it gives itself.
        jo = issued(authority, *right)
        assert (await operator(one, jo).status())["state"] == "active"
        assert (await operator(one, jo).change_role("Demote", WORD))[0] == "disconnected"
        entry = next(e for e in one.controller.role.held_record().audit if e.what == "demoted")
        assert entry.who == ("CN=ops" if len(right) == 1 else OPS_URI)


async def test_the_three_calls_of_argocd_agentctl_work_over_it() -> None:
    async with regions(FencedStore(), FencedStore()) as (one, two):
        for region in (one, two):
            region.ha = {"admin_auth": "mtls:subject:CN=ops$"}
        await listening(one, two)
        jo = issued(one.pki.authority, "ops")
        for region, state, role in ((one, "active", "primary"), (two, "replicating", "replica")):
            told = await upstream(
                region, jo, "Status", haadmin_pb2.StatusRequest(), haadmin_pb2.HAStatusResponse
            )
            assert (told.state, told.preferred_role) == (state, role)
            assert told.peer_address == f"localhost:{region.peer.port}"
        with pytest.raises(aio.AioRpcError) as refused:
            await upstream(
                two, jo, "Promote", haadmin_pb2.PromoteRequest(force=True), haadmin_pb2.PromoteResponse
            )
        assert "tiphys ha promote --force --epoch 1" in str(refused.value.details())
        demoted = await upstream(one, jo, "Demote", haadmin_pb2.DemoteRequest(), haadmin_pb2.DemoteResponse)
        assert demoted.state == "disconnected"
        await two.until("disconnected")
        promoted = await upstream(
            two, jo, "Promote", haadmin_pb2.PromoteRequest(), haadmin_pb2.PromoteResponse
        )
        assert promoted.state == "active"
        await one.until("replicating")


async def test_the_component_opens_the_port_on_which_its_pattern_lets_operators_in() -> None:
    folder = MANIFESTS.parent / "components" / "high-availability-admin"
    argument, port = (step["value"] for step in yaml.safe_load((folder / "deployment.yaml").read_text()))
    service, policy = (
        yaml.safe_load((folder / f"{name}.yaml").read_text()) for name in ("service", "network-policy")
    )
    assert port["containerPort"] == ADMIN_PORT
    assert service["spec"]["ports"] == [
        {"name": port["name"], "port": ADMIN_PORT, "targetPort": port["name"]}
    ]
    assert policy["spec"]["ingress"] == [{"ports": [{"port": ADMIN_PORT}]}]
    flag, _, pattern = argument.partition("=")
    assert flag == "--ha-admin-auth"
    async with regions(FencedStore(), FencedStore()) as (one, two):
        one.ha = {"admin_auth": pattern}
        await listening(one, two)
        authority = one.pki.authority
        assert (await operator(one, issued(authority, "ops")).status())["state"] == "active"
        with pytest.raises(HaRefusedError, match="lets change roles"):
            await operator(one, issued(authority, "ops-of-others")).status()
