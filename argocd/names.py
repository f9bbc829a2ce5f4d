"""Every label, annotation, key and well-known name of Argo CD, argocd-agent and Tiphys, once."""

# -- Argo CD: kinds and addresses ----------------------------------------------------------------------------

GROUP = "argoproj.io"
API_VERSION = "argoproj.io/v1alpha1"

DEFAULT_NAMESPACE = "argocd"
DEFAULT_PROJECT = "default"

IN_CLUSTER_NAME = "in-cluster"
IN_CLUSTER_SERVER = "https://kubernetes.default.svc"

# -- Argo CD: tracking ---------------------------------------------------------------------------------------

TRACKING_ID = "argocd.argoproj.io/tracking-id"
INSTALLATION_ID = "argocd.argoproj.io/installation-id"
INSTANCE_LABEL = "app.kubernetes.io/instance"

PROPOSED_TRACKING_ID = "app.kubernetes.io/instance"
"""The proposal's annotation has the name of the released label."""
PROPOSED_INSTALLATION_ID = "argo-cd.argoproj.io/installation-id"

# -- Argo CD: other labels and annotations -------------------------------------------------------------------

SECRET_TYPE = "argocd.argoproj.io/secret-type"  # noqa: S105 - a label's name
SECRET_TYPE_CLUSTER = "cluster"  # noqa: S105 - a label's value, as those below
SECRET_TYPE_REPOSITORY = "repository"  # noqa: S105
SECRET_TYPE_REPO_CREDS = "repo-creds"  # noqa: S105
SECRET_TYPE_REPOSITORY_WRITE = "repository-write"  # noqa: S105
SECRET_TYPE_REPO_WRITE_CREDS = "repo-write-creds"  # noqa: S105
SECRET_TYPE_SCM_CREDS = "scm-creds"  # noqa: S105

REFRESH = "argocd.argoproj.io/refresh"
HYDRATE = "argocd.argoproj.io/hydrate"
APPLICATION_SET_REFRESH = "argocd.argoproj.io/application-set-refresh"
SYNC_OPTIONS = "argocd.argoproj.io/sync-options"
COMPARE_OPTIONS = "argocd.argoproj.io/compare-options"
SYNC_WAVE = "argocd.argoproj.io/sync-wave"
HOOK = "argocd.argoproj.io/hook"
HOOK_DELETE_POLICY = "argocd.argoproj.io/hook-delete-policy"
SKIP_RECONCILE = "argocd.argoproj.io/skip-reconcile"
MANAGED_BY_URL = "argocd.argoproj.io/managed-by-url"
MANIFEST_GENERATE_PATHS = "argocd.argoproj.io/manifest-generate-paths"
NOTIFIED = "notified.notifications.argoproj.io"
REQUESTS = (REFRESH, HYDRATE, APPLICATION_SET_REFRESH)
"""What a controller is asked by, and removes with its answer; argocd-server writes the first two together."""
MANAGED_BY = "managed-by"

HELM_HOOK = "helm.sh/hook"
HELM_HOOK_WEIGHT = "helm.sh/hook-weight"

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

# -- Argo CD: finalizers -------------------------------------------------------------------------------------

RESOURCES_FINALIZER = "resources-finalizer.argocd.argoproj.io"
FOREGROUND_FINALIZER = "resources-finalizer.argocd.argoproj.io/foreground"
BACKGROUND_FINALIZER = "resources-finalizer.argocd.argoproj.io/background"
PRE_DELETE_FINALIZER = "pre-delete-finalizer.argocd.argoproj.io"
POST_DELETE_FINALIZER = "post-delete-finalizer.argocd.argoproj.io"

# -- Argo CD: objects and the keys in them -------------------------------------------------------------------

ARGOCD_CM = "argocd-cm"
ARGOCD_CMD_PARAMS_CM = "argocd-cmd-params-cm"
ARGOCD_RBAC_CM = "argocd-rbac-cm"
ARGOCD_GPG_KEYS_CM = "argocd-gpg-keys-cm"

