//! What a chain or a route matches and does, in a few words each.

use proto_envoy::envoy::config::listener::v3::{FilterChain, Listener};
use proto_envoy::envoy::config::route::v3::route::Action;
use proto_envoy::envoy::config::route::v3::route_match::PathSpecifier;
use proto_envoy::envoy::config::route::v3::{Route, RouteAction, RouteMatch};
use proto_envoy::envoy::extensions::filters::http::fault::v3::HttpFault;
use proto_envoy::envoy::extensions::filters::http::fault::v3::fault_abort::ErrorType;
use proto_envoy::envoy::r#type::v3::FractionalPercent;
use proto_envoy::envoy::r#type::v3::fractional_percent::DenominatorType;

use crate::call::Call;
use crate::listener;
use crate::route::difference;
use crate::walk::unpack;

/// What a chain asks of a connection.
pub(crate) fn of_chain(chain: &FilterChain) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(wanted) = &chain.filter_chain_match {
        if let Some(port) = wanted.destination_port {
            notes.push(format!("port {port}"));
        }
        let ranges = wanted.prefix_ranges.iter();
        let ranges = ranges.map(|r| format!("{}/{}", r.address_prefix, r.prefix_len.unwrap_or(0)));
        listed(&mut notes, "address", ranges.collect());
        listed(&mut notes, "server name", wanted.server_names.clone());
        if !wanted.transport_protocol.is_empty() {
            notes.push(wanted.transport_protocol.clone());
        }
        listed(&mut notes, "protocol", wanted.application_protocols.clone());
    }
    if chain.transport_socket.is_some() {
        notes.push("opens TLS".to_owned());
    }
    notes
}

fn listed(notes: &mut Vec<String>, what: &str, values: Vec<String>) {
    if !values.is_empty() {
        notes.push(format!("{what} {}", values.join(" or ")));
    }
}

/// What a route asks of a request, and does with it.
pub(crate) fn of_route(route: &Route) -> Vec<String> {
    let mut notes: Vec<String> = route.r#match.iter().flat_map(asked).collect();
    if let Some(Action::Route(action)) = &route.action {
        notes.extend(done(action));
    }
    let filters = route.typed_per_filter_config.values();
    notes.extend(
        filters
            .filter_map(unpack::<HttpFault>)
            .flat_map(|f| faults(&f)),
    );
    notes
}

/// What a route that does not take a request asks, and what of it the request does not have.
pub(crate) fn of_missed(route: &Route, call: &Call) -> String {
    let asks: Vec<String> = route.r#match.iter().flat_map(asked).collect();
    let asks = asks.join(", ");
    let wanted = route.r#match.as_ref();
    let why = wanted.and_then(|wanted| difference(wanted, call));
    let why = why.map_or_else(String::new, |why| format!(": {why} does not match"));
    match route.name.is_empty() {
        true => format!("route with {asks}{why}"),
        false => format!("route {}, {asks}{why}", route.name),
    }
}

/// The addresses and ports of listeners.
pub(crate) fn of_listeners(listeners: &[Listener]) -> Vec<String> {
    let at = listeners.iter().flat_map(listener::addresses);
    at.map(|(address, port)| format!("listener at {address} port {port}"))
        .collect()
}

/// What a route lets go wrong on purpose.
fn faults(fault: &HttpFault) -> Vec<String> {
    let share = |percentage: Option<&FractionalPercent>| {
        let percentage = percentage.cloned().unwrap_or_default();
        let of = match percentage.denominator() {
            DenominatorType::Hundred => 100.0,
            DenominatorType::TenThousand => 10_000.0,
            DenominatorType::Million => 1_000_000.0,
        };
        f64::from(percentage.numerator) * 100.0 / of
    };
    let mut notes = Vec::new();
    if let Some(delay) = &fault.delay {
        notes.push(format!("{} % delayed", share(delay.percentage.as_ref())));
    }
    if let Some(abort) = &fault.abort {
        let with = match &abort.error_type {
            Some(ErrorType::HttpStatus(status)) => format!(" with {status}"),
            Some(ErrorType::GrpcStatus(status)) => format!(" with gRPC status {status}"),
            _ => String::new(),
        };
        notes.push(format!(
            "{} % aborted{with}",
            share(abort.percentage.as_ref())
        ));
    }
    notes
}

fn asked(wanted: &RouteMatch) -> Vec<String> {
    let path = match &wanted.path_specifier {
        Some(PathSpecifier::Prefix(prefix)) => Some(format!("prefix {prefix}")),
        Some(PathSpecifier::Path(path)) => Some(format!("path {path}")),
        Some(PathSpecifier::PathSeparatedPrefix(prefix)) => Some(format!("path under {prefix}")),
        Some(PathSpecifier::SafeRegex(expression)) => Some(format!("path ~ {}", expression.regex)),
        _ => None,
    };
    let headers = wanted.headers.iter().map(|h| {
        let not = if h.invert_match { "no such " } else { "" };
        format!("{not}header {}", h.name)
    });
    let parameters = wanted.query_parameters.iter();
    let parameters = parameters.map(|q| format!("parameter {}", q.name));
    path.into_iter().chain(headers).chain(parameters).collect()
}

fn done(action: &RouteAction) -> Vec<String> {
    let mut notes = Vec::new();
    if !action.prefix_rewrite.is_empty() {
        notes.push(format!("path becomes {}", action.prefix_rewrite));
    }
    if let Some(rewrite) = &action.regex_rewrite {
        notes.push(format!("path becomes {}", rewrite.substitution));
    }
    if let Some(timeout) = action.timeout.filter(|t| t.seconds > 0 || t.nanos > 0) {
        let seconds = timeout.seconds as f64 + f64::from(timeout.nanos) / 1e9;
        notes.push(format!("timeout {seconds} s"));
    }
    if let Some(retries) = action.retry_policy.as_ref().and_then(|r| r.num_retries) {
        notes.push(format!("tries again {retries} times"));
    }
    for mirror in &action.request_mirror_policies {
        notes.push(format!("mirrored to {}", mirror.cluster));
    }
    notes
}
