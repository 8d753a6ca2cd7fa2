{{- $interception := annotation .ObjectMeta `sidecar.istio.io/interceptionMode` .ProxyConfig.InterceptionMode }}
{{- if not (has $interception (list "REDIRECT" "NONE")) }}
{{- fail (printf "interception mode %s needs Istio's images; this template has REDIRECT and NONE" $interception) }}
{{- end }}
{{- $image := .Values.global.proxy_init.image }}
{{- $init := and (eq $interception "REDIRECT") (not .Values.pilot.cni.enabled) }}
{{- if and $init (not $image) }}
{{- fail "redirecting traffic needs an init container: set global.proxy_init.image to an image with sh and iptables, or pilot.cni.enabled where Istio's CNI plugin does it, or ask for interception mode NONE" }}
{{- end }}
{{- $name := index .ObjectMeta.Labels `service.istio.io/canonical-name` | default (index .ObjectMeta.Labels `app.kubernetes.io/name`) | default (index .ObjectMeta.Labels `app`) | default .DeploymentMeta.Name | trunc 63 | trimAll "-_." }}
{{- $version := index .ObjectMeta.Labels `service.istio.io/canonical-revision` | default (index .ObjectMeta.Labels `app.kubernetes.io/version`) | default (index .ObjectMeta.Labels `version`) | default "latest" }}
{{- $labels := mergeMaps .ObjectMeta.Labels (strdict "security.istio.io/tlsMode" "istio" "service.istio.io/canonical-name" $name "service.istio.io/canonical-revision" $version) }}
{{- $native := ne (index .ObjectMeta.Annotations `sidecar.istio.io/nativeSidecar` | default (printf "%t" .NativeSidecars)) "false" }}
metadata:
  labels:
    security.istio.io/tlsMode: istio
    service.istio.io/canonical-name: {{ quote $name }}
    service.istio.io/canonical-revision: {{ quote $version }}
  annotations:
    istio.io/rev: {{ .Revision | default "default" | quote }}
    sidecar.istio.io/interceptionMode: {{ quote $interception }}
    prometheus.istio.io/merge-metrics: "false"
    pilothouse.io/root: '{{ template "root" }}'
spec:
  initContainers:
  {{- if $init }}
  - name: istio-init
    image: {{ quote $image }}
    {{- with .Values.global.imagePullPolicy }}
    imagePullPolicy: {{ quote . }}
    {{- end }}
    command: [sh, -euc]
    args:
    - |
{{ template "redirect" }}
    env:
    - name: PROXY_UID
      value: {{ .ProxyUID | toString | quote }}
    - name: PROXY_GID
      value: {{ .ProxyGID | toString | quote }}
    - name: INBOUND
      value: {{ annotation .ObjectMeta `traffic.sidecar.istio.io/includeInboundPorts` .Values.global.proxy.includeInboundPorts | quote }}
    - name: NOT_INBOUND
      value: {{ annotation .ObjectMeta `traffic.sidecar.istio.io/excludeInboundPorts` .Values.global.proxy.excludeInboundPorts | quote }}
    - name: OUTBOUND
      value: {{ annotation .ObjectMeta `traffic.sidecar.istio.io/includeOutboundIPRanges` .Values.global.proxy.includeIPRanges | quote }}
    - name: NOT_OUTBOUND
      value: {{ annotation .ObjectMeta `traffic.sidecar.istio.io/excludeOutboundIPRanges` .Values.global.proxy.excludeIPRanges | quote }}
    - name: NOT_OUTBOUND_PORTS
      value: {{ annotation .ObjectMeta `traffic.sidecar.istio.io/excludeOutboundPorts` .Values.global.proxy.excludeOutboundPorts | quote }}
    securityContext:
      allowPrivilegeEscalation: false
      capabilities: { add: [NET_ADMIN, NET_RAW], drop: [ALL] }
      privileged: false
      readOnlyRootFilesystem: false
      runAsUser: 0
      runAsGroup: 0
      runAsNonRoot: false
  {{- end }}
  {{- if not $native }}
  containers:
  {{- end }}
  - name: istio-proxy
    image: {{ annotation .ObjectMeta `sidecar.istio.io/proxyImage` .Values.global.proxy.image | quote }}
    command: [envoy]
    args:
{{- template "bootstrap" (dict "of" . "role" "sidecar" "name" $name "labels" $labels "interception" $interception) }}
    {{- if $native }}
    restartPolicy: Always
    startupProbe:
      httpGet: { path: /healthz/ready, port: 15021 }
      periodSeconds: 1
      timeoutSeconds: 3
      failureThreshold: 600
    {{- end }}
{{- template "proxy" (dict "of" . "cluster" .Values.global.multiCluster.clusterName "network" .Values.global.network) }}
{{- template "volumes" . }}
