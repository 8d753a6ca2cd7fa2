//! The kinds of the Kubernetes Gateway API, in its experimental channel, which holds all that the standard one does, and of
//! its inference extension.
//!
//! What the API's schemas default is defaulted here, so that a manifest from a file means what it means in a cluster.
//! Of statuses only conditions are read, by analysis.

mod deployed;
mod experimental;
mod grpc_route;
mod http_filter;
mod http_route;
mod inference;
mod listener;
mod policy;
mod reference;
mod route;
mod status;
mod stream_routes;

pub use deployed::{SERVICE_ACCOUNT, short_hash};
pub use experimental::{
    ExternalHostname, RetryBudget, RetryConstraint, RetryRate, XBackend, XBackendPort,
    XBackendProtocol, XBackendTls, XBackendTlsMode, XBackendTrafficPolicy, XBackendType, XMesh,
};
pub use grpc_route::{
    GrpcBackendRef, GrpcFilter, GrpcFilterType, GrpcMatch, GrpcMethodMatch, GrpcRoute, GrpcRule,
};
pub use http_filter::{
    Cors, ExternalAuth, ExternalAuthGrpc, ExternalAuthHttp, ExternalAuthProtocol, ForwardBody,
    Fraction, Header, HeaderModifier, HttpFilter, HttpFilterType, PathModifier, PathModifierType,
    RequestMirror, RequestRedirect, UrlRewrite,
};
pub use http_route::{
    CookieConfig, CookieLifetime, HeaderConfig, HttpBackendRef, HttpMatch, HttpPathMatch,
    HttpRoute, HttpRule, MatchType, NamedMatch, PathMatchType, Retry, SessionPersistence,
    SessionType, Timeouts,
};
pub use inference::{
    EndpointPickerRef, FAILURE_MODE_LABEL, FIRST_POOL_PORT, InferencePool, PICKER_LABEL,
    PICKER_PORT_LABEL, POOL_LABEL, POOL_SEMANTICS, PickerFailureMode, PoolProtocol, PoolSelector,
    SEMANTICS_LABEL, TargetPort, pool_host, pool_service, pool_service_name,
};
pub use listener::{
    AllowedListeners, AllowedRoutes, BackendTls, CertificateValidation, ClientTls, FromNamespaces,
    FrontendPortTls, FrontendTls, Gateway, GatewayAddress, GatewayClass, GatewayTls,
    Infrastructure, Listener, ListenerSet, ListenerTls, RouteGroupKind, RouteNamespaces, TlsMode,
    ValidationMode,
};
pub use policy::{
    BackendTlsPolicy, BackendValidation, ReferenceGrant, ReferenceGrantFrom, ReferenceGrantTo,
    SubjectAltName, SubjectAltNameType,
};
pub use reference::{
    BackendObjectRef, BackendRef, GatewayDuration, GatewayRef, LabelSelector, LocalObjectRef,
    ObjectRef, ParametersRef, ParentRef, PolicyTargetRef, SecretRef, SelectorOperator,
    SelectorRequirement, UseDefaultGateways,
};
pub use route::{Reference, Route};
pub use status::{GatewayStatus, ParentStatus, RouteStatus};
pub use stream_routes::{StreamRule, TcpRoute, TlsRoute, UdpRoute};
