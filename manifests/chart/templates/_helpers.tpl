{{/* Labels that pods are selected by; those of the kustomize bases. */}}
{{- define "tiphys.selector" -}}
app.kubernetes.io/name: tiphys
app.kubernetes.io/component: {{ . }}
{{- end }}

{{/* Labels of every object: .component and .root. */}}
{{- define "tiphys.labels" -}}
{{ include "tiphys.selector" .component }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{- define "tiphys.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/* What the webhook is told. Beside an agent this is a workload cluster, whatever else is configured. */}}
{{- define "tiphys.configuration" -}}
{{- $configuration := deepCopy .Values.webhook.configuration -}}
{{- if .Values.agent.enabled -}}
{{- $_ := set $configuration "role" "workload" -}}
{{- if eq .Values.agent.mode "autonomous" -}}
{{- $agents := dict "autonomous" (list "*") | merge ($configuration.agents | default dict) -}}
{{- $_ := set $configuration "agents" $agents -}}
{{- end -}}
{{- end -}}
{{- toYaml $configuration -}}
{{- end }}
