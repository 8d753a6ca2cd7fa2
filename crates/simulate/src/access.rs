//! What is asked before a request or a connection passes, besides the rules of policies: a password, a token, a service that
//! decides. Nobody is asked here: a walk goes on as if the answer were yes, and says so.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use prost_types::value::Kind;
use prost_types::{Any, Struct};
use proto_envoy::envoy::config::core::v3::grpc_service::TargetSpecifier;
use proto_envoy::envoy::config::core::v3::{GrpcService, http_uri};
use proto_envoy::envoy::config::listener::v3::FilterChain;
use proto_envoy::envoy::config::listener::v3::filter::ConfigType;
use proto_envoy::envoy::config::rbac::v3::Rbac;
use proto_envoy::envoy::config::route::v3::Route;
use proto_envoy::envoy::extensions::filters::http::basic_auth::v3::BasicAuth;
use proto_envoy::envoy::extensions::filters::http::ext_authz::v3 as http;
use proto_envoy::envoy::extensions::filters::http::jwt_authn::v3 as jwt;
use proto_envoy::envoy::extensions::filters::http::rbac::v3::Rbac as HttpRbac;
use proto_envoy::envoy::extensions::filters::network::ext_authz::v3::ExtAuthz as NetworkExtAuthz;
use proto_envoy::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, HttpFilter, http_filter,
};
use proto_envoy::envoy::extensions::filters::network::rbac::v3::Rbac as NetworkRbac;
use proto_envoy::envoy::r#type::matcher::v3::MetadataMatcher;
use proto_envoy::envoy::r#type::matcher::v3::value_matcher::MatchPattern;

use crate::call::Call;
use crate::matcher::string;
use crate::policy::{self, Holds, OTHER_FILTERS, Said};
use crate::walk::unpack;

/// The name under which a script of gateways of an edge asks, by the metadata of routes.
const SCRIPT: &str = "pilothouse.access";
const PASSWORD: &str = "a name and a password (basic auth)";
const NO_CREDENTIALS: &str = "the request has none and gets 401; the rest is for one that has";

/// Something that decides about a request and that a walk does not do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Asked {
    /// What is asked for, or who is asked.
    pub what: String,
    /// What the walk takes the answer to be.
    pub assumed: String,
}

/// What is asked about a connection before anything of it is read.
pub(crate) fn of_connection(chain: &FilterChain, call: &Call) -> Vec<Asked> {
    let configs = || {
        let filters = chain.filters.iter();
        filters.filter_map(|filter| match &filter.config_type {
            Some(ConfigType::TypedConfig(any)) => Some(any),
            _ => None,
        })
    };
    let shadows = configs().filter_map(|any| unpack::<NetworkRbac>(any)?.shadow_rules);
    let shadows: Vec<Rbac> = shadows.collect();
    let services = configs().filter_map(unpack::<NetworkExtAuthz>);
    let asked = services.filter_map(|filter| {
        let is_asked = is_asked(filter.filter_enabled_metadata.as_ref(), &shadows, call);
        let service = of_grpc(filter.grpc_service.as_ref());
        decided_by(&service, filter.failure_mode_allow, is_asked)
    });
    asked.collect()
}

/// What is asked about a request; `levels` is what its route, virtual host and route configuration say of filters, in this order.
pub(crate) fn of_request(
    manager: &HttpConnectionManager,
    levels: &[&BTreeMap<String, Any>],
    route: Option<&Route>,
    call: &Call,
) -> Vec<Asked> {
    let shadows = manager.http_filters.iter().filter_map(|filter| {
        let (own, _) = active::<HttpRbac>(filter, levels)?;
        own.shadow_rules
    });
    let shadows: Vec<Rbac> = shadows.collect();
    let mut asked = Vec::new();
    for filter in &manager.http_filters {
        if active::<BasicAuth>(filter, levels).is_some() {
            asked.push(password(call));
        } else if let Some((own, here)) = active::<http::ExtAuthz>(filter, levels) {
            asked.extend(service(&own, here.as_ref(), &shadows, call));
        } else if let Some((own, here)) = active::<jwt::JwtAuthentication>(filter, levels) {
            asked.extend(token(&own, here.as_ref(), call));
        } else if filter.name == SCRIPT && !matches!(policy::said(filter, levels), Said::Off) {
            asked.extend(
                route
                    .and_then(of_script)
                    .iter()
                    .flat_map(|said| script(said, call)),
            );
        }
    }
    asked
}

