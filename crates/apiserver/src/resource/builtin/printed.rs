//! Columns of kinds that kube-apiserver prints by code.
// Kubernetes: pkg/printers/internalversion/printers.go, 1.36.

use serde_json::{Value, json};

use super::{age, made, path};
use crate::resource::Column;

/// How many items of a list are shown.
const SHOWN: usize = 3;

/// A column that `kubectl get -o wide` has besides.
fn wide(column: Column) -> Column {
    Column {
        priority: 1,
        ..column
    }
}

/// All columns of Events. When they were last seen comes first, and their names are seldom wanted.
pub(super) fn of_events() -> Vec<Column> {
    vec![
        made("Last Seen", "date", |event| {
            let series = &event["series"]["lastObservedTime"];
            [series, &event["lastTimestamp"], &first_seen(event)]
                .into_iter()
                .find(|time| is_said(time))
                .cloned()
                .unwrap_or_default()
        }),
        path("Type", "string", ".type"),
        path("Reason", "string", ".reason"),
        made("Object", "string", |event| {
            let about = &event["involvedObject"];
            let kind = text(&about["kind"]).to_ascii_lowercase();
            match text(&about["name"]) {
                "" => kind.into(),
                name => format!("{kind}/{name}").into(),
            }
        }),
        wide(path("Subobject", "string", ".involvedObject.fieldPath")),
        wide(made("Source", "string", |event| {
            let either = |of: &Value, or: &Value| match text(of) {
                "" => text(or).to_owned(),
                said => said.to_owned(),
            };
            let source = &event["source"];
            let component = either(&source["component"], &event["reportingComponent"]);
            match &*either(&source["host"], &event["reportingInstance"]) {
                "" => component.into(),
                instance => format!("{component}, {instance}").into(),
            }
        })),
        made("Message", "string", |event| {
            text(&event["message"]).trim().into()
        }),
        wide(made("First Seen", "date", first_seen)),
        wide(made("Count", "integer", |event| {
            let of_series = event["series"]["count"].as_i64();
            let count = of_series.or_else(|| event["count"].as_i64());
            json!(count.filter(|count| *count != 0).unwrap_or(1))
        })),
        wide(Column {
            format: "name".into(),
            ..path("Name", "string", ".metadata.name")
        }),
    ]
}

fn first_seen(event: &Value) -> Value {
    let times = [&event["firstTimestamp"], &event["eventTime"]];
    let said = times.into_iter().find(|time| is_said(time));
    said.cloned().unwrap_or_default()
}

