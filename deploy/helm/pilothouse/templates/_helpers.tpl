{{/* The name of everything that is made: pilothouse[-revision]. */}}
{{- define "pilothouse.name" -}}
pilothouse{{ with .Values.revision }}-{{ . }}{{ end }}
{{- end }}

{{/* The name of what is not in a namespace. */}}
{{- define "pilothouse.clusterName" -}}
{{ include "pilothouse.name" . }}-{{ .Release.Namespace }}
{{- end }}

{{- define "pilothouse.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (include "pilothouse.name" .) }}
{{- end }}

{{/* What selects the pods; it can never change. */}}
{{- define "pilothouse.selector" -}}
app.kubernetes.io/name: pilothouse
app.kubernetes.io/instance: {{ .Release.Name }}
istio.io/rev: {{ .Values.revision | default "default" | quote }}
{{- end }}

{{- define "pilothouse.labels" -}}
{{ include "pilothouse.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "pilothouse.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/* Not empty if there may be more than one replica. */}}
{{- define "pilothouse.several" -}}
{{- if .Values.autoscaling.enabled -}}
{{- if gt (int .Values.autoscaling.max) 1 }}yes{{ end -}}
{{- else if gt (int .Values.replicas) 1 -}}yes
{{- end -}}
{{- end }}

{{/* What needs rights, as `pilothouse permissions --features` names it, separated by spaces. */}}
{{- define "pilothouse.features" -}}
reading reviews roots webhooks
{{- if .Values.write.statuses }} statuses{{ end }}
{{- if .Values.write.analysis }} analysis{{ end }}
{{- if .Values.xds.insecureRegistration }} registration{{ end }}
{{- if .Values.ca.enabled }} ca{{ end }}
{{- end }}

{{/* The rules of a role: of the whole cluster, or of the release's namespace. */}}
{{- define "pilothouse.rules" -}}
{{- $table := .context.Files.Get "files/rules.yaml" | fromYaml }}
{{- range splitList " " (include "pilothouse.features" .context) }}
{{- with index (index $table $.reach) . }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- end }}
