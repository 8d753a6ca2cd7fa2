//! What a control plane is asked for.

use mcp::{MESH_CONFIG, Spelling};
use model::{Contents, Kind};

/// A type of resources.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Topic {
    /// Objects of a kind.
    Objects(Kind),
    /// The mesh configuration.
    MeshConfig,
}

impl Topic {
    /// The type as it is asked for.
    pub fn type_url(self) -> String {
        match self {
            Topic::Objects(kind) => Spelling::preferred(kind).to_string(),
            Topic::MeshConfig => MESH_CONFIG.to_owned(),
        }
    }

    /// What a source reports of it; the mesh configuration goes another way.
    pub(crate) fn contents(self) -> Option<Contents> {
        match self {
            Topic::Objects(kind) => Some(Contents::Objects(kind)),
            Topic::MeshConfig => None,
        }
    }

    /// The type of a response: a kind in any of its versions.
    pub fn parse(type_url: &str) -> Option<Self> {
        match type_url {
            MESH_CONFIG => Some(Topic::MeshConfig),
            _ => Spelling::parse(type_url).map(|spelling| Topic::Objects(spelling.kind)),
        }
    }
}

/// Everything that is asked for: the mesh configuration first, as istiod does.
pub fn topics(kinds: &[Kind]) -> Vec<Topic> {
    let objects = kinds.iter().map(|kind| Topic::Objects(*kind));
    std::iter::once(Topic::MeshConfig).chain(objects).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_is_found_by_its_type() {
        let kinds: Vec<Kind> = mcp::kinds::all().collect();
        for topic in topics(&kinds) {
            assert_eq!(Topic::parse(&topic.type_url()), Some(topic));
        }
        let old = Topic::parse("networking.istio.io/v1alpha3/VirtualService");
        assert_eq!(old, Some(Topic::Objects(Kind::VirtualService)));
        assert_eq!(Topic::parse("istio.io/debug"), None);
    }
}
