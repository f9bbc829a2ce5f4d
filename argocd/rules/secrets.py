"""Repository and cluster secrets that Argo CD cannot read, ignores, or reads otherwise than meant.

No finding quotes a value: even an address may hold a password.
"""

from collections.abc import Iterator
from functools import partial
from urllib.parse import urlsplit

from argocd import names, reading
from argocd.go import strconv
from argocd.judging.case import Action, Case, Finding, Kind, Profile, Rule
from argocd.rules import examples
from argocd.settings import git_urls, secrets

_TYPE_LABEL = f"metadata.labels[{names.SECRET_TYPE}]"

_LONGEST_URL = 8192
"""Characters; servers refuse longer ones."""

_SECRETS = frozenset({Kind.REPOSITORY, Kind.CLUSTER})


def _at(key: str) -> str:
    return f"data.{key}"


def _unknown_type(case: Case) -> Iterator[Finding]:
    if secrets.secret_type(case.object) not in secrets.SECRET_TYPES:
        yield Finding(
            "secret/unknown-type",
            _TYPE_LABEL,
            "Argo CD does not know this type of secret and ignores the object",
            f"Use one of {', '.join(sorted(secrets.SECRET_TYPES))}.",
        )


def _undecodable(case: Case) -> Iterator[Finding]:
    for path in secrets.undecodable(case.object):
        plain = path.startswith("stringData.")
        yield Finding(
            "secret/undecodable",
            path,
            "the value is not a string" if plain else "the value is not base64",
            "Put it in quotes." if plain else "Encode it, or move the plain text to stringData.",
        )


def _elsewhere(case: Case) -> Iterator[Finding]:
    namespace = reading.text(case.object, "metadata", "namespace")
    home = case.surroundings.configuration.argocd.namespace
    counts = case.kind is Kind.CLUSTER or secrets.describes_repository(case.object)
    if counts and namespace and namespace != home:
        yield Finding(
            "secret/elsewhere",
            "metadata.namespace",
            f"Argo CD reads such secrets in its own namespace {home} only",
            f"Create it in {home}.",
        )


def _key_case(case: Case) -> Iterator[Finding]:
    for key, spelling in secrets.misspelt_keys(case.object):
        yield Finding(
            "secret/key-case",
            _at(key),
            f"Argo CD ignores this key: in a {secrets.secret_type(case.object)} secret it is spelt {spelling}",
            f"Rename it to {spelling}.",
        )


def _project_unknown(case: Case) -> Iterator[Finding]:
    project = secrets.value(case.object, "project")
    if project and case.surroundings.neighbours.project(project) == {}:
        yield Finding(
            "secret/project-unknown",
            _at("project"),
            "the project does not exist, so nobody can use what this secret describes",
            "Create the project, or remove the key to let all projects use it.",
        )


def _url_missing(case: Case) -> Iterator[Finding]:
    if secrets.describes_repository(case.object) and secrets.lacks(case.object, "url"):
        yield Finding(
            "repository/url-missing",
            _at("url"),
            "a repository secret without url describes no repository",
            "Set url to the repository's address, or for credentials to its beginning.",
        )


def _url_unreadable(case: Case) -> Iterator[Finding]:
    url = secrets.value(case.object, "url")
    if not url or len(url) > _LONGEST_URL or not url.strip():
        return
    if reason := git_urls.problem(url.strip()):
        yield Finding(
            "repository/url-unreadable",
            _at("url"),
            f"the address cannot be used: {reason}",
            "Write https://host/path, ssh://git@host/path, git@host:path or oci://host/path.",
        )
    elif not git_urls.normalize(url):
        yield Finding(
            "repository/url-unreadable",
            _at("url"),
            "Argo CD cannot parse this address and takes it for the same as every other that it cannot parse",
            "Write ssh://git@host/path or git@host:path, not a mixture of both.",
        )


def _type(case: Case) -> Iterator[Finding]:
    kind = secrets.value(case.object, "type")
    if kind and kind not in secrets.REPOSITORY_TYPES:
        yield Finding(
            "repository/type",
            _at("type"),
            "a repository's type is git, helm or oci",
            "Use one of them; without a type it is git.",
        )


def _helm_name(case: Case) -> Iterator[Finding]:
    if secrets.secret_type(case.object) in secrets.CREDENTIAL_TEMPLATES:
        return
    if secrets.value(case.object, "type") == "helm" and not secrets.value(case.object, "name"):
        yield Finding(
            "repository/helm-name",
            _at("name"),
            "a Helm repository without a name cannot be referred to by charts that depend on it",
            "Set name.",
        )


