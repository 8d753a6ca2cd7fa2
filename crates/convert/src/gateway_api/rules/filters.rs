//! What a rule does to requests and responses.

use std::collections::{BTreeMap, BTreeSet};

use model::ObjectKey;
use model::kinds::gateway_api::{
    Cors, GrpcFilter, GrpcFilterType, Header, HeaderModifier, HttpFilter, HttpFilterType,
    PathModifierType, RequestMirror, RequestRedirect, UrlRewrite,
};
use proto_istio::networking::headers::HeaderOperations;
use proto_istio::networking::http_redirect::{RedirectPort, RedirectPortSelection};
use proto_istio::networking::{
    Headers, HttpMirrorPolicy, HttpRedirect, HttpRewrite, HttpRoute, Percent, RegexRewrite,
};

use validate::text::{
    Check, header_name_to_remove, header_name_to_set, is_authority, literal_format, one_line,
};

use super::backend::Resolving;
use super::{RouteError, cors, reason};

/// A filter of either kind of route.
pub(super) enum Action<'a> {
    RequestHeaders(&'a HeaderModifier),
    ResponseHeaders(&'a HeaderModifier),
    Redirect(&'a RequestRedirect),
    Mirror(&'a RequestMirror),
    Rewrite(&'a UrlRewrite),
    Cors(&'a Cors),
    ExternalAuth,
    /// The field that its type names is absent.
    Nothing,
    /// There is no filter of that type here.
    Unsupported(&'static str),
}

impl<'a> From<&'a HttpFilter> for Action<'a> {
    fn from(filter: &'a HttpFilter) -> Self {
        let action = match filter.filter_type {
            HttpFilterType::RequestHeaderModifier => filter
                .request_header_modifier
                .as_ref()
                .map(Self::RequestHeaders),
            HttpFilterType::ResponseHeaderModifier => filter
                .response_header_modifier
                .as_ref()
                .map(Self::ResponseHeaders),
            HttpFilterType::RequestMirror => filter.request_mirror.as_ref().map(Self::Mirror),
            HttpFilterType::RequestRedirect => filter.request_redirect.as_ref().map(Self::Redirect),
            HttpFilterType::UrlRewrite => filter.url_rewrite.as_ref().map(Self::Rewrite),
            HttpFilterType::Cors => filter.cors.as_ref().map(Self::Cors),
            HttpFilterType::ExtensionRef => Some(Self::Unsupported("ExtensionRef")),
            HttpFilterType::ExternalAuth => Some(Self::ExternalAuth),
        };
        action.unwrap_or(Self::Nothing)
    }
}

impl<'a> From<&'a GrpcFilter> for Action<'a> {
    fn from(filter: &'a GrpcFilter) -> Self {
        let action = match filter.filter_type {
            GrpcFilterType::RequestHeaderModifier => filter
                .request_header_modifier
                .as_ref()
                .map(Self::RequestHeaders),
            GrpcFilterType::ResponseHeaderModifier => filter
                .response_header_modifier
                .as_ref()
                .map(Self::ResponseHeaders),
            GrpcFilterType::RequestMirror => filter.request_mirror.as_ref().map(Self::Mirror),
            GrpcFilterType::ExtensionRef => Some(Self::Unsupported("ExtensionRef")),
        };
        action.unwrap_or(Self::Nothing)
    }
}

impl Action<'_> {
    fn name(&self) -> &'static str {
        match self {
            Self::RequestHeaders(_) => "RequestHeaderModifier",
            Self::ResponseHeaders(_) => "ResponseHeaderModifier",
            Self::Redirect(_) => "RequestRedirect",
            Self::Mirror(_) => "RequestMirror",
            Self::Rewrite(_) => "URLRewrite",
            Self::Cors(_) => "CORS",
            Self::ExternalAuth => "ExternalAuth",
            Self::Nothing => "none",
            Self::Unsupported(name) => name,
        }
    }
}

/// Puts the filters of a rule into a route, and gives the last thing that is wrong with a mirror, which is then left out.
///
/// # Errors
/// A filter is wrong, or there is none of its type.
pub(super) fn apply(
    filters: &[Action<'_>],
    resolving: &Resolving<'_, '_, '_>,
    route: &mut HttpRoute,
    others: &mut BTreeSet<ObjectKey>,
) -> Result<Option<RouteError>, RouteError> {
    let mut error = None;
    for filter in filters {
        match filter {
            Action::Redirect(to) => route.redirect = Some(redirect(to)),
            Action::Rewrite(to) => route.rewrite = rewrite(to),
            Action::Cors(cors) => route.cors_policy = Some(cors::policy(cors)),
            Action::Mirror(mirror) => {
                let found = resolving.resolve(&(&mirror.backend_ref).into());
                match found.and_then(|found| found.error.clone().map_or(Ok(found), Err)) {
                    Ok(found) => {
                        others.extend(found.by);
                        route.mirrors.push(HttpMirrorPolicy {
                            destination: Some(found.destination),
                            percentage: share(mirror),
                        });
                    }
                    Err(wrong) => error = Some(wrong),
                }
            }
            Action::Nothing => {}
            Action::RequestHeaders(_) | Action::ResponseHeaders(_) => {
                change_headers(filter, &mut route.headers)?;
            }
            Action::ExternalAuth => return Err(external_auth()),
            Action::Unsupported(_) => return Err(unsupported(filter, "a rule")),
        }
    }
    Ok(error)
}

/// The field of a filter whose value Envoy refuses, and why: what goes into a request or an answer is one line.
pub(super) fn refused(filter: &Action<'_>) -> Option<(&'static str, String)> {
    let (hostname, path, fields) = match filter {
        Action::Redirect(to) => (
            &to.hostname,
            &to.path,
            [
                "requestRedirect.hostname",
                "requestRedirect.path.replaceFullPath",
                "requestRedirect.path.replacePrefixMatch",
            ],
        ),
        Action::Rewrite(to) => (
            &to.hostname,
            &to.path,
            [
                "urlRewrite.hostname",
                "urlRewrite.path.replaceFullPath",
                "urlRewrite.path.replacePrefixMatch",
            ],
        ),
        _ => return None,
    };
    let path = path.as_ref();
    let values = [
        hostname.as_deref(),
        path.and_then(|path| path.replace_full_path.as_deref()),
        path.and_then(|path| path.replace_prefix_match.as_deref()),
    ];
    let mut stated = fields.into_iter().zip(values);
    stated.find_map(|(field, value)| Some((field, one_line(value?).err()?)))
}

/// The filters of a backend, which can only change headers.
///
/// # Errors
/// A filter is wrong, or of another type.
pub(super) fn headers(filters: &[Action<'_>]) -> Result<Option<Headers>, RouteError> {
    let mut headers = None;
    for filter in filters {
        match filter {
            Action::RequestHeaders(_) | Action::ResponseHeaders(_) => {
                change_headers(filter, &mut headers)?
            }
            Action::Nothing => {}
            Action::ExternalAuth => return Err(external_auth()),
            _ => return Err(unsupported(filter, "a backend")),
        }
    }
    Ok(headers)
}

/// Requests that somebody was to authorize are not let through without.
fn external_auth() -> RouteError {
    RouteError::refusal(
        "the filter ExternalAuth is not supported, and the route is not served without it; an AuthorizationPolicy with \
         the action CUSTOM asks an external authorizer",
    )
}

fn unsupported(filter: &Action<'_>, of: &str) -> RouteError {
    let message = format!("{of} cannot have a filter of the type {}", filter.name());
    RouteError::new(reason::INVALID_FILTER, message)
}

fn change_headers(filter: &Action<'_>, headers: &mut Option<Headers>) -> Result<(), RouteError> {
    match filter {
        Action::RequestHeaders(change) => {
            let operations = operations(change, header_name_to_set)?;
            headers.get_or_insert_default().request = Some(operations);
        }
        Action::ResponseHeaders(change) => {
            let operations = operations(change, header_name_to_remove)?;
            headers.get_or_insert_default().response = Some(operations);
        }
        _ => {}
    }
    Ok(())
}

/// The operations of a filter on the headers that `may_be_set`.
fn operations(
    change: &HeaderModifier,
    may_be_set: fn(&str) -> Check,
) -> Result<HeaderOperations, RouteError> {
    let added = change.set.iter().chain(&change.add);
    let names = added.map(|header| may_be_set(&header.name));
    let removed = change.remove.iter().map(|name| header_name_to_remove(name));
    if let Some(why) = names.chain(removed).find_map(Result::err) {
        return Err(RouteError::new(reason::INVALID_FILTER, why));
    }
    let is_valid = |byte: u8| byte == b'\t' || (byte >= b' ' && byte != 0x7f);
    let mut written = change.set.iter().chain(&change.add);
    if let Some(wrong) = written.find(|header| !header.value.bytes().all(is_valid)) {
        let message = format!(
            "the value of the header {:?} has characters that no header can have",
            wrong.name
        );
        return Err(RouteError::new(reason::INVALID_FILTER, message));
    }
    Ok(HeaderOperations {
        set: by_name(&change.set),
        add: by_name(&change.add),
        remove: change.remove.iter().map(ToString::to_string).collect(),
    })
}

/// Headers by name, with their values as formats: the API has texts. Of those with one name the first counts.
fn by_name(headers: &[Header]) -> BTreeMap<String, String> {
    let mut by_name = BTreeMap::new();
    for header in headers {
        let name = header.name.to_ascii_lowercase();
        by_name
            .entry(name)
            .or_insert_with(|| match is_authority(&header.name) {
                true => header.value.to_string(),
                false => literal_format(&header.value).into_owned(),
            });
    }
    by_name
}

fn share(mirror: &RequestMirror) -> Option<Percent> {
    let value = match (&mirror.fraction, mirror.percent) {
        (Some(part), _) => 100.0 * f64::from(part.numerator) / f64::from(part.denominator.max(1)),
        (None, percent) => percent?.into(),
    };
    Some(Percent { value })
}

fn redirect(to: &RequestRedirect) -> HttpRedirect {
    let port = match (to.port, &to.scheme) {
        (Some(port), _) => RedirectPort::Port(port.into()),
        (None, Some(_)) => {
            RedirectPort::DerivePort(RedirectPortSelection::FromProtocolDefault.into())
        }
        (None, None) => RedirectPort::DerivePort(RedirectPortSelection::FromRequestPort.into()),
    };
    let text = |text: &Option<_>| text.as_deref().map(str::to_owned).unwrap_or_default();
    let mut redirect = HttpRedirect {
        redirect_code: to.status_code.into(),
        authority: text(&to.hostname),
        scheme: text(&to.scheme),
        redirect_port: Some(port),
        ..HttpRedirect::default()
    };
    if let Some(path) = &to.path {
        match path.modifier_type {
            PathModifierType::ReplaceFullPath => redirect.uri = text(&path.replace_full_path),
            PathModifierType::ReplacePrefixMatch => {
                redirect.prefix_rewrite = text(&path.replace_prefix_match)
            }
        }
    }
    redirect
}

fn rewrite(to: &UrlRewrite) -> Option<HttpRewrite> {
    let mut rewrite = HttpRewrite {
        authority: to
            .hostname
            .as_deref()
            .map(str::to_owned)
            .unwrap_or_default(),
        ..HttpRewrite::default()
    };
    if let Some(path) = &to.path {
        match path.modifier_type {
            PathModifierType::ReplacePrefixMatch => {
                let prefix = path.replace_prefix_match.as_deref().unwrap_or_default();
                let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
                // Nothing in place of the prefix leaves the slash of the root.
                rewrite.uri = if prefix.is_empty() { "/" } else { prefix }.to_owned();
            }
            PathModifierType::ReplaceFullPath => {
                rewrite.uri_regex_rewrite = Some(RegexRewrite {
                    r#match: "/.*".to_owned(),
                    // A backslash would stand for a group of the expression.
                    rewrite: path
                        .replace_full_path
                        .as_deref()
                        .unwrap_or_default()
                        .replace('\\', r"\\"),
                });
            }
        }
    }
    (rewrite != HttpRewrite::default()).then_some(rewrite)
}
