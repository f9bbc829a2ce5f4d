"""What Argo CD's API server refuses in a project: destinations, sources, accounts, and shapes that fit no field.

Roles and sync windows have modules of their own.
"""

from argocd.agents.autonomous_projects import is_rewritten_mirror
from argocd.rules.project_rule import refused

_SERVER = "server: https://kubernetes.default.svc"

RULES = (
    refused(
        "project/shape",
        reads=("spec",),
        title="Every field of a project has the type that it should have",
        explanation=(
            "A list of texts where objects are expected, as `destinations: ['*']` in some documentation, or a "
            "number where a text is expected. The API server of a cluster refuses it."
        ),
        hint="Write it as the schema of AppProject says: kubectl explain appproject.spec",
        bad="destinations: ['*']",
        good="destinations: [{server: '*', namespace: shop}]",
    ),
    refused(
        "project/destination-format",
        reads=("spec.destinations",),
        title="A destination does not deny everything",
        explanation="`!*` as a name, a server or a namespace would deny all there is. Argo CD refuses it.",
        hint="Remove the entry: what no entry allows is denied anyway.",
        bad=f"destinations: [{{{_SERVER}, namespace: '!*'}}]",
        good=f"destinations: [{{{_SERVER}, namespace: shop}}]",
    ),
    refused(
        "project/duplicate-destination",
        reads=("spec.destinations",),
        mild_when=is_rewritten_mirror,
        title="Destinations are different",
        explanation=(
            "Two entries with the same server and namespace. Where there is no server its place is taken by the "
            "name, so an entry by name can be the same as one by server."
        ),
        hint="Remove one of the two.",
        bad=f"destinations: [{{{_SERVER}, namespace: shop}}, {{{_SERVER}, namespace: shop}}]",
        good=f"destinations: [{{{_SERVER}, namespace: shop}}, {{{_SERVER}, namespace: shop-test}}]",
    ),
    refused(
        "project/duplicate-source-namespace",
        reads=("spec.sourceNamespaces",),
        mild_when=is_rewritten_mirror,
        title="Source namespaces are different",
        explanation="The same namespace or pattern twice.",
        hint="Remove one of the two.",
        bad="sourceNamespaces: [shop, shop]",
        good="sourceNamespaces: [shop, shop-test]",
    ),
    refused(
        "project/source-repo-format",
        reads=("spec.sourceRepos",),
        title="A source repository does not deny everything",
        explanation="`!*` would deny all repositories. Argo CD refuses it.",
        hint="Remove the entry: what no entry allows is denied anyway.",
        bad="sourceRepos: [https://git.example.com/shop.git, '!*']",
        good="sourceRepos: [https://git.example.com/shop.git]",
    ),
    refused(
        "project/duplicate-source-repo",
        reads=("spec.sourceRepos",),
        mild_when=is_rewritten_mirror,
        title="Source repositories are different",
        explanation="The same text twice. Two texts that mean the same repository are not noticed.",
        hint="Remove one of the two.",
        bad="sourceRepos: [https://git.example.com/shop.git, https://git.example.com/shop.git]",
        good="sourceRepos: [https://git.example.com/shop.git, https://git.example.com/tools.git]",
    ),
    refused(
        "project/destination-service-account",
        reads=("spec.destinationServiceAccounts",),
        title="An entry of destinationServiceAccounts has a form that Argo CD takes",
        explanation=(
            "Server and namespace are globs that compile and have no `!`; the account is not blank and has none "
            "of ! * [ ] { } \\ /. There are no denials here, and `[!a]` is refused for its exclamation mark."
        ),
        hint="Write a URL or a glob as the server, a namespace or a glob, and the account's own name.",
        bad=f"destinationServiceAccounts: [{{{_SERVER}, namespace: shop, defaultServiceAccount: 'deploy*'}}]",
        good=f"destinationServiceAccounts: [{{{_SERVER}, namespace: shop, defaultServiceAccount: deployer}}]",
    ),
    refused(
        "project/duplicate-destination-service-account",
        reads=("spec.destinationServiceAccounts",),
        mild_when=is_rewritten_mirror,
        title="Entries of destinationServiceAccounts are different",
        explanation="Two entries with the same server and namespace: the second would never be used.",
        hint="Remove one of the two.",
        bad=(
            f"destinationServiceAccounts: [{{{_SERVER}, namespace: shop, defaultServiceAccount: deployer}}, "
            f"{{{_SERVER}, namespace: shop, defaultServiceAccount: builder}}]"
        ),
        good=(
            f"destinationServiceAccounts: [{{{_SERVER}, namespace: shop, defaultServiceAccount: deployer}}, "
            f"{{{_SERVER}, namespace: tools, defaultServiceAccount: builder}}]"
        ),
    ),
)