def _boolean(case: Case) -> Iterator[Finding]:
    for key in secrets.boolean_keys(secrets.secret_type(case.object)):
        text = secrets.value(case.object, key)
        if text is not None and strconv.boolean(text) is None:
            yield Finding(
                "repository/boolean",
                _at(key),
                f"{key} must be true or false; Argo CD cannot read the secret, and what needs it fails",
                "Use true or false; remove the key where it should be empty.",
            )


def _integer(case: Case) -> Iterator[Finding]:
    for key in secrets.integer_keys(secrets.secret_type(case.object)):
        text = secrets.value(case.object, key)
        if text is not None and strconv.integer(text) is None:
            yield Finding(
                "repository/integer",
                _at(key),
                f"{key} must be a whole number; Argo CD cannot read the secret, and what needs it fails",
                "Write digits only; remove the key where it should be empty.",
            )


def _repeated(case: Case) -> Iterator[Finding]:
    if secrets.secret_type(case.object) != names.SECRET_TYPE_REPOSITORY:
        return
    url = secrets.value(case.object, "url")
    if not url:
        return
    project = secrets.value(case.object, "project") or ""
    own = reading.text(case.object, "metadata", "name")
    known = case.surroundings.neighbours.repositories_by_url(url, project) or ()
    others = [name for name in known if name != own]
    if others:
        yield Finding(
            "repository/repeated",
            _at("url"),
            f"{', '.join(others)} describes the same repository for the same project; the first one found wins",
            "Keep one of the secrets.",
        )


def _server_missing(case: Case) -> Iterator[Finding]:
    if secrets.lacks(case.object, "server"):
        yield Finding(
            "cluster/server-missing",
            _at("server"),
            "a cluster secret without server describes no cluster",
            "Set server to the address of the cluster's API server.",
        )


def _server_address(case: Case) -> Iterator[Finding]:
    server = secrets.server(case.object)
    if server and not _is_address(server):
        yield Finding(
            "cluster/server-address",
            _at("server"),
            "the server is no URL: applications that name the cluster by its address will not find it",
            "Write https://host:port.",
        )


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.netloc)


_unreadable = partial(
    Rule,
    kinds=frozenset({Kind.REPOSITORY}),
    profile=Profile.RECOMMENDED,
    action=Action.DENY,
)

_URL = "url: https://git.example.com/shop.git"
_SERVER = "server: https://east.example.com\nname: east"


def _repository(values: str = _URL, *, kind: str = "repository", name: str = "shop", **parts: str) -> str:
    return examples.secret(kind=kind, values=values, name=name, **parts)


def _cluster(values: str = _SERVER, *, name: str = "east", **parts: str) -> str:
    return examples.secret(kind="cluster", values=values, name=name, **parts)


_PROJECT = examples.project(spec="sourceRepos: ['*']") + examples.BEFORE