/// The configuration of a filter of that type, and what is said of it for the request, if it sees the request.
fn active<M: prost::Message + prost::Name + Default>(
    filter: &HttpFilter,
    levels: &[&BTreeMap<String, Any>],
) -> Option<(M, Option<Any>)> {
    let Some(http_filter::ConfigType::TypedConfig(config)) = &filter.config_type else {
        return None;
    };
    let own = unpack::<M>(config)?;
    match policy::said(filter, levels) {
        Said::Off => None,
        Said::Own => Some((own, None)),
        Said::Here(here) => Some((own, Some(here))),
    }
}

fn password(call: &Call) -> Asked {
    Asked {
        what: format!("{PASSWORD} are asked for"),
        assumed: match has_scheme(call, "basic ") {
            true => "those of the request are taken to be right".to_owned(),
            false => NO_CREDENTIALS.to_owned(),
        },
    }
}

fn has_scheme(call: &Call, scheme: &str) -> bool {
    let stated = call.header("authorization").unwrap_or_default();
    stated.to_ascii_lowercase().starts_with(scheme)
}

/// The service that a filter of external authorization asks.
fn service(
    own: &http::ExtAuthz,
    here: Option<&Any>,
    shadows: &[Rbac],
    call: &Call,
) -> Option<Asked> {
    use http::ext_authz::Services;
    use http::ext_authz_per_route::Override;
    let here = here.and_then(unpack::<http::ExtAuthzPerRoute>);
    if here.is_some_and(|here| here.r#override == Some(Override::Disabled(true))) {
        return None;
    }
    let is_asked = is_asked(own.filter_enabled_metadata.as_ref(), shadows, call);
    let service = match &own.services {
        Some(Services::HttpService(service)) => {
            let upstream = service.server_uri.as_ref();
            match upstream.and_then(|uri| uri.http_upstream_type.as_ref()) {
                Some(http_uri::HttpUpstreamType::Cluster(cluster)) => cluster.clone(),
                None => String::new(),
            }
        }
        Some(Services::GrpcService(service)) => of_grpc(Some(service)),
        None => String::new(),
    };
    decided_by(&service, own.failure_mode_allow, is_asked)
}

fn of_grpc(service: Option<&GrpcService>) -> String {
    match service.and_then(|service| service.target_specifier.as_ref()) {
        Some(TargetSpecifier::EnvoyGrpc(to)) => to.cluster_name.clone(),
        Some(TargetSpecifier::GoogleGrpc(to)) => to.target_uri.clone(),
        None => String::new(),
    }
}

/// Whether a filter asks: where it does so for what a rule takes, that rule is one of those that a filter before it looks for.
fn is_asked(enabled: Option<&MetadataMatcher>, shadows: &[Rbac], call: &Call) -> Holds {
    let Some(enabled) = enabled else {
        return Ok(true);
    };
    let value = enabled.value.as_ref();
    let Some(MatchPattern::StringMatch(wanted)) =
        value.and_then(|value| value.match_pattern.as_ref())
    else {
        return Err(OTHER_FILTERS);
    };
    let rules = shadows.iter().flat_map(|rules| &rules.policies);
    let wanted = rules.filter(|(name, _)| string(wanted, name));
    policy::any(wanted.map(|(_, rule)| policy::matches(rule, call)))
}

fn decided_by(service: &str, fails_open: bool, is_asked: Holds) -> Option<Asked> {
    let if_asked = match is_asked {
        Ok(false) => return None,
        Ok(true) => String::new(),
        Err(what) => format!("whether it is asked depends on {what}; "),
    };
    let silent = match fails_open {
        true => ", and so it is where it does not answer",
        false => "",
    };
    Some(Asked {
        what: format!("{service} is asked whether the request may pass"),
        assumed: format!("{if_asked}it is taken to say yes{silent}"),
    })
}