fn is_said(time: &Value) -> bool {
    !text(time).is_empty()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The first of a list, and how many there are more; `none` where there is nothing.
fn shortened(all: &[String], none: &str) -> Value {
    let first = all.iter().take(SHOWN).map(|one| &**one);
    let shown = first.collect::<Vec<_>>().join(",");
    match all.len().saturating_sub(SHOWN) {
        0 if all.is_empty() => none.into(),
        0 => shown.into(),
        more => format!("{shown} + {more} more...").into(),
    }
}

/// All columns of a Pod.
pub(super) fn of_pods() -> Vec<Column> {
    vec![
        made("Ready", "string", |pod| {
            let all = items(&pod["status"]["containerStatuses"]);
            let ready = all.iter().filter(|one| one["ready"] == true).count();
            format!("{ready}/{}", items(&pod["spec"]["containers"]).len()).into()
        }),
        made("Status", "string", |pod| {
            let status = &pod["status"];
            let of_pod = match text(&status["reason"]) {
                "" => &status["phase"],
                _ => &status["reason"],
            };
            match pod["metadata"]["deletionTimestamp"].is_null() {
                true => of_pod.clone(),
                false => "Terminating".into(),
            }
        }),
        made("Restarts", "string", |pod| {
            let all = items(&pod["status"]["containerStatuses"]).iter();
            let restarts = all.filter_map(|one| one["restartCount"].as_i64());
            restarts.sum::<i64>().to_string().into()
        }),
        age(),
        wide(path("IP", "string", ".status.podIP")),
        wide(path("Node", "string", ".spec.nodeName")),
    ]
}

/// All columns of a Node.
pub(super) fn of_nodes() -> Vec<Column> {
    vec![
        made("Status", "string", |node| {
            let mut conditions = items(&node["status"]["conditions"]).iter();
            let ready = conditions.find(|condition| condition["type"] == "Ready");
            let state = match ready.map(|condition| text(&condition["status"])) {
                Some("True") => "Ready",
                Some(_) => "NotReady",
                None => "Unknown",
            };
            match node["spec"]["unschedulable"] == true {
                true => format!("{state},SchedulingDisabled").into(),
                false => state.into(),
            }
        }),
        made("Roles", "string", |node| {
            let labels = node["metadata"]["labels"].as_object();
            let names = labels.into_iter().flat_map(|labels| labels.keys());
            let roles = names.filter_map(|name| name.strip_prefix("node-role.kubernetes.io/"));
            let roles: Vec<&str> = roles.filter(|role| !role.is_empty()).collect();
            match roles.is_empty() {
                true => "<none>".into(),
                false => roles.join(",").into(),
            }
        }),
        age(),
        path("Version", "string", ".status.nodeInfo.kubeletVersion"),
    ]
}

/// The columns of an EndpointSlice, but for its age.
pub(super) fn of_slices() -> Vec<Column> {
    vec![
        path("AddressType", "string", ".addressType"),
        made("Ports", "string", |slice| {
            let number = |port: &Value| match port["port"].as_i64() {
                Some(number) => number.to_string(),
                None => "*".to_owned(),
            };
            let all: Vec<String> = items(&slice["ports"]).iter().map(number).collect();
            shortened(&all, "<unset>")
        }),
        made("Endpoints", "string", |slice| {
            let all = items(&slice["endpoints"]).iter();
            let all = all.flat_map(|endpoint| items(&endpoint["addresses"]));
            let all: Vec<String> = all.map(|address| text(address).to_owned()).collect();
            shortened(&all, "<unset>")
        }),
    ]
}

/// The addresses of Endpoints that are ready, each with its ports.
pub(super) fn endpoints(object: &Value) -> Value {
    let mut all = Vec::new();
    for subset in items(&object["subsets"]) {
        let addresses = items(&subset["addresses"]);
        let ports = items(&subset["ports"]);
        if ports.is_empty() {
            all.extend(addresses.iter().map(|one| text(&one["ip"]).to_owned()));
        }
        for port in ports {
            let with = |one: &Value| match text(&one["ip"]) {
                ip if ip.contains(':') => format!("[{ip}]:{}", port["port"]),
                ip => format!("{ip}:{}", port["port"]),
            };
            all.extend(addresses.iter().map(with));
        }
    }
    shortened(&all, "<none>")
}

/// The parameters that an IngressClass names.
pub(super) fn class_parameters(class: &Value) -> Value {
    let of = &class["spec"]["parameters"];
    match (text(&of["kind"]), text(&of["apiGroup"])) {
        ("", _) => "<none>".into(),
        (kind, "") => format!("{kind}/{}", text(&of["name"])).into(),
        (kind, group) => format!("{kind}.{group}/{}", text(&of["name"])).into(),
    }
}

/// How many webhooks a configuration has.
pub(super) fn webhooks(object: &Value) -> Value {
    json!(items(&object["webhooks"]).len())
}

/// How a Service is reached from outside.
pub(super) fn external_address(service: &Value) -> Value {
    let spec = &service["spec"];
    let mut all = Vec::new();
    if spec["type"] == "ExternalName" {
        return spec["externalName"].clone();
    }
    if spec["type"] == "LoadBalancer" {
        for point in items(&service["status"]["loadBalancer"]["ingress"]) {
            let stated = [text(&point["ip"]), text(&point["hostname"])];
            all.extend(stated.into_iter().find(|said| !said.is_empty()));
        }
    }
    all.extend(items(&spec["externalIPs"]).iter().map(text));
    match (all.is_empty(), spec["type"] == "LoadBalancer") {
        (false, _) => all.join(",").into(),
        (true, true) => "<pending>".into(),
        (true, false) => "<none>".into(),
    }
}

/// The Pods that a policy is about.
pub(super) fn pod_selector(policy: &Value) -> Value {
    let selector = &policy["spec"]["podSelector"];
    let labels = selector["matchLabels"].as_object();
    let labels = labels.into_iter().flatten();
    let mut all: Vec<String> = labels
        .map(|(key, value)| format!("{key}={}", text(value)))
        .collect();
    for condition in items(&selector["matchExpressions"]) {
        let key = text(&condition["key"]);
        let values: Vec<&str> = items(&condition["values"]).iter().map(text).collect();
        all.push(match text(&condition["operator"]) {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    match all.is_empty() {
        true => "<none>".into(),
        false => all.join(",").into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kube_apiserver_prints_by_code_is_printed_so() {
        let all: Vec<String> = (1..=4).map(|n| format!("10.0.0.{n}")).collect();
        assert_eq!(
            shortened(&all, "<unset>"),
            "10.0.0.1,10.0.0.2,10.0.0.3 + 1 more..."
        );
        assert_eq!(shortened(&[], "<unset>"), "<unset>");
        let old = json!({"subsets": [{"addresses": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}], "ports": [{"port": 80}]}]});
        assert_eq!(endpoints(&old), "10.0.0.1:80,[fd00::1]:80");
        assert_eq!(endpoints(&json!({})), "<none>");
        let class = json!({"spec": {"parameters": {"apiGroup": "example.com", "kind": "Lamp", "name": "a"}}});
        assert_eq!(class_parameters(&class), "Lamp.example.com/a");
        let balanced = json!({"spec": {"type": "LoadBalancer"}});
        assert_eq!(external_address(&balanced), "<pending>");
        let policy = json!({"spec": {"podSelector": {"matchLabels": {"app": "web"},
            "matchExpressions": [{"key": "tier", "operator": "In", "values": ["a", "b"]}]}}});
        assert_eq!(pod_selector(&policy), "app=web,tier in (a,b)");
        assert_eq!(
            pod_selector(&json!({"spec": {"podSelector": {}}})),
            "<none>"
        );
    }
}