TRACKING_METHOD_KEY = "application.resourceTrackingMethod"
PROPOSED_TRACKING_METHOD_KEY = "trackingMethod"
INSTANCE_LABEL_KEY = "application.instanceLabelKey"
INSTALLATION_ID_KEY = "installationID"
IMPERSONATION_ENABLED_KEY = "application.sync.impersonation.enabled"
IMPERSONATION_ENFORCED_KEY = "application.sync.impersonation.enforced"
PROPOSED_IMPERSONATION_KEY = "applicationcontroller.enable.impersonation"
RESOURCE_EXCLUSIONS_KEY = "resource.exclusions"
RESOURCE_INCLUSIONS_KEY = "resource.inclusions"
GLOBAL_PROJECTS_KEY = "globalProjects"
IN_CLUSTER_ENABLED_KEY = "cluster.inClusterEnabled"
APPLICATION_NAMESPACES_KEY = "application.namespaces"
"""In argocd-cmd-params-cm, as the one below."""
ALLOWED_SCM_PROVIDERS_KEY = "applicationsetcontroller.allowed.scm.providers"

# -- Service accounts ----------------------------------------------------------------------------------------

SERVICE_ACCOUNT_PREFIX = "system:serviceaccount:"

ARGOCD_SERVER = "argocd-server"
ARGOCD_ACCOUNTS = (
    "argocd-application-controller",
    ARGOCD_SERVER,
    "argocd-applicationset-controller",
    "argocd-notifications-controller",
)
"""Those that write, in Argo CD's namespace."""
ARGOCD_MANAGER = "system:serviceaccount:kube-system:argocd-manager"
"""What `argocd cluster add` leaves on a remote cluster."""

PRINCIPAL_ACCOUNTS = ("tiphys-principal", "argocd-agent-principal")
AGENT_ACCOUNTS = ("tiphys-agent", "argocd-agent-agent")
REPLICA_ACCOUNTS = ("tiphys-replica",)

GARBAGE_COLLECTOR = "system:serviceaccount:kube-system:generic-garbage-collector"
NAMESPACE_CONTROLLER = "system:serviceaccount:kube-system:namespace-controller"
CONTROLLER_MANAGER = "system:kube-controller-manager"
"""Both of the above where the controller manager uses one credential for all of its controllers."""

# -- argocd-agent --------------------------------------------------------------------------------------------

IGNORE_SYNC = "argocd-agent.argoproj-labs.io/ignore-sync"
AGENT_NAME = "argocd-agent.argoproj-labs.io/agent-name"
SELF_REGISTERED_CLUSTER = "argocd-agent.argoproj-labs.io/self-registered-cluster"
SOURCE_UID = "argocd.argoproj.io/source-uid"
PRINCIPAL_UID = "argocd.argoproj.io/principal-uid"
NAMESPACE_REMAPPED = "argocd.argoproj.io/namespace-remapped"
SOURCE_UID_MISMATCH_POLICY = "argocd.argoproj.io/source-uid-mismatch-policy"
ADOPTION_POLICY = "argocd.argoproj.io/adoption-policy"
LAST_UPDATED = "argocd-agent.argoproj.io/last-updated"
AGENT_QUERY_PARAMETER = "agentName"
"""In a cluster's server URL: which agent the resource proxy should ask."""
AGENT_CLUSTER_SECRET_PREFIX = "cluster-"  # noqa: S105 - of an object's name
AGENT_CA_SECRET = "argocd-agent-ca"  # noqa: S105 - objects' names, as those below
PRINCIPAL_TLS_SECRET = "argocd-agent-principal-tls"  # noqa: S105
RESOURCE_PROXY_TLS_SECRET = "argocd-agent-resource-proxy-tls"  # noqa: S105
REDIS_PROXY_TLS_SECRET = "argocd-redis-proxy-tls"  # noqa: S105
REDIS_CLIENT_TLS_SECRET = "argocd-redis-proxy-client-tls"  # noqa: S105
REDIS_TLS_SECRET = "argocd-redis-tls"  # noqa: S105
AGENT_TLS_SECRET = "argocd-agent-client-tls"  # noqa: S105
AGENT_JWT_SECRET = "argocd-agent-jwt"  # noqa: S105
PRINCIPAL_SERVICE = "argocd-agent-principal"
PRINCIPAL_AGENTS_SERVICE = "tiphys-principal-agents"
PRINCIPAL_READER_ACCOUNT = "tiphys-principal-reader"
"""The ServiceAccount whose tokens `tiphys agents` shows to the principal."""
PAGE_AUDIENCE = "tiphys-principal"
FLEET_GROUP, FLEET_RESOURCE = "tiphys.dev", "fleet"
"""A resource that no API server has: a role that grants `get` on it lets its holder read the principal's pages."""
PAGE_TOKEN_HEADER = "Tiphys-Token"  # noqa: S105 - a header's name
RESOURCE_PROXY_SERVICE = "argocd-agent-resource-proxy"
REDIS_PROXY_SERVICE = "argocd-agent-redis-proxy"
TLS_BLOCKLIST = "argocd-agent-tls-blocklist"

