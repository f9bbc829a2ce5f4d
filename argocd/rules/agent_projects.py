"""Projects of autonomous agents on the control plane, and service accounts for managed agents' clusters.

The rules that protect them belong to both profiles: argocd-agent itself would stop at such objects.
"""

from collections.abc import Iterable, Iterator
from functools import partial

from argocd import names, reading
from argocd.agents import autonomous_projects
from argocd.agents.autonomous_projects import owner_for, owner_of
from argocd.go.net_url import query_parameter
from argocd.judging.case import Action, Case, Finding, Kind, Profile, Rule, SharedLook
from argocd.judging.configuration import Role
from argocd.judging.memo import Remembered
from argocd.rules import examples

_MARKS = ("metadata.name", "metadata.namespace", "metadata.annotations", "spec.sourceNamespaces")
_CONTENT = ("metadata.name", "metadata.namespace", "metadata.annotations", "spec")
"""A writer that belongs to an agent is a mark as well, whatever it changes."""


def _agents_project(case: Case) -> str:
    """The agent whose project is judged on the control plane; empty for a native project."""
    configuration = case.surroundings.configuration
    earlier = owner_of(case.old, configuration) if case.old is not None else ""
    return earlier or owner_for(case.object, case.writer, configuration)


def _project_name(case: Case, agent: str) -> Iterator[Finding]:
    name = reading.text(case.object, "metadata", "name")
    right = autonomous_projects.right_name(case.object, agent)
    if right == name:
        return
    fitting = autonomous_projects.fits(right)
    yield Finding(
        "agent/project-name",
        "metadata.name",
        f"a project of the agent {agent} must be called {right}, not {name}",
        f"Call it {right}." if fitting else "That is longer than a name may be: shorten the project's name.",
    )


def _project_namespace(case: Case, agent: str) -> Iterator[Finding]:
    right = case.surroundings.configuration.argocd.namespace
    namespace = reading.text(case.object, "metadata", "namespace")
    if namespace and namespace != right:
        yield Finding(
            "agent/project-namespace",
            "metadata.namespace",
            f"a project of the agent {agent} must be in the namespace {right}, not {namespace}",
            f"Put it into {right}: Argo CD reads projects nowhere else.",
        )


def _project_name_taken(case: Case, _agent: str) -> Iterator[Finding]:
    configuration = case.surroundings.configuration
    name = reading.text(case.object, "metadata", "name")
    agent = owner_for(case.object, case.writer, configuration)
    there = case.old if case.old is not None else case.surroundings.neighbours.project(name)
    if not agent or not there:
        return
    owner = owner_of(there, configuration)
    if owner != agent:
        holder = f"a project of the agent {owner}" if owner else "a project of the control plane"
        yield Finding(
            "agent/project-name-taken",
            "metadata.name",
            f"{name} is {holder} already, so it cannot be one of the agent {agent}",
            "Rename the project on the agent: the agent's name, a dash and the project's name must be unique.",
        )


def _project_content(case: Case, agent: str) -> Iterator[Finding]:
    name = reading.text(case.object, "metadata", "name")
    if autonomous_projects.right_name(case.object, agent) != name:
        return
    for path in autonomous_projects.unsettled_fields(case.object, agent):
        yield Finding(
            "agent/project-content",
            path,
            f"a project of the agent {agent} must mean that agent alone here, and this field does not",
            "Tiphys rewrites it when its mutating webhook is asked: see that it is registered.",
        )


def _project_accounts(case: Case, agent: str) -> Iterator[Finding]:
    for path in autonomous_projects.accounts_for_the_control_plane(case.object):
        yield Finding(
            "agent/project-service-accounts",
            path,
            f"on the agent {agent} this meant its own cluster, here it means the control plane",
            "It does nothing here unless an application of this project is synced by the control plane.",
        )


@Remembered
def _for_agents(case: Case) -> Iterator[tuple[int, str]]:
    """The entries of destinationServiceAccounts, by their places, whose server asks for an agent."""
    for index, entry in enumerate(reading.sequence(case.object, "spec", "destinationServiceAccounts")):
        server = reading.text(entry, "server")
        if "?" in server and (agent := query_parameter(server, names.AGENT_QUERY_PARAMETER)):
            yield index, agent


def _account_server(case: Case, entries: Iterable[tuple[int, str]]) -> Iterator[Finding]:
    if case.once(_agents_project):
        return
    for index, agent in entries:
        yield Finding(
            "agent/service-account-server",
            f"spec.destinationServiceAccounts[{index}].server",
            f"the agent {agent} gets this entry as it is and calls its cluster {names.IN_CLUSTER_SERVER}",
            f"Write {names.IN_CLUSTER_SERVER} or '*': this URL matches only on the control plane.",
        )


def _application_project(case: Case) -> Iterator[Finding]:
    name = reading.text(case.object, "spec", "project")
    owner = owner_of(case.surroundings.neighbours.project(name), case.surroundings.configuration)
    namespace = reading.text(case.object, "metadata", "namespace")
    if owner and namespace and namespace != owner:
        yield Finding(
            "agent/application-project",
            "spec.project",
            f"{name} is a project of the agent {owner}; only applications in the namespace {owner} may use it",
            "Use a project of the control plane: the agent may change or delete its own at any time.",
        )


