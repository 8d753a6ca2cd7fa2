//! The codes of findings. Codes of istioctl mean what they mean there; ours begin with `PIL`.

use model::Severity::{self, Error, Info, Warning};

/// A stable code and what it stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Code {
    /// `IST0101`, ...
    pub id: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// Its name.
    pub name: &'static str,
    /// What it says, in one sentence.
    pub about: &'static str,
}

macro_rules! codes {
    ($($constant:ident = $id:literal $severity:ident $name:literal $about:literal;)+) => {
        $(#[doc = $about] pub const $constant: Code = Code { id: $id, severity: $severity, name: $name, about: $about };)+
        /// Every code that analysis can give, by its number.
        pub const ALL: &[Code] = &[$($constant),+];
    };
}

codes! {
    DEPRECATED = "IST0002" Warning "Deprecated" "Something deprecated is used.";
    NOT_FOUND = "IST0101" Error "ReferencedResourceNotFound" "Something that is referred to does not exist.";
    NOT_INJECTED = "IST0102" Info "NamespaceNotInjected" "A namespace does not say whether its pods get sidecars.";
    POD_MISSING_PROXY = "IST0103" Warning "PodMissingProxy" "A pod has no sidecar although its namespace injects them.";
    MISPLACED_ANNOTATION = "IST0107" Warning "MisplacedAnnotation" "An annotation stands on a kind where it has no effect.";
    UNKNOWN_ANNOTATION = "IST0108" Warning "UnknownAnnotation" "An annotation of Istio's that does not exist.";
    CONFLICTING_MESH_HOSTS = "IST0109" Error "ConflictingMeshGatewayVirtualServiceHosts" "Several VirtualServices route the same host for sidecars.";
    CONFLICTING_SIDECARS = "IST0110" Error "ConflictingSidecarWorkloadSelectors" "Several Sidecars select the same workload.";
    SEVERAL_DEFAULT_SIDECARS = "IST0111" Error "MultipleSidecarsWithoutWorkloadSelectors" "Several Sidecars of a namespace select nothing in particular.";
    PORT_REQUIRED = "IST0112" Error "VirtualServiceDestinationPortSelectorRequired" "A destination with several ports is named without one.";
    SERVICES_DISAGREE_ON_PROTOCOL = "IST0116" Warning "DeploymentAssociatedToMultipleServices" "Services give one port of a Deployment different transports.";
    PORT_NAME = "IST0118" Info "PortNameIsNotUnderNamingConvention" "The name of a port does not say what it speaks.";
    SEVERAL_INJECTION_LABELS = "IST0123" Warning "NamespaceMultipleInjectionLabels" "Labels of a namespace contradict each other about injection.";
    INVALID_ANNOTATION = "IST0125" Warning "InvalidAnnotation" "The value of an annotation does not fit.";
    UNKNOWN_REGISTRY = "IST0126" Error "UnknownMeshNetworksServiceRegistry" "A network names a registry that does not exist.";
    NO_WORKLOADS = "IST0127" Warning "NoMatchingWorkloadsFound" "An authorization policy applies to no workload.";
    NO_SERVER_VERIFICATION = "IST0128" Warning "NoServerCertificateVerificationDestinationLevel" "A DestinationRule starts TLS without checking who answers.";
    NO_SERVER_VERIFICATION_PORT = "IST0129" Warning "NoServerCertificateVerificationPortLevel" "A DestinationRule starts TLS on a port without checking who answers.";
    HOST_NOT_IN_GATEWAY = "IST0132" Warning "VirtualServiceHostNotFoundInGateway" "A gateway serves none of the hosts that are bound to it.";
    ADDRESSES_REQUIRED = "IST0134" Warning "ServiceEntryAddressesRequired" "A TCP port of a ServiceEntry catches every address.";
    DEPRECATED_ANNOTATION = "IST0135" Info "DeprecatedAnnotation" "A deprecated annotation is used.";
    ALPHA_ANNOTATION = "IST0136" Info "AlphaAnnotation" "An annotation may change or go in later versions.";
    CONFLICTING_PORTS = "IST0137" Warning "DeploymentConflictingPorts" "Services lead different ports to one port of a Deployment.";
    DUPLICATE_CERTIFICATE = "IST0138" Warning "GatewayDuplicateCertificate" "Gateways of one workload use the same certificate.";
    INVALID_WEBHOOK = "IST0139" Error "InvalidWebhook" "Injection happens twice, or its webhook leads nowhere.";
    ROUTES_NOT_AFFECTED = "IST0140" Warning "IngressRouteRulesNotAffected" "Rules for a subset do not apply to what comes through a gateway.";
    APPLICATION_UID = "IST0144" Warning "InvalidApplicationUID" "A container runs as the user that is kept for the proxy.";
    CONFLICTING_GATEWAYS = "IST0145" Error "ConflictingGateways" "Gateways serve the same host on the same port of one workload.";
    IMAGE_AUTO_NOT_INJECTED = "IST0146" Warning "ImageAutoWithoutInjectionWarning" "A Deployment waits for an image that no webhook will fill in.";
    IMAGE_AUTO_IN_POD = "IST0147" Error "ImageAutoWithoutInjectionError" "A pod runs with the placeholder that injection should have replaced.";
    INJECTED_BY_DEFAULT = "IST0148" Info "NamespaceInjectionEnabledByDefault" "A namespace is injected because all are.";
    JWT_WITHOUT_AUTHENTICATION = "IST0149" Error "JwtClaimBasedRoutingWithoutRequestAuthN" "Routes read claims of tokens that nobody verifies.";
    EXTERNAL_NAME_PORT = "IST0150" Warning "ExternalNameServiceTypeInvalidPortName" "A port of an ExternalName service does not say what it speaks.";
    RELATIVE_OPERATION = "IST0151" Warning "EnvoyFilterUsesRelativeOperation" "A patch depends on the order in which patches are applied.";
    REPLACE_INCORRECT = "IST0152" Error "EnvoyFilterUsesReplaceOperationIncorrectly" "REPLACE is used where it has no effect.";
    ADD_INCORRECT = "IST0153" Error "EnvoyFilterUsesAddOperationIncorrectly" "ADD is used where it has no effect.";
    REMOVE_INCORRECT = "IST0154" Error "EnvoyFilterUsesRemoveOperationIncorrectly" "REMOVE is used where it has no effect.";
    RELATIVE_OPERATION_WITH_VERSION = "IST0155" Warning "EnvoyFilterUsesRelativeOperationWithProxyVersion" "A patch depends on another that some proxies do not get.";
    TELEMETRY_PROVIDER = "IST0157" Warning "InvalidTelemetryProvider" "Access logs are asked for and there is no provider for them.";
    PROXY_IMAGE_MISMATCH = "IST0158" Warning "PodsIstioProxyImageMismatchInNamespace" "Sidecars run another image than injection would give them.";
    CONFLICTING_TELEMETRIES = "IST0159" Error "ConflictingTelemetryWorkloadSelectors" "Several Telemetries select the same workload.";
    SEVERAL_DEFAULT_TELEMETRIES = "IST0160" Error "MultipleTelemetriesWithoutWorkloadSelectors" "Several Telemetries of a namespace select nothing in particular.";
    INVALID_CREDENTIAL = "IST0161" Error "InvalidGatewayCredential" "The Secret of a gateway holds no usable certificate.";
    PORT_NOT_ON_SERVICE = "IST0162" Warning "GatewayPortNotDefinedOnService" "No Service leads to a port of a gateway.";
    INVALID_CONTROL_PLANE_URL = "IST0163" Warning "InvalidExternalControlPlaneConfig" "A webhook does not say where the control plane is.";
    CONTROL_PLANE_IS_IP = "IST0164" Info "ExternalControlPlaneAddressIsNotAHostname" "A webhook reaches the control plane by IP address.";
    INTERNAL_GATEWAY = "IST0165" Warning "ReferencedInternalGateway" "A VirtualService is bound to a gateway that is not meant to be named.";
    INEFFECTIVE_SELECTOR = "IST0166" Warning "IneffectiveSelector" "A selector means a gateway of the Gateway API, where policies need targetRefs.";
    INEFFECTIVE_POLICY = "IST0167" Warning "IneffectivePolicy" "A policy applies to workloads on which it has no effect.";
    INCONSISTENT_SERVICE = "IST0170" Warning "MultiClusterInconsistentService" "Clusters disagree about a service that they share.";
    NEGATIVE_CONDITION = "IST0171" Warning "NegativeConditionStatus" "The status of an object says that it does not work.";
    SUBSET_WITHOUT_PODS = "IST0173" Error "DestinationRuleSubsetNotSelectPods" "A subset selects no workload.";
    UNKNOWN_RULE_HOST = "IST0174" Warning "UnknownDestinationRuleHost" "The host of a DestinationRule does not exist.";
    JWKS_UNRESTRICTED = "IST0175" Warning "JwksUriFetchUnrestricted" "istiod fetches keys from any address that a policy names.";
    CRD_TOO_OLD = "IST0176" Warning "GatewayAPICRDVersionBelowMinimum" "A definition of the Gateway API is too old to be read.";
    CONFLICTING_PROTOCOL = "IST0177" Warning "ConflictingServiceEntryProtocol" "ServiceEntries give one port of a host different protocols.";
    HIDDEN_RULE = "PIL0101" Warning "HiddenRule" "A rule never matches because an earlier one takes all that it would.";
    SHARED_HOST = "PIL0102" Warning "SharedHost" "Several objects configure one host, and only one of them counts.";
    SELECTS_NOTHING = "PIL0103" Warning "SelectsNothing" "A selector matches no workload.";
    TARGET_NOT_FOUND = "PIL0104" Error "TargetNotFound" "A policy targets an object that does not exist.";
    BACKEND_NOT_FOUND = "PIL0105" Error "BackendNotFound" "A route leads to a service or a port that does not exist.";
    PARENT_NOT_FOUND = "PIL0106" Error "ParentNotFound" "A route is attached to a gateway or listener that does not exist.";
    SECRET_NOT_FOUND = "PIL0107" Error "SecretNotFound" "A Secret that is referred to does not exist.";
    REFERENCE_NOT_GRANTED = "PIL0108" Error "ReferenceNotGranted" "An object of another namespace may not be referred to.";
    PORT_NOT_FOUND = "PIL0109" Warning "PortNotFound" "Settings are for a port that the host does not have.";
    DELEGATE_NOT_FOUND = "PIL0110" Error "DelegateNotFound" "A rule is delegated to a VirtualService that does not exist.";
    NOT_ATTACHED = "PIL0111" Error "NotAttached" "A route, or a ListenerSet, is not accepted by its parent.";
    LISTENER_CONFLICT = "PIL0112" Error "ListenerConflict" "A listener has the port and host of another, or a protocol that does not go with it.";
    LISTENER_NOT_SERVED = "PIL0113" Error "ListenerNotServed" "A listener says what is not supported, or refers to what cannot be used.";
    CLASS_NOT_FOUND = "PIL0114" Error "GatewayClassNotFound" "The class of a Gateway does not exist, so nobody serves it.";
    NO_SECRET_VALUE = "PIL0116" Error "NoSecretValue" "A value of a Secret is not there, or the object or a proxy may not have it.";
    NO_ENDPOINTS = "PIL0117" Warning "NoEndpoints" "A Service that an Ingress or a route leads to has no endpoints.";
    HIDDEN_SUBSET = "PIL0118" Error "HiddenSubset" "A DestinationRule hides a subset from its namespace, whose requests get 503.";
    LITERAL_STAR = "PIL0119" Warning "LiteralStar" "A `*` in the middle of a pattern is matched literally.";
    PLAINTEXT_TO_STRICT = "PIL0120" Warning "PlaintextToStrict" "Clients send plaintext to workloads that take mutual TLS only.";
    HOST_WITHOUT_SERVICE = "PIL0121" Warning "HostWithoutService" "A rule for sidecars is for a host that no service has, and takes none of its requests.";
    GRANT_UNUSED = "PIL0115" Info "GrantUnused" "A ReferenceGrant allows what nothing asks for.";
}

/// The code of that id.
pub fn find(id: &str) -> Option<&'static Code> {
    ALL.iter().find(|code| code.id == id)
}