# -- Tiphys --------------------------------------------------------------------------------------------------

TIPHYS_NAMESPACE = "tiphys-system"
TIPHYS_WEBHOOK_ACCOUNT = "tiphys-webhook"
TIPHYS_CONFIG_MAP = "tiphys"
TIPHYS_CONFIG_KEY = "tiphys.yaml"

TIPHYS_AGENT = "tiphys.dev/agent"
"""Annotation of an autonomous agent's project on the control plane: whose it is. Label of an agent's namespace there."""
TIPHYS_CERTIFICATES = "tiphys.dev/certificates"
"""Annotation of an agent's cluster Secret: fingerprints of certificates that were issued for it."""
TIPHYS_AUTHORITY_KEY = "tiphys.dev/authority-key"
"""Annotation of the authority's Secret: the namespace and name of the one that has its key."""
TIPHYS_MODE = "tiphys.dev/mode"
"""Label of an agent's cluster Secret: whether it is managed or autonomous."""
AGENT_MODES = "tiphys-agent-modes"
"""ConfigMap of Argo CD's namespace: the mode in which each agent without that label first logged in."""
HA_RECORD = "tiphys-ha"
"""ConfigMap of Argo CD's namespace: the role and epoch of a principal of a pair, and the fence's parameter."""
HA_CURSOR = "tiphys-ha-cursor"
"""ConfigMap beside it: how far a replica has come in its primary's log."""
HA_CANARY = "tiphys-ha-canary"
"""ConfigMap that is never stored: writes of it prove what the fence lets pass."""
AGENT_EPOCHS = "tiphys-agent-epochs"
"""ConfigMap of an agent's namespace: the highest epoch of each pair of principals that it has obeyed."""
HA_FENCE = "tiphys-ha-fence"
"""ValidatingAdmissionPolicy that holds a principal's cluster to the role in its record."""
HA_BREAK_GLASS = "tiphys:break-glass"
"""Group whose members may write on a standby, in an emergency."""
TIPHYS_TRACKING = "tiphys.dev/tracking"
"""Label of a Namespace whose objects may be completed."""
TIPHYS_TRACKING_APPLICATION = "tiphys.dev/tracking-application"
"""Annotation of a Namespace: the application that owns what has no better evidence."""
TIPHYS_TRACKING_METHOD = "tiphys.dev/tracking-method"
"""Annotation of an Application: overrides the system's tracking method."""
TIPHYS_FORMER_INSTALLATION_IDS = "tiphys.dev/former-installation-ids"
"""Annotation of argocd-cm: the ids that this installation had before, with commas between them."""
TIPHYS_INJECTION = "tiphys.dev/injection"
TIPHYS_INJECT = "tiphys.dev/inject"

ENABLED = "enabled"
"""The value of the two Tiphys labels that switch something on."""

# -- Kubernetes ----------------------------------------------------------------------------------------------

MIRROR_POD = "kubernetes.io/config.mirror"
"""Annotation of a static pod's shadow in the API, which cannot be changed."""
