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

{{/* What istioctl and dashboards find a control plane by. The Service of an istiod selects pods by both labels, or by `app` and
its revision, so that pods have the first alone. */}}
{{- define "pilothouse.istiodLabels" -}}
app: istiod
istio: pilot
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
{{- if .Values.write.gateways }} deployments{{ end }}
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

{{/* Not empty where something is served at 15017. */}}
{{- define "pilothouse.webhooks" -}}
{{- if or .Values.injection.enabled .Values.configValidation.enabled -}}
{{- if .Values.ca.enabled -}}yes
{{- else if not .Values.webhooks.url -}}{{ fail "injection and configValidation need ca.enabled, or webhooks.url" }}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Not empty where xDS is served over TLS. */}}
{{- define "pilothouse.secure" -}}
{{- if and .Values.xds.secure .Values.ca.enabled }}yes{{ end -}}
{{- end }}

{{/* The mesh config: what is set, and where the proxies of this release reach it unless that is set. */}}
{{- define "pilothouse.meshConfig" -}}
{{- $port := "" }}
{{- if include "pilothouse.secure" . }}{{ $port = "15012" }}{{ else if .Values.xds.insecurePlaintext }}{{ $port = "15010" }}{{ end }}
{{- $config := dict }}
{{- if $port }}
{{- $address := printf "%s.%s.svc:%s" (include "pilothouse.name" .) .Release.Namespace $port }}
{{- $config = dict "defaultConfig" (dict "discoveryAddress" $address) }}
{{- end }}
{{- mergeOverwrite $config (deepCopy .Values.mesh.config) | toYaml }}
{{- end }}

{{/* Fails where our own templates would refuse every pod that they are asked to inject. */}}
{{- define "pilothouse.checkInjection" -}}
{{- $injection := .Values.injection }}
{{- if and $injection.enabled $injection.create (not $injection.config) }}
{{- $image := dig "global" "proxy_init" "image" "" $injection.values }}
{{- $cni := dig "pilot" "cni" "enabled" false $injection.values }}
{{- $mode := dig "defaultConfig" "interceptionMode" "" .Values.mesh.config }}
{{- if not (or $image $cni (eq (toString $mode) "NONE")) }}
{{- fail "injection.enabled: something has to redirect the traffic of pods. Set injection.values.global.proxy_init.image to an image with sh and iptables, or injection.values.pilot.cni.enabled=true where Istio's CNI plugin runs, or mesh.config.defaultConfig.interceptionMode=NONE" }}
{{- end }}
{{- end }}
{{- end }}

{{/* The name of the webhooks of injection, as istiod's. */}}
{{- define "pilothouse.injectorName" -}}
istio-sidecar-injector{{ with .Values.revision }}-{{ . }}{{ end }}{{ if ne .Release.Namespace "istio-system" }}-{{ .Release.Namespace }}{{ end }}
{{- end }}

{{/* How a webhook is called: this release's Service, or the URL of a control plane elsewhere. */}}
{{- define "pilothouse.webhookClient" -}}
{{- $webhooks := .context.Values.webhooks -}}
{{- if $webhooks.url }}
url: {{ printf "%s%s" (trimSuffix "/" $webhooks.url) .path | quote }}
{{- else }}
service:
  name: {{ include "pilothouse.name" .context }}
  namespace: {{ .context.Release.Namespace }}
  path: {{ .path }}
  port: 443
{{- end }}
{{- with $webhooks.caBundle }}
caBundle: {{ . }}
{{- end }}
{{- end }}

{{/* Webhooks that inject pods of a revision, or of a tag; of the default one also where nothing names a revision. Selectors
are istiod's, so that labels mean the same. */}}
{{- define "pilothouse.injectors" -}}
{{- $revision := dict "key" "istio.io/rev" "operator" "In" "values" (list .revision) }}
{{- $noRevision := dict "key" "istio.io/rev" "operator" "DoesNotExist" }}
{{- $noSwitch := dict "key" "istio-injection" "operator" "DoesNotExist" }}
{{- $switch := dict "key" "istio-injection" "operator" "In" "values" (list "enabled") }}
{{- $notRefused := dict "key" "sidecar.istio.io/inject" "operator" "NotIn" "values" (list "false") }}
{{- $asked := dict "key" "sidecar.istio.io/inject" "operator" "In" "values" (list "true") }}
{{- $silent := dict "key" "sidecar.istio.io/inject" "operator" "DoesNotExist" }}
{{- $ordinary := dict "key" "kubernetes.io/metadata.name" "operator" "NotIn" "values" (list "kube-system" "kube-public" "kube-node-lease" "local-path-storage") }}
{{- $all := list
  (dict "name" "rev.namespace" "namespaces" (list $revision $noSwitch) "objects" (list $notRefused))
  (dict "name" "rev.object" "namespaces" (list $noRevision $noSwitch) "objects" (list $notRefused $revision)) }}
{{- if .default }}
{{- $all = concat $all (list
  (dict "name" "namespace" "namespaces" (list $switch) "objects" (list $notRefused))
  (dict "name" "object" "namespaces" (list $noSwitch $noRevision) "objects" (list $asked $noRevision))) }}
{{- if .context.Values.injection.enableNamespacesByDefault }}
{{- $all = append $all (dict "name" "auto" "namespaces" (list $noSwitch $noRevision $ordinary) "objects" (list $silent $noRevision)) }}
{{- end }}
{{- end }}
{{- $context := .context }}
{{- range $all }}
- name: {{ .name }}.sidecar-injector.istio.io
  clientConfig: {{- include "pilothouse.webhookClient" (dict "context" $context "path" $context.Values.injection.path) | trim | nindent 4 }}
  rules:
    - operations: [CREATE]
      apiGroups: [""]
      apiVersions: [v1]
      resources: [pods]
  namespaceSelector:
    matchExpressions: {{- toYaml .namespaces | nindent 6 }}
  objectSelector:
    matchExpressions: {{- toYaml .objects | nindent 6 }}
  failurePolicy: Fail
  reinvocationPolicy: {{ $context.Values.injection.reinvocationPolicy }}
  sideEffects: None
  admissionReviewVersions: [v1]
{{- end }}
{{- end }}
