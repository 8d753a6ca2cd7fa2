{{- /* The bootstrap of a stock Envoy, as `pilothouse bootstrap` writes it, in the place of an argument of its container.
       Kubernetes puts the container's variables in, such as $(POD_NAME). */}}
{{- define "bootstrap" }}
{{- $of := .of }}
{{- $values := $of.Values }}
{{- $address := $of.ProxyConfig.DiscoveryAddress | default "istiod.istio-system.svc:15012" }}
{{- $port := regexFind "[0-9]+$" $address }}
{{- $server := trimSuffix (printf ":%s" $port) $address }}
{{- /* Values stand in JSON, which is YAML whatever they hold. */}}
{{- $metadata := dict "NAME" "$(POD_NAME)" "NAMESPACE" "$(POD_NAMESPACE)" "SERVICE_ACCOUNT" "$(SERVICE_ACCOUNT)" "INSTANCE_IPS" "$(INSTANCE_IPS)" "NODE_NAME" "$(NODE_NAME)" "CLUSTER_ID" "$(ISTIO_META_CLUSTER_ID)" "NETWORK" "$(ISTIO_META_NETWORK)" "PILOTHOUSE_CERTIFICATES" "ads" "LABELS" .labels }}
{{- with $values.global.meshID | default $of.MeshConfig.TrustDomain }}
{{- $metadata = set $metadata "MESH_ID" . }}
{{- end }}
{{- with $of.DeploymentMeta.Name }}
{{- $metadata = set $metadata "WORKLOAD_NAME" . }}
{{- $metadata = set $metadata "OWNER" (printf "kubernetes://apis/%s/namespaces/$(POD_NAMESPACE)/%ss/%s" $of.TypeMeta.APIVersion (toLower $of.TypeMeta.Kind) .) }}
{{- end }}
{{- with .interception }}
{{- $metadata = set $metadata "INTERCEPTION_MODE" . }}
{{- end }}
{{- with .view }}
{{- $metadata = set $metadata "REQUESTED_NETWORK_VIEW" . }}
{{- end }}
{{- range $key, $value := $of.ProxyConfig.ProxyMetadata }}
{{- $metadata = set $metadata (trimPrefix "ISTIO_META_" $key) $value }}
{{- end }}
{{- $node := dict "id" (printf "%s~$(INSTANCE_IP)~$(POD_NAME).$(POD_NAMESPACE)~$(POD_NAMESPACE).svc.%s" .role $values.global.proxy.clusterDomain) "cluster" (printf "%s.$(POD_NAMESPACE)" .name) "metadata" $metadata }}
    - --config-yaml
    - |
      node: {{ toJson $node }}
      admin:
        address:
          socket_address: { address: 127.0.0.1, port_value: 15000 }
      layered_runtime:
        layers:
        - name: static
          static_layer: { re2.max_program_size.error_level: 32768 }
        - name: admin
          admin_layer: {}
      dynamic_resources:
        ads_config:
          api_type: DELTA_GRPC
          transport_api_version: V3
          set_node_on_first_message_only: true
          grpc_services:
          - envoy_grpc: { cluster_name: xds-grpc }
        cds_config: { ads: {}, resource_api_version: V3, initial_fetch_timeout: 0s }
        lds_config: { ads: {}, resource_api_version: V3, initial_fetch_timeout: 0s }
      static_resources:
        clusters:
        - name: pilothouse-admin
          type: STATIC
          connect_timeout: 0.25s
          load_assignment:
            cluster_name: pilothouse-admin
            endpoints:
            - lb_endpoints:
              - endpoint:
                  address:
                    socket_address: { address: 127.0.0.1, port_value: 15000 }
        - name: xds-grpc
          type: STRICT_DNS
          connect_timeout: 1s
          load_assignment:
            cluster_name: xds-grpc
            endpoints:
            - lb_endpoints:
              - endpoint:
                  address:
                    socket_address: { address: {{ quote $server }}, port_value: {{ $port | default "15012" }} }
          typed_extension_protocol_options:
            envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
              "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
              explicit_http_config:
                http2_protocol_options:
                  connection_keepalive: { interval: 30s, timeout: 5s }
              http_filters:
              - name: envoy.filters.http.lua
                typed_config:
                  "@type": type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua
                  default_source_code:
                    inline_string: |
                      function envoy_on_request(handle)
                        local file = io.open("/var/run/secrets/tokens/istio-token", "r")
                        if file == nil then
                          handle:logWarn("the token cannot be read")
                          return
                        end
                        local token = file:read("*a"):gsub("%s+$", "")
                        file:close()
                        handle:headers():replace("authorization", "Bearer " .. token)
                      end
              - name: envoy.filters.http.upstream_codec
                typed_config:
                  "@type": type.googleapis.com/envoy.extensions.filters.http.upstream_codec.v3.UpstreamCodec
          transport_socket:
            name: envoy.transport_sockets.tls
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
              sni: {{ quote $server }}
              common_tls_context:
                alpn_protocols: [h2]
                combined_validation_context:
                  default_validation_context:
                    match_typed_subject_alt_names:
                    - san_type: DNS
                      matcher: { exact: {{ quote $server }} }
                  validation_context_sds_secret_config:
                    name: root
                    sds_config:
                      path_config_source: { path: /etc/pilothouse/root.json }
                      resource_api_version: V3
        listeners:
        {{- template "page" (dict "port" 15021 "path" "/healthz/ready" "admin" "/ready") }}
        {{- template "page" (dict "port" 15090 "path" "/stats/prometheus" "admin" "/stats/prometheus") }}
    - --disable-hot-restart
    - --log-level
    - {{ annotation $of.ObjectMeta `sidecar.istio.io/logLevel` $values.global.proxy.logLevel | quote }}
    {{- with annotation $of.ObjectMeta `sidecar.istio.io/componentLogLevel` $values.global.proxy.componentLogLevel }}
    - --component-log-level
    - {{ . | quote }}
    {{- end }}
    {{- /* Connections end with the configuration that they were accepted under: a revocation holds for them too. */}}
    - --drain-strategy
    - immediate
    - --drain-time-s
    - "45"
    {{- with $of.ProxyConfig.Concurrency.GetValue }}
    - --concurrency
    - {{ . | toString | quote }}
    {{- end }}
{{- end }}
{{- /* A page of the admin interface that the outside may see. */}}
{{- define "page" }}
        - name: pilothouse-{{ .port }}
          address:
            socket_address: { address: 0.0.0.0, port_value: {{ .port }} }
          filter_chains:
          - filters:
            - name: envoy.filters.network.http_connection_manager
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
                stat_prefix: pilothouse-{{ .port }}
                route_config:
                  virtual_hosts:
                  - name: admin
                    domains: ["*"]
                    routes:
                    - match: { path: {{ quote .path }} }
                      route: { cluster: pilothouse-admin, prefix_rewrite: {{ quote .admin }} }
                http_filters:
                - name: envoy.filters.http.router
                  typed_config:
                    "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
{{- end }}
{{- /* What the container of a proxy has besides its bootstrap. */}}
{{- define "proxy" }}
{{- $values := .of.Values }}
    env:
    - name: POD_NAME
      valueFrom: { fieldRef: { fieldPath: metadata.name } }
    - name: POD_NAMESPACE
      valueFrom: { fieldRef: { fieldPath: metadata.namespace } }
    - name: INSTANCE_IP
      valueFrom: { fieldRef: { fieldPath: status.podIP } }
    - name: INSTANCE_IPS
      valueFrom: { fieldRef: { fieldPath: status.podIPs } }
    - name: NODE_NAME
      valueFrom: { fieldRef: { fieldPath: spec.nodeName } }
    - name: SERVICE_ACCOUNT
      valueFrom: { fieldRef: { fieldPath: spec.serviceAccountName } }
    - name: ISTIO_META_CLUSTER_ID
      value: {{ valueOrDefault .cluster "Kubernetes" | quote }}
    - name: ISTIO_META_NETWORK
      value: {{ valueOrDefault .network "" | quote }}
    ports:
    - name: http-envoy-prom
      containerPort: 15090
      protocol: TCP
    {{- with $values.global.imagePullPolicy }}
    imagePullPolicy: {{ quote . }}
    {{- end }}
    {{- with $values.global.proxy.preStopSleepSeconds }}
    lifecycle: { preStop: { sleep: { seconds: {{ int . }} } } }
    {{- end }}
    readinessProbe:
      httpGet: { path: /healthz/ready, port: 15021 }
      periodSeconds: 5
      timeoutSeconds: 3
      failureThreshold: 4
    {{- with $values.global.proxy.resources }}
    resources: {{ toJson . }}
    {{- end }}
    securityContext:
      allowPrivilegeEscalation: false
      capabilities: { drop: [ALL] }
      privileged: false
      readOnlyRootFilesystem: true
      runAsUser: {{ .of.ProxyUID }}
      runAsGroup: {{ .of.ProxyGID }}
      runAsNonRoot: true
    volumeMounts:
    - { name: istiod-ca-cert, mountPath: /var/run/secrets/istio, readOnly: true }
    - { name: istio-token, mountPath: /var/run/secrets/tokens, readOnly: true }
    - { name: pilothouse, mountPath: /etc/pilothouse, readOnly: true }
{{- end }}
{{- /* The roots of the control plane, the token that proves who the proxy is, and what makes Envoy read the roots again
       when they change. */}}
{{- define "volumes" }}
  volumes:
  - name: istiod-ca-cert
    configMap: { name: {{ .Values.global.trustBundleName | default "istio-ca-root-cert" | quote }} }
  - name: istio-token
    projected:
      sources:
      - serviceAccountToken:
          path: istio-token
          expirationSeconds: 43200
          audience: {{ quote .Values.global.sds.token.aud }}
  - name: pilothouse
    downwardAPI:
      items:
      - path: root.json
        fieldRef: { fieldPath: "metadata.annotations['pilothouse.io/root']" }
{{- end }}
{{- define "root" -}}
{"resources":[{"@type":"type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret","name":"root","validation_context":{"trusted_ca":{"filename":"/var/run/secrets/istio/root-cert.pem"},"watched_directory":{"path":"/var/run/secrets/istio"}}}]}
{{- end }}