RULES: tuple[Rule, ...] = (
    _unreadable(
        id="secret/unknown-type",
        reads=(_TYPE_LABEL,),
        title="The type of a secret is one that Argo CD knows",
        explanation="Argo CD finds its secrets by the label's exact value and overlooks all others.",
        bad=_repository(kind="repo"),
        good=_repository(),
        check=_unknown_type,
    ),
    _unreadable(
        id="secret/undecodable",
        kinds=_SECRETS,
        reads=("data",),
        title="Values under data are base64",
        explanation="The API server refuses a Secret whose data is not base64; plain text belongs under stringData.",
        bad=_repository(data="note: plain text"),
        good=_repository(data="note: cGxhaW4gdGV4dA=="),
        check=_undecodable,
    ),
    _unreadable(
        id="secret/elsewhere",
        kinds=_SECRETS,
        action=Action.WARN,
        reads=("metadata.namespace", _TYPE_LABEL),
        title="Repositories and clusters live in Argo CD's namespace",
        explanation=(
            "Secrets in other namespaces are not looked at, whatever their labels say; another Argo CD may live there."
        ),
        bad=_repository(namespace="shop"),
        good=_repository(),
        check=_elsewhere,
    ),
    _unreadable(
        id="secret/key-case",
        kinds=_SECRETS,
        reads=("data", _TYPE_LABEL),
        title="Keys are spelt as Argo CD spells them",
        explanation=(
            "Keys are compared letter by letter. Mind azureServicePrincipalClientId and TenantId of a repository "
            "secret: credentials (repo-creds) end them in ID instead."
        ),
        bad=_repository(f"{_URL}\nUsername: shop"),
        good=_repository(f"{_URL}\nusername: shop"),
        check=_key_case,
    ),
    _unreadable(
        id="secret/project-unknown",
        kinds=_SECRETS,
        action=Action.WARN,
        neighbours=True,
        reads=("data[project]",),
        title="The project of a secret exists",
        explanation="A repository or cluster of a project can be used by that project alone.",
        bad=_PROJECT + _repository(f"{_URL}\nproject: shoop"),
        good=_PROJECT + _repository(f"{_URL}\nproject: shop"),
        check=_project_unknown,
    ),
    _unreadable(
        id="repository/url-missing",
        reads=("data[url]", _TYPE_LABEL),
        title="A repository has an address",
        explanation="Argo CD finds a repository's secret by its url and overlooks one that has none.",
        bad=_repository("type: git"),
        good=_repository(),
        check=_url_missing,
    ),
    _unreadable(
        id="repository/url-unreadable",
        action=Action.WARN,
        reads=("data[url]",),
        title="A repository's address can be parsed",
        explanation="Argo CD compares addresses in a normal form, and all that it cannot parse have the same, empty one.",
        bad=_repository("url: ssh://git@git.example.com:shop/shop.git"),
        good=_repository("url: git@git.example.com:shop/shop.git"),
        check=_url_unreadable,
    ),
    _unreadable(
        id="repository/type",
        reads=("data[type]",),
        title="A repository is git, helm or oci",
        explanation="Any other type is treated as git.",
        bad=_repository(f"{_URL}\ntype: Helm"),
        good=_repository(f"{_URL}\ntype: git"),
        check=_type,
    ),
    _unreadable(
        id="repository/helm-name",
        action=Action.WARN,
        reads=("data[type]", "data[name]", _TYPE_LABEL),
        title="A Helm repository has a name",
        explanation="Charts refer to it as @name in their dependencies.",
        bad=_repository("url: https://charts.example.com\ntype: helm"),
        good=_repository("url: https://charts.example.com\ntype: helm\nname: charts"),
        check=_helm_name,
    ),
    _unreadable(
        id="repository/boolean",
        reads=(*(f"data[{key}]" for key in secrets.BOOLEANS), _TYPE_LABEL),
        title="Switches are true or false",
        explanation=(
            "A switch that cannot be read breaks every application of the repository; in credentials (repo-creds) of "
            "type helm or oci it breaks all applications there are. An empty value cannot be read either."
        ),
        bad=_repository(f"{_URL}\ninsecure: 'yes'"),
        good=_repository(f"{_URL}\ninsecure: 'false'"),
        check=_boolean,
    ),
    _unreadable(
        id="repository/integer",
        reads=(*(f"data[{key}]" for key in secrets.INTEGERS), _TYPE_LABEL),
        title="Numbers are whole numbers",
        explanation="An id or depth that cannot be read breaks every application of the repository.",
        bad=_repository(f"{_URL}\ngithubAppID: my-app"),
        good=_repository(f"{_URL}\ngithubAppID: '123456'"),
        check=_integer,
    ),
    _unreadable(
        id="repository/repeated",
        action=Action.WARN,
        neighbours=True,
        reads=("data[url]", "data[project]", "metadata.name", _TYPE_LABEL),
        title="A repository has one secret for each project",
        explanation="Of two secrets for one address and project Argo CD takes the first it finds, which may change.",
        bad=_repository(name="older") + examples.BEFORE + _repository(),
        good=_repository(name="older", values="url: https://git.example.com/other.git")
        + examples.BEFORE
        + _repository(),
        check=_repeated,
    ),
    _unreadable(
        id="cluster/server-missing",
        kinds=frozenset({Kind.CLUSTER}),
        reads=("data[server]",),
        title="A cluster has an address",
        explanation="Argo CD finds clusters by their server.",
        bad=_cluster("name: east"),
        good=_cluster(),
        check=_server_missing,
    ),
    _unreadable(
        id="cluster/server-address",
        kinds=frozenset({Kind.CLUSTER}),
        action=Action.WARN,
        reads=("data[server]",),
        title="A cluster's server is a URL",
        explanation="Destinations and projects name clusters by URL.",
        bad=_cluster("server: east.example.com\nname: east"),
        good=_cluster(),
        check=_server_address,
    ),
)
