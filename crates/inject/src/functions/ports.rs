//! Lists of ports, separated by commas.

use gotemplate::Args;
use serde_json::Value;

use crate::go::Typed;
use crate::pod::name;

/// A list with one more port, if that is one and not in it.
pub(super) fn exclude(port: &str, excluded: &str) -> String {
    let mut known = excluded.split(',');
    if port.is_empty() || port == "0" || known.any(|known| known == port) {
        return excluded.to_owned();
    }
    let known = excluded.split(',').map(str::trim).filter(|p| !p.is_empty());
    known.chain([port]).collect::<Vec<_>>().join(",")
}

/// The ports of containers, without those that no proxy can take.
pub(super) fn of(args: &Args<'_>, counts: impl Fn(&str) -> bool) -> String {
    let containers = args.list(0);
    let containers = containers.items().iter().filter_map(Typed::of);
    let counted = containers.map(Typed::raw).filter(|c| counts(name(c)));
    let ports: Vec<String> = counted.flat_map(of_container).collect();
    ports.join(",")
}

/// The ports of one container.
pub(crate) fn of_container(container: &Value) -> Vec<String> {
    let ports = container["ports"].as_array();
    let ports = ports.into_iter().flatten();
    let taken = ports.filter(|p| !matches!(p["protocol"].as_str(), Some("UDP" | "SCTP")));
    taken
        .map(|p| p["containerPort"].as_i64().unwrap_or_default().to_string())
        .collect()
}
