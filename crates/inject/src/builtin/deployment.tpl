{{- /* What is deployed for a Gateway: a stock Envoy, and what makes it reachable. */}}
{{- define "owner" }}
  ownerReferences:
  - apiVersion: gateway.networking.k8s.io/v1
    kind: Gateway
    name: {{ quote .Name }}
    uid: {{ quote .UID }}
{{- end }}
{{- $labels := mergeMaps .InfrastructureLabels (strdict .GatewayNameLabel .Name "gateway.networking.k8s.io/gateway-class-name" .GatewayClass) }}
{{- $annotations := omit .InfrastructureAnnotations "kubectl.kubernetes.io/last-applied-configuration" "gateway.istio.io/name-override" "gateway.istio.io/service-account" "gateway.istio.io/controller-version" }}
{{- $name := .DeploymentName | trunc 63 | trimAll "-_." }}
{{- $pod := mergeMaps (strdict "sidecar.istio.io/inject" "false" "service.istio.io/canonical-name" $name "service.istio.io/canonical-revision" "latest") $labels (strdict "gateway.istio.io/managed" .ControllerLabel) }}
{{- $network := valueOrDefault (index .InfrastructureLabels "topology.istio.io/network") .Values.global.network }}
{{- $cluster := valueOrDefault .ClusterID .Values.global.multiCluster.clusterName }}
{{- $of := dict "ObjectMeta" .ObjectMeta "ProxyConfig" .ProxyConfig "MeshConfig" .MeshConfig "Values" .Values "ProxyUID" .ProxyUID "ProxyGID" .ProxyGID "DeploymentMeta" (dict "Name" .DeploymentName) "TypeMeta" (dict "APIVersion" "apps/v1" "Kind" "Deployment") }}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ quote .ServiceAccount }}
  namespace: {{ quote .Namespace }}
  annotations: {{ toJsonMap $annotations }}
  labels: {{ toJsonMap $labels }}
{{- template "owner" . }}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ quote .DeploymentName }}
  namespace: {{ quote .Namespace }}
  annotations: {{ toJsonMap $annotations }}
  labels: {{ toJsonMap $labels }}
{{- template "owner" . }}
spec:
  selector:
    matchLabels: { {{ quote .GatewayNameLabel }}: {{ quote .Name }} }
  template:
    metadata:
      labels: {{ toJsonMap $pod }}
      annotations:
        {{- range $key, $value := omit $annotations "istio.io/rev" "pilothouse.io/root" "prometheus.io/path" "prometheus.io/port" "prometheus.io/scrape" }}
        {{ quote $key }}: {{ quote $value }}
        {{- end }}
        istio.io/rev: {{ .Revision | default "default" | quote }}
        prometheus.io/path: /stats/prometheus
        prometheus.io/port: "15090"
        prometheus.io/scrape: "true"
        pilothouse.io/root: '{{ template "root" }}'
    spec:
      serviceAccountName: {{ quote .ServiceAccount }}
      securityContext:
        sysctls:
        - name: net.ipv4.ip_unprivileged_port_start
          value: "0"
      {{- with .Values.global.imagePullSecrets }}
      imagePullSecrets:
      {{- range . }}
      - name: {{ quote . }}
      {{- end }}
      {{- end }}
      containers:
      - name: istio-proxy
        image: {{ annotation .ObjectMeta `sidecar.istio.io/proxyImage` .Values.global.proxy.image | quote }}
        command: [envoy]
        args:
{{- template "bootstrap" (dict "of" $of "role" $role "name" $name "labels" $pod "interception" "" "view" (index .InfrastructureLabels "topology.istio.io/network")) }}
{{- template "proxy" (dict "of" $of "cluster" $cluster "network" $network) }}
{{- template "volumes" . }}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ quote .DeploymentName }}
  namespace: {{ quote .Namespace }}
  annotations: {{ toJsonMap $annotations }}
  labels: {{ toJsonMap $labels }}
{{- template "owner" . }}
spec:
  type: {{ quote .ServiceType }}
  ipFamilyPolicy: PreferDualStack
  selector: { {{ quote .GatewayNameLabel }}: {{ quote .Name }} }
  ports:
  {{- range .Ports }}
  - { name: {{ quote .Name }}, port: {{ .Port }}, protocol: {{ .Protocol }}, appProtocol: {{ quote .AppProtocol }} }
  {{- end }}
  {{- if and .Spec.Addresses (eq .ServiceType "LoadBalancer") }}
  {{- with (index .Spec.Addresses 0).Value }}
  loadBalancerIP: {{ quote . }}
  {{- end }}
  {{- end }}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: {{ quote .DeploymentName }}
  namespace: {{ quote .Namespace }}
  annotations: {{ toJsonMap $annotations }}
  labels: {{ toJsonMap $labels }}
{{- template "owner" . }}
spec:
  scaleTargetRef: { apiVersion: apps/v1, kind: Deployment, name: {{ quote .DeploymentName }} }
  maxReplicas: 1
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ quote .DeploymentName }}
  namespace: {{ quote .Namespace }}
  annotations: {{ toJsonMap $annotations }}
  labels: {{ toJsonMap $labels }}
{{- template "owner" . }}
spec:
  selector:
    matchLabels: { {{ quote .GatewayNameLabel }}: {{ quote .Name }} }
