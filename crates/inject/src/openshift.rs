//! Users and groups that OpenShift gives a namespace.
// Istio: pkg/kube/inject/openshift.go, inject.go GetProxyIDs, webhook.go isSidecarUserMatchingAppUser, 1.32.

use model::Labels;
use serde_json::Value;

use crate::pod::{CONTAINERS, INIT, INIT_CONTAINERS, PROXY, Pod, VALIDATION, name};

const USERS: &str = "openshift.io/sa.scc.uid-range";
const GROUPS: &str = "openshift.io/sa.scc.supplemental-groups";

/// The user and group of the proxy outside of OpenShift.
const USUAL: i64 = 1337;

/// The user and the group that the proxy runs as: the last user and the last group of the first range that the
/// namespace has.
pub(crate) fn ids(namespace: Option<&Labels>) -> (i64, i64) {
    let Some(annotations) = namespace else {
        return (USUAL, USUAL);
    };
    let users = annotations.get(USERS);
    let groups = annotations.get(GROUPS).or(users);
    let ranges = |text: &str| -> Option<Vec<i64>> { text.split(',').map(last).collect() };
    let user = users.and_then(last).unwrap_or(USUAL);
    let group = groups.and_then(ranges);
    let group = group.and_then(|ranges| ranges.first().copied());
    (user, group.unwrap_or(USUAL))
}

/// The last number of a range, written `first/size` or `first-last`.
fn last(range: &str) -> Option<i64> {
    let number = |text: &str| {
        let end = text.find(|c: char| !c.is_ascii_digit());
        text[..end.unwrap_or(text.len())].parse::<u32>().ok()
    };
    let last = match range.split_once('/') {
        Some((first, size)) => number(first)?.wrapping_add(number(size)?).wrapping_sub(1),
        None => {
            let (first, last) = range.split_once('-')?;
            number(first)?;
            number(last)?
        }
    };
    Some(last.into())
}

/// Forgets the user of the pod's own proxy container where it is that of the application: OpenShift gave it to all.
pub(crate) fn forget_user(pod: &mut Pod) {
    let user = |container: &Value| container["securityContext"]["runAsUser"].as_i64();
    let all = pod.list(CONTAINERS).iter().chain(pod.list(INIT_CONTAINERS));
    let (mut proxy, mut application) = (0, 0);
    for container in all {
        match name(container) {
            PROXY => proxy = user(container).unwrap_or(proxy),
            INIT | VALIDATION => {}
            _ => application = user(container).unwrap_or(application),
        }
    }
    let own = pod.container_mut(PROXY);
    let context = own.and_then(|c| c.get_mut("securityContext")?.as_object_mut());
    if proxy == application
        && let Some(context) = context
    {
        context.remove("runAsUser");
        context.remove("runAsGroup");
    }
}
