"""What stands in the chart's templates for texts of the manifests, and which files of components are templates."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """A text of a manifest, what stands for it in the template, and the value whose default it is."""

    text: str
    template: str
    value: str = ""


EVERYWHERE = (
    (r"namespace: tiphys-system\b", "namespace: {{ .Release.Namespace }}"),
    (r"namespace: argocd\b", "namespace: {{ .Values.argocd.namespace }}"),
    (r"system:serviceaccount:tiphys-system:", "system:serviceaccount:{{ .Release.Namespace }}:"),
    (r"system:serviceaccount:argocd:", "system:serviceaccount:{{ .Values.argocd.namespace }}:"),
    (r'request\.namespace == "argocd"', 'request.namespace == "{{ .Values.argocd.namespace }}"'),
    (r"\.tiphys-system\.svc", ".{{ .Release.Namespace }}.svc"),
    (
        r"kubernetes\.io/metadata\.name: monitoring\b",
        "kubernetes.io/metadata.name: {{ .Values.monitoring.namespace }}",
    ),
    (r"(?m)^( +)- tiphys-system$", r"\1- {{ .Release.Namespace }}"),
    (r"(?m)^( +)- argocd$", r"\1- {{ .Values.argocd.namespace }}"),
)

_RESOURCES = """\
          resources:
            {{- toYaml .Values.COMPONENT.resources | nindent 12 }}
"""
_EXTRA_ARGS = """\
            {{- range .Values.COMPONENT.extraArgs }}
            - {{ . | quote }}
            {{- end }}
"""
_IMAGE = Place(
    "          image: tiphys\n",
    """\
          image: {{ include "tiphys.image" . | quote }}
          {{- with .Values.image.pullPolicy }}
          imagePullPolicy: {{ . }}
          {{- end }}