/// The token that a filter wants.
fn token(own: &jwt::JwtAuthentication, here: Option<&Any>, call: &Call) -> Option<Asked> {
    use jwt::per_route_config::RequirementSpecifier;
    let here = here.and_then(unpack::<jwt::PerRouteConfig>);
    let here = here.and_then(|here| here.requirement_specifier);
    if own.providers.is_empty() || here == Some(RequirementSpecifier::Disabled(true)) {
        return None;
    }
    let stands_there = |provider: &jwt::JwtProvider| {
        let mut headers = provider.from_headers.iter();
        let mut parameters = provider.from_params.iter();
        headers.any(|from| call.header(&from.name.to_ascii_lowercase()).is_some())
            || parameters.any(|name| call.query(name).is_some())
    };
    let is_there = has_scheme(call, "bearer ") || own.providers.values().any(stands_there);
    let issuers: Vec<&str> = own.providers.values().map(|p| p.issuer.as_str()).collect();
    let is_optional = own.rules.iter().all(|rule| match &rule.requirement_type {
        Some(jwt::requirement_rule::RequirementType::Requires(wanted)) => may_be_missing(wanted),
        Some(jwt::requirement_rule::RequirementType::RequirementName(_)) => false,
        None => true,
    });
    Some(Asked {
        what: format!("a token (JWT) of {} is asked for", issuers.join(" or ")),
        assumed: match (is_there, is_optional) {
            (true, _) => "that of the request is taken to be good".to_owned(),
            (false, true) => "the request has none, and this filter lets it pass".to_owned(),
            (false, false) => NO_CREDENTIALS.to_owned(),
        },
    })
}

/// Whether a request without a token has what is wanted.
fn may_be_missing(wanted: &jwt::JwtRequirement) -> bool {
    use jwt::jwt_requirement::RequiresType;
    match &wanted.requires_type {
        Some(RequiresType::RequiresAny(list)) => list.requirements.iter().any(may_be_missing),
        Some(RequiresType::RequiresAll(list)) => list.requirements.iter().all(may_be_missing),
        Some(RequiresType::AllowMissing(_) | RequiresType::AllowMissingOrFailed(_)) | None => true,
        Some(_) => false,
    }
}

/// What a route tells the script.
fn of_script(route: &Route) -> Option<Struct> {
    let metadata = route.metadata.as_ref()?;
    structure(metadata.filter_metadata.get(SCRIPT)?, "access").cloned()
}

fn structure<'s>(within: &'s Struct, name: &str) -> Option<&'s Struct> {
    match &within.fields.get(name)?.kind {
        Some(Kind::StructValue(found)) => Some(found),
        _ => None,
    }
}

/// What the script asks for.
fn script(said: &Struct, call: &Call) -> Vec<Asked> {
    let is_set = |name: &str| {
        let value = said.fields.get(name).and_then(|value| value.kind.as_ref());
        value == Some(&Kind::BoolValue(true))
    };
    let external = structure(said, "external").map(|external| {
        let text = |name: &str| match external.fields.get(name).map(|value| &value.kind) {
            Some(Some(Kind::StringValue(text))) => text.clone(),
            _ => String::new(),
        };
        format!(
            "{} ({}{})",
            text("cluster"),
            text("authority"),
            text("path")
        )
    });
    let has_users = said.fields.contains_key("users");
    if is_set("any") {
        let address = is_set("addresses").then(|| "the address of the client".to_owned());
        let users = has_users.then(|| PASSWORD.to_owned());
        let service = external.map(|service| format!("the word of {service}"));
        let any: Vec<String> = [address, users, service].into_iter().flatten().collect();
        return vec![Asked {
            what: format!("any of these is enough: {}", any.join(", ")),
            assumed: "one of them is taken to let the request pass".to_owned(),
        }];
    }
    let users = has_users.then(|| password(call));
    let service = external.and_then(|service| decided_by(&service, false, Ok(true)));
    users.into_iter().chain(service).collect()
}