def example_project(
    spec: str, *, name: str = "edge-1-shop", namespace: str = "argocd", metadata: str = ""
) -> str:
    marked = metadata or f"annotations: {{{names.TIPHYS_AGENT}: edge-1}}"
    return (
        "apiVersion: argoproj.io/v1alpha1\n"
        "kind: AppProject\n"
        f"metadata: {{name: {name}, namespace: {namespace}, {marked}}}\n"
        f"spec: {{{spec}}}\n"
    )


SETTLED = 'sourceNamespaces: [edge-1], destinations: [{name: edge-1, server: "*", namespace: shop}]'
_ELSEWHERE = examples.application(namespace="argocd", project="edge-1-shop")
_AT_HOME = examples.application(
    namespace="edge-1", project="edge-1-shop", destination="name: edge-1, namespace: shop"
)

_protecting = partial(
    Rule,
    kinds=frozenset({Kind.PROJECT}),
    profile=Profile.PARITY,
    action=Action.DENY,
    reads=_MARKS,
    roles=frozenset({Role.CONTROL_PLANE}),
    good=example_project(SETTLED),
)
_advising = partial(_protecting, profile=Profile.RECOMMENDED, action=Action.WARN)

RULES: tuple[Rule, ...] = (
    _protecting(
        id="agent/project-name",
        check=SharedLook(_agents_project, _project_name),
        title="An agent's project has the agent's name before its own",
        explanation=(
            "On the control plane the projects of all agents share one namespace, so argocd-agent calls each "
            "<agent>-<project>. A webhook cannot rename an object; it says what the name must be."
        ),
        bad=example_project(SETTLED, name="shop"),
    ),
    _protecting(
        id="agent/project-namespace",
        check=SharedLook(_agents_project, _project_namespace),
        title="An agent's project is in Argo CD's namespace",
        explanation="Argo CD reads projects in its own namespace only, and argocd-agent writes them there.",
        bad=example_project(SETTLED, namespace="edge-1"),
    ),
    _protecting(
        id="agent/project-name-taken",
        check=SharedLook(_agents_project, _project_name_taken),
        reads=_CONTENT,
        title="An agent's project takes nobody else's name",
        explanation=(
            "The project b-c of an agent a and the project c of an agent a-b are both called a-b-c, and a project "
            "of the control plane may be called so too. Whoever comes second would overwrite the first."
        ),
        bad=f"{example_project(SETTLED, metadata='labels: {}')}{examples.BEFORE}{example_project(SETTLED)}",
    ),
    _protecting(
        id="agent/project-content",
        check=SharedLook(_agents_project, _project_content),
        reads=(*_MARKS, "spec.destinations", "spec.roles"),
        title="An agent's project means that agent alone",
        explanation=(
            "Its destinations name the agent, its source namespace is the agent's, and the policies of its roles "
            "have the prefixed name: exactly what argocd-agent's principal stores. Tiphys rewrites it so; this "
            "rule notices when the rewriting was skipped."
        ),
        bad=example_project(
            "sourceNamespaces: [edge-1], destinations: [{server: https://kubernetes.default.svc}]"
        ),
    ),
    _protecting(
        id="agent/application-project",
        check=_application_project,
        kinds=frozenset({Kind.APPLICATION}),
        reads=("spec.project", "metadata.namespace"),
        title="An agent's project is used by that agent's applications only",
        explanation=(
            "An autonomous agent changes and deletes its projects as it likes, so an application of somebody else "
            "that used one would change its permissions without anybody on the control plane having done anything."
        ),
        bad=f"{example_project(SETTLED)}{examples.BEFORE}{_ELSEWHERE}",
        good=f"{example_project(SETTLED)}{examples.BEFORE}{_AT_HOME}",
    ),
    _advising(
        id="agent/project-service-accounts",
        check=SharedLook(_agents_project, _project_accounts),
        reads=(*_MARKS, "spec.destinationServiceAccounts"),
        title="An agent's service accounts mean the agent's cluster",
        explanation=(
            "argocd-agent copies destinationServiceAccounts to the control plane as they are. An entry for "
            "https://kubernetes.default.svc then names an account of the control plane's own cluster."
        ),
        bad=example_project(
            f"{SETTLED}, destinationServiceAccounts: [{{server: https://kubernetes.default.svc, "
            'namespace: "*", defaultServiceAccount: "ns:deployer"}]'
        ),
    ),
    _advising(
        id="agent/service-account-server",
        check=SharedLook(_for_agents, _account_server),
        reads=(*_MARKS, "spec.destinationServiceAccounts"),
        title="A service account for an agent's cluster is matched on that cluster",
        explanation=(
            "A managed agent gets a project's destinationServiceAccounts as they are, and syncs to a cluster that "
            "it calls https://kubernetes.default.svc. The resource proxy's URL never matches there."
        ),
        bad=example_project(
            "destinationServiceAccounts: [{server: 'https://proxy:9090?agentName=edge-2', namespace: shop, "
            "defaultServiceAccount: deployer}]",
            name="shop",
            metadata="labels: {}",
        ),
        good=example_project(
            "destinationServiceAccounts: [{server: https://kubernetes.default.svc, namespace: shop, "
            "defaultServiceAccount: deployer}]",
            name="shop",
            metadata="labels: {}",
        ),
    ),
)