""",
)
_POD = """\
      {{- with .Values.image.pullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .Values.COMPONENT.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
"""
_TOLERATIONS = Place(
    """\
      tolerations:
        - {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 30}
        - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 30}
""",
    """\
      tolerations:
        {{- toYaml .Values.COMPONENT.tolerations | nindent 8 }}
""",
    "COMPONENT.tolerations",
)
_SIDECAR_RESOURCES = Place(
    """\
          resources:
            requests: {cpu: 100m, memory: 192Mi}
            limits: {memory: 1Gi}
""",
    _RESOURCES,
    "COMPONENT.resources",
)

_TERMINALS = """\
            {{- if .Values.agent.terminals.enabled }}
            - --enable-exec
            {{- end }}
"""
PAIR = ".Values.principal.highAvailability"
_PAIR_ARGS = """\
            {{- with .Values.principal.highAvailability }}
            {{- if .enabled }}
            - --ha-enabled
            - --ha-peer-address={{ required "principal.highAvailability.peer.address: where the other one is" .peer.address }}
            - --ha-allowed-replication-clients={{ required "principal.highAvailability.peer.name: the name in its certificate" .peer.name }}
            {{- with .preferredRole }}
            - --ha-preferred-role={{ . }}
            {{- end }}
            {{- with .adminAuth }}
            - {{ printf "--ha-admin-auth=%s" . | quote }}
            {{- end }}
            {{- end }}
            {{- end }}
"""
_PAIR_ADMIN = (
    "{{- if and .Values.principal.highAvailability.enabled .Values.principal.highAvailability.adminAuth }}"
)

PLACES: dict[str, tuple[Place, ...]] = {
    "base/webhook/configuration.yaml": (
        Place(
            "    enforcement: enforce  # warn: a careful first week\n",
            '    {{- include "tiphys.configuration" . | nindent 4 }}\n',
            "webhook.configuration",
        ),
    ),
    "base/webhook/deployment.yaml": (
        Place("  replicas: 2\n", "  replicas: {{ .Values.webhook.replicas }}\n", "webhook.replicas"),
        Place(
            "      serviceAccountName: tiphys-webhook\n", "      serviceAccountName: tiphys-webhook\n" + _POD
        ),
        _IMAGE,
        Place(
            "          args: [webhook, --runtime-folder=/run/tiphys]\n",
            """\
          args:
            - webhook
            - --runtime-folder=/run/tiphys
            {{- if .Values.webhook.certManager.enabled }}
            - --certificates=files
            - --certificate-folder=/etc/tiphys/certificate
            {{- end }}
            {{- if ne .Release.Namespace "tiphys-system" }}
            - --namespace={{ .Release.Namespace }}
            {{- end }}
            {{- if ne .Values.argocd.namespace "argocd" }}
            - --argocd-namespace={{ .Values.argocd.namespace }}
            {{- end }}
            {{- range .Values.argocd.applicationNamespaces }}
            - --application-namespace={{ . }}
            {{- end }}
"""
            + _EXTRA_ARGS,
        ),
        Place(
            """\
          resources:
            # Two workers with full caches, all connections that they take, and the worst bodies at once.
            requests: {cpu: 100m, memory: 256Mi}
            limits: {memory: 1Gi}
""",
            _RESOURCES,
            "webhook.resources",
        ),
        Place(
            "          volumeMounts:\n",
            """\
          volumeMounts:
            {{- if .Values.webhook.certManager.enabled }}
            - {name: certificate, mountPath: /etc/tiphys/certificate, readOnly: true}
            {{- end }}
""",
        ),
        Place(
            "      volumes:\n",
            """\
      volumes:
        {{- if .Values.webhook.certManager.enabled }}
        - name: certificate
          secret: {secretName: tiphys-webhook-certificate}
        {{- end }}
""",
        ),
    ),
    "base/webhook/disruption-budget.yaml": (
        Place(
            "  minAvailable: 1\n",
            "  minAvailable: {{ if gt (int .Values.webhook.replicas) 1 }}1{{ else }}0{{ end }}\n",
        ),
    ),
    "base/principal/deployment.yaml": (
        Place(
            "      serviceAccountName: tiphys-principal\n",
            "      serviceAccountName: tiphys-principal\n" + _POD,
        ),
        _TOLERATIONS,
        _IMAGE,
        Place(
            "            - --namespace=argocd\n", "            - --namespace={{ .Values.argocd.namespace }}\n"
        ),
        Place(
            "            - --allowed-namespaces=*  # an agent's Applications are in the namespace of its name\n",
            "            - --allowed-namespaces=*  # an agent's Applications are in the namespace of its name\n"
            + _PAIR_ARGS
            + _EXTRA_ARGS,
        ),
        Place(
            "            - {name: redis, containerPort: 6379}\n",
            "            - {name: redis, containerPort: 6379}\n"
            f"            {_PAIR_ADMIN}\n"
            "            - {name: ha-admin, containerPort: 8405}\n"
            "            {{- end }}\n",
        ),
        _SIDECAR_RESOURCES,
    ),
    "base/principal/service.yaml": (
        Place(
            "  name: argocd-agent-principal\n",
            """\
  name: argocd-agent-principal
  {{- with .Values.principal.service.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
""",
        ),
        Place(
            "  type: LoadBalancer\n",
            "  type: {{ .Values.principal.service.type }}\n",
            "principal.service.type",
        ),
    ),
    "base/agent/deployment.yaml": (
        Place("      serviceAccountName: tiphys-agent\n", "      serviceAccountName: tiphys-agent\n" + _POD),
        _TOLERATIONS,
        _IMAGE,
        Place(
            "            - --namespace=argocd\n", "            - --namespace={{ .Values.argocd.namespace }}\n"
        ),
        Place(
            "            - --agent-mode=managed\n", "            - --agent-mode={{ .Values.agent.mode }}\n"
        ),
        Place(
            "            - --server-address=argocd-agent-principal.argocd.svc  # an overlay of yours says where it is\n",
            "            - --server-address={{ .Values.agent.principal.address }}\n"
            "            {{- if ne (int .Values.agent.principal.port) 443 }}\n"
            "            - --server-port={{ .Values.agent.principal.port }}\n"
            "            {{- end }}\n",
        ),
        Place(
            "            - --creds=mtls:any\n", "            - --creds=mtls:any\n" + _TERMINALS + _EXTRA_ARGS
        ),
        _SIDECAR_RESOURCES,
    ),
}
COMPONENTS = {
    "registration/webhooks.yaml": ("webhook/registration.yaml", ".Values.webhook.registration.enabled"),
    "cert-manager/certificate.yaml": ("webhook/certificate.yaml", ".Values.webhook.certManager.enabled"),
    "monitoring/service-monitor.yaml": ("webhook/service-monitor.yaml", ".Values.monitoring.enabled"),
    "monitoring/alerts.yaml": ("webhook/alerts.yaml", ".Values.monitoring.enabled"),
    "monitoring-fleet/service-monitor.yaml": ("principal/service-monitor.yaml", ".Values.monitoring.enabled"),
    "monitoring-fleet/alerts.yaml": ("principal/alerts.yaml", ".Values.monitoring.enabled"),
    "monitoring-fleet/pair-alerts.yaml": ("principal/pair-alerts.yaml", ".Values.monitoring.enabled"),
    "agent-logs/role.yaml": ("agent/logs.yaml", ".Values.agent.logs.enabled"),
    "agent-terminals/role.yaml": ("agent/terminals.yaml", ".Values.agent.terminals.enabled"),
    "live-resources-edit/role.yaml": (
        "agent/live-resources-edit.yaml",
        ".Values.agent.liveResourcesEdit.enabled",
    ),
    "high-availability/fence.yaml": ("principal/pair-fence.yaml", f"{PAIR}.enabled"),
    "high-availability/service.yaml": ("principal/pair-service.yaml", f"{PAIR}.enabled"),
    "high-availability/network-policy.yaml": ("principal/pair-network-policy.yaml", f"{PAIR}.enabled"),
    "high-availability-admin/service.yaml": (
        "principal/pair-admin-service.yaml",
        f"{PAIR}.enabled {PAIR}.adminAuth",
    ),
    "high-availability-admin/network-policy.yaml": (
        "principal/pair-admin-network-policy.yaml",
        f"{PAIR}.enabled {PAIR}.adminAuth",
    ),
}
"""Files of kustomize's components, as which template of whom, and when."""
