//! What generation knows of a proxy: a key for each type. Proxies with equal keys share the derived set.

use std::sync::Arc;

use incr::{Cx, Query};
use mesh::capabilities::CertificateSource;
use mesh::proxy::Traits;
use mesh::view::ProxyKey;
use model::labels::Labels;
use model::names::Namespace;
use model::node::Role;
use store::Snapshot;
use xds::{ResourceSet, TypeUrl};

use crate::clusters::ClustersOf;
use crate::ecds::ExtensionConfigsOf;
use crate::endpoints::EndpointsOfClient;
use crate::filled::Reader;
use crate::findings::FindingsOfView;
use crate::grpc::GrpcClusters;
use crate::hashed::Hashed;
use crate::listeners::ListenersOf;
use crate::name_table::NameTableOf;
use crate::roots::{TypeSet, generated};
use crate::routes::RoutesOf;
use crate::secrets::SecretsOf;
use crate::trust_bundle::TrustBundleOf;
use crate::wants::WantsOfView;

/// What proxies with equal keys for every type get: a key for each. Nothing else is known of them below here; each key says
/// what it lets in.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct View {
    /// Role.
    pub role: Role,
    /// Namespace.
    pub namespace: Namespace,
    /// What decides their clusters.
    pub(crate) clusters: Hashed<ClustersOf>,
    /// What decides the clusters of gRPC libraries in place of those.
    grpc: Option<GrpcClusters>,
    /// What decides their endpoints.
    pub(crate) endpoints: Hashed<EndpointsOfClient>,
    /// What decides their listeners.
    pub(crate) listeners: Hashed<ListenersOf>,
    /// What decides their routes.
    pub(crate) routes: Hashed<RoutesOf>,
    /// What decides the names that they resolve.
    pub(crate) names: Hashed<NameTableOf>,
    /// What decides their secrets.
    pub(crate) secrets: Hashed<SecretsOf>,
    /// What decides the configurations of their extensions.
    pub(crate) extensions: Hashed<ExtensionConfigsOf>,
    /// Who they are, for values of Secrets.
    reader: Reader,
}

impl View {
    /// The view of a proxy.
    pub(crate) fn of(cx: &Cx<'_, Snapshot>, proxy: &Traits<'_>) -> Self {
        let routes = RoutesOf::of(cx, proxy);
        Self {
            role: proxy.node.role,
            namespace: proxy.namespace().clone(),
            clusters: Hashed::shared(cx, ClustersOf::of(cx, proxy)),
            grpc: proxy.is_grpc().then(|| GrpcClusters::of(cx, proxy)),
            endpoints: Hashed::shared(cx, EndpointsOfClient::of(cx, proxy)),
            listeners: Hashed::shared(cx, ListenersOf::of(cx, proxy, &routes)),
            routes: Hashed::shared(cx, routes),
            names: Hashed::shared(cx, NameTableOf::of(cx, proxy)),
            secrets: Hashed::shared(cx, SecretsOf::of(cx, proxy)),
            extensions: Hashed::shared(cx, ExtensionConfigsOf::of(cx, proxy)),
            reader: Reader::of(proxy),
        }
    }

    /// The query for the resources of a type.
    pub fn set(&self, ty: TypeUrl) -> TypeSet {
        if !generated(self.role, ty) {
            return TypeSet::Nothing(ty);
        }
        match ty {
            TypeUrl::Cluster => match &self.grpc {
                Some(grpc) => TypeSet::GrpcClusters(grpc.clone()),
                None => TypeSet::Clusters(self.clusters.clone(), self.reader.clone()),
            },
            TypeUrl::Endpoint => TypeSet::Endpoints(self.endpoints.clone()),
            TypeUrl::Listener => TypeSet::Listeners(self.listeners.clone(), self.reader.clone()),
            TypeUrl::Route => TypeSet::Routes(self.routes.clone(), self.reader.clone()),
            TypeUrl::NameTable => TypeSet::NameTable(self.names.clone()),
            TypeUrl::Secret => TypeSet::Secrets(self.secrets.clone()),
            TypeUrl::Extension => TypeSet::Extensions(self.extensions.clone(), self.reader.clone()),
            TypeUrl::ProxyConfig => TypeSet::TrustBundle(TrustBundleOf),
        }
    }

    /// The query for what has to be done outside for its proxies that ask for a type.
    pub fn wants(&self, ty: TypeUrl) -> Option<WantsOfView> {
        match ty {
            TypeUrl::Secret => Some(WantsOfView::Secrets(self.secrets.clone())),
            TypeUrl::Extension => Some(WantsOfView::Extensions(self.extensions.clone())),
            _ => None,
        }
    }

    /// Where the certificate of its proxies' identity comes from.
    pub fn certificates(&self) -> CertificateSource {
        self.clusters.certificates()
    }

    /// The identity (`spiffe://...`) whose certificate its proxies want from us.
    pub fn own_certificate(&self) -> Option<&Arc<str>> {
        self.secrets.own()
    }

    /// Whether a set is what its proxies can begin with. Envoy takes a certificate that it asks for and that is not there for
    /// one that never will be, and listens without it: so nothing is said of secrets until it has been made.
    pub fn can_begin_with(&self, ty: TypeUrl, set: &ResourceSet) -> bool {
        ty != TypeUrl::Secret || self.secrets.is_whole(set)
    }

    /// The query for what is wrong with what its proxies get.
    pub fn findings(&self) -> FindingsOfView {
        FindingsOfView {
            clusters: self.set(TypeUrl::Cluster),
            listeners: self.listeners.clone(),
            routes: self.routes.clone(),
            secrets: self.secrets.clone(),
            extensions: self.extensions.clone(),
            reader: self.reader.clone(),
        }
    }
}

/// The view of a connected proxy. Reads the services its addresses serve, so a proxy moves to another view when they
/// change.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ViewOf(pub ProxyKey);

/// What became of a proxy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Viewed {
    /// What decides all that it gets.
    pub view: Arc<View>,
    /// The labels of its workload, for analysis; generation knows those that something reads.
    pub labels: Labels,
}

impl Query<Snapshot> for ViewOf {
    type Value = Viewed;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Viewed {
        let traits = Traits::of(cx, self.0.node());
        let view = cx.query(&OneView(View::of(cx, &traits)));
        Viewed {
            view,
            labels: traits.labels,
        }
    }
}

/// Gives all proxies of a view the same one in memory.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct OneView(View);

impl Query<Snapshot> for OneView {
    type Value = View;

    fn eval(&self, _: &Cx<'_, Snapshot>) -> View {
        self.0.clone()
    }
}
