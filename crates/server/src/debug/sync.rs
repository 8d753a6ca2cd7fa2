//! What proxies were sent, and what they watch.

use std::time::SystemTime;

use model::civil::timestamp;
use serde_json::{Map, Value, json};
use xds::TypeUrl;

use super::proxy_name;
use crate::streams::{Connection, TypeState};

/// RFC 3339, to the second.
pub(crate) fn time(at: SystemTime) -> String {
    let seconds = at
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |d| d.as_secs());
    timestamp(i64::try_from(seconds).unwrap_or(i64::MAX))
}

/// RFC 3339, to the microsecond: what measures propagation reads it.
fn precise_time(at: SystemTime) -> String {
    let micros = at
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |d| d.subsec_micros());
    time(at).replace('Z', &format!(".{micros:06}Z"))
}

/// How a version is written: hash of the content.
fn version(t: &TypeState) -> String {
    format!("{:016x}", t.version)
}

/// `/debug/syncz`: of all proxies, or those of a namespace.
pub(super) fn statuses(connections: &[Connection], namespace: Option<&str>) -> Value {
    let asked = |c: &&Connection| namespace.is_none_or(|namespace| *c.node.namespace == *namespace);
    connections.iter().filter(asked).map(status).collect()
}

fn status(c: &Connection) -> Value {
    let mut row = json!({
        "cluster_id": &*c.node.cluster,
        "proxy": proxy_name(&c.node),
        "proxy_type": c.node.role.as_str(),
        "istio_version": c.node.metadata.get("ISTIO_VERSION").cloned().unwrap_or(Value::Null),
    });
    let mut resources = Map::new();
    for ty in TypeUrl::ALL {
        let Some(t) = c.types[ty].as_ref().filter(|t| t.is_known()) else {
            continue;
        };
        let sent = version(t);
        let acked = if t.is_taken() {
            sent.clone()
        } else {
            String::new()
        };
        let short = match ty {
            TypeUrl::Cluster => "cluster",
            TypeUrl::Listener => "listener",
            TypeUrl::Route => "route",
            TypeUrl::Endpoint => "endpoint",
            TypeUrl::Extension => "extensionconfig",
            TypeUrl::Secret | TypeUrl::NameTable | TypeUrl::ProxyConfig => "",
        };
        if !short.is_empty() {
            row[format!("{short}_sent")] = sent.clone().into();
            row[format!("{short}_acked")] = acked.clone().into();
        }
        let mut entry = json!({ "sent": sent, "acked": acked, "sentTime": precise_time(t.sent_at), "revision": t.revision });
        if let Some(at) = t.acked_at {
            entry["ackedTime"] = precise_time(at).into();
        }
        if let Some(reason) = &t.refused {
            entry["lastError"] = (&**reason).into();
        }
        resources.insert(ty.as_str().into(), entry);
    }
    row["resources"] = resources.into();
    row
}

/// `/debug/connections`: who is connected, and from where.
pub(super) fn connections(connections: &[Connection]) -> Value {
    of_all(connections, &connection)
}

/// `/debug/adsz`: the same with what each says of itself and watches.
pub(super) fn clients(connections: &[Connection]) -> Value {
    of_all(connections, &client)
}

fn of_all(connections: &[Connection], shown: &dyn Fn(&Connection) -> Value) -> Value {
    let clients: Vec<Value> = connections.iter().map(shown).collect();
    json!({ "totalClients": clients.len(), "clients": clients })
}

fn connection(c: &Connection) -> Value {
    json!({
        "connectionId": format!("{}-{}", proxy_name(&c.node), c.number),
        "connectedAt": time(c.since),
        "address": c.peer.to_string(),
    })
}

fn client(c: &Connection) -> Value {
    let watches: Map<String, Value> = TypeUrl::ALL
        .into_iter()
        .filter_map(|ty| {
            let selection = c.types[ty].as_ref()?.selection.as_ref()?;
            let names: Vec<&str> = selection.names.iter().map(|n| &**n).collect();
            Some((ty.as_str().to_owned(), json!(names)))
        })
        .collect();
    let labels: Map<String, Value> = c
        .node
        .labels
        .iter()
        .map(|(k, v)| (k.to_string(), (&**v).into()))
        .collect();
    let mut shown = connection(c);
    shown["labels"] = labels.into();
    shown["metadata"] = json!(&*c.node.metadata);
    shown["locality"] = json!({
        "region": &*c.node.locality.region,
        "zone": &*c.node.locality.zone,
        "subZone": &*c.node.locality.subzone,
    });
    shown["watches"] = watches.into();
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connected(name: &str, namespace: &str) -> Connection {
        Connection {
            number: 7,
            node: testkit::node(&json!({
                "id": format!("sidecar~10.0.0.1~{name}.{namespace}~{namespace}.svc.cluster.local"),
                "metadata": { "NAMESPACE": namespace, "NAME": name },
            })),
            peer: ([127, 0, 0, 1], 1).into(),
            since: SystemTime::UNIX_EPOCH,
            types: Default::default(),
        }
    }

    #[test]
    fn precise_times_have_six_digits_of_a_second() {
        let at = SystemTime::UNIX_EPOCH + std::time::Duration::from_micros(1_002_003);
        assert_eq!(precise_time(at), "1970-01-01T00:00:01.002003Z");
    }

    #[test]
    fn proxies_of_a_namespace_are_told_with_what_they_refuse() {
        let mut all = [connected("web", "shop"), connected("web", "bank")];
        all[0].types[TypeUrl::Listener] = Some(TypeState {
            sent: 1,
            refused: Some("no such filter".into()),
            ..TypeState::default()
        });
        assert_eq!(statuses(&all, None).as_array().unwrap().len(), 2);
        let of_shop = statuses(&all, Some("shop"));
        assert_eq!(of_shop.as_array().unwrap().len(), 1);
        assert_eq!(of_shop[0]["proxy"], "web.shop");
        let listeners = &of_shop[0]["resources"][TypeUrl::Listener.as_str()];
        assert_eq!(listeners["lastError"], "no such filter");
    }

    #[test]
    fn a_proxy_that_came_back_with_all_has_taken_it() {
        let mut all = [connected("web", "shop")];
        all[0].types[TypeUrl::Cluster] = Some(TypeState {
            holds: true,
            version: 7,
            ..TypeState::default()
        });
        all[0].types[TypeUrl::Route] = Some(TypeState::default());
        let shown = statuses(&all, None);
        assert_eq!(shown[0]["cluster_sent"], "0000000000000007");
        assert_eq!(shown[0]["cluster_acked"], shown[0]["cluster_sent"]);
        let resources = shown[0]["resources"].as_object().unwrap();
        assert_eq!(resources.len(), 1, "{resources:?}");
    }

    #[test]
    fn connections_say_less_than_clients() {
        let all = [connected("web", "shop")];
        let (few, many) = (connections(&all), clients(&all));
        assert_eq!(few["totalClients"], 1);
        assert_eq!(few["clients"][0]["connectionId"], "web.shop-7");
        assert_eq!(few["clients"][0].as_object().unwrap().len(), 3);
        assert_eq!(many["clients"][0]["metadata"]["NAME"], "web");
    }
}
