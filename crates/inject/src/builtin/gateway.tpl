{{- $name := index .ObjectMeta.Labels `service.istio.io/canonical-name` | default (index .ObjectMeta.Labels `app.kubernetes.io/name`) | default (index .ObjectMeta.Labels `app`) | default .DeploymentMeta.Name | trunc 63 | trimAll "-_." }}
{{- $version := index .ObjectMeta.Labels `service.istio.io/canonical-revision` | default (index .ObjectMeta.Labels `app.kubernetes.io/version`) | default (index .ObjectMeta.Labels `version`) | default "latest" }}
{{- $labels := mergeMaps .ObjectMeta.Labels (strdict "service.istio.io/canonical-name" $name "service.istio.io/canonical-revision" $version) }}
metadata:
  labels:
    service.istio.io/canonical-name: {{ quote $name }}
    service.istio.io/canonical-revision: {{ quote $version }}
  annotations:
    istio.io/rev: {{ .Revision | default "default" | quote }}
    prometheus.istio.io/merge-metrics: "false"
    pilothouse.io/root: '{{ template "root" }}'
spec:
  securityContext:
    sysctls:
    - name: net.ipv4.ip_unprivileged_port_start
      value: "0"
  containers:
  - name: istio-proxy
    image: {{ annotation .ObjectMeta `sidecar.istio.io/proxyImage` .Values.global.proxy.image | quote }}
    command: [envoy]
    args:
{{- template "bootstrap" (dict "of" . "role" "router" "name" $name "labels" $labels "interception" "") }}
{{- template "proxy" (dict "of" . "cluster" .Values.global.multiCluster.clusterName "network" .Values.global.network) }}
{{- template "volumes" . }}
