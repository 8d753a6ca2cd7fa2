//! Variables of the proxy that the path of the webhook states: `/inject/cluster/X/net/Y`.
// Istio: pkg/kube/inject/webhook.go parseInjectEnvs, 1.32.

use std::collections::BTreeMap;

/// The most variables that are read.
const MOST: usize = 64;

/// The variable that names the cluster.
pub(crate) const CLUSTER: &str = "ISTIO_META_CLUSTER_ID";
/// The variable that names the network.
pub(crate) const NETWORK: &str = "ISTIO_META_NETWORK";

/// The variables that a path states, after its first segment: names and values in turn. In values, `--slash--` stands
/// for a slash. The superseded form is `:ENV:a=b:ENV:c=d`.
pub(crate) fn variables(path: &str) -> BTreeMap<String, String> {
    let path = path.strip_suffix('/').unwrap_or(path);
    let Some(rest) = path.splitn(3, '/').nth(2) else {
        return BTreeMap::new();
    };
    let mut out = BTreeMap::new();
    if rest.starts_with(":ENV:") {
        let pairs = rest.split(":ENV:").skip(1).take(MOST);
        for (name, value) in pairs.filter_map(|pair| pair.split_once('=')) {
            insert(&mut out, name, value.to_owned());
        }
        return out;
    }
    let mut parts = rest.split('/').take(2 * MOST);
    while let (Some(name), Some(value)) = (parts.next(), parts.next()) {
        insert(&mut out, name, value.replace("--slash--", "/"));
    }
    out
}

fn insert(out: &mut BTreeMap<String, String>, name: &str, value: String) {
    let name = match name {
        "" => return,
        "cluster" => CLUSTER.to_owned(),
        "net" => NETWORK.to_owned(),
        other => other.to_uppercase(),
    };
    out.insert(name, value);
}
