//! What a route does with a request besides sending it on.

use model::grpc::STATUS_NAMES;
use model::work::MIRRORS;
use proto_istio::networking::http_body::Specifier;
use proto_istio::networking::http_fault_injection::{abort::ErrorType, delay::HttpDelayType};
use proto_istio::networking::http_redirect::RedirectPort;
use proto_istio::networking::string_match::MatchType;
use proto_istio::networking::{
    CorsPolicy, HttpDirectResponse, HttpFaultInjection, HttpRewrite, HttpRoute, Percent,
};

use super::{destination, regex_match};
use crate::report::{At, Report};
use crate::text::{Check, duration, is_token, one_line, port, re2, substitution};

/// The codes of redirects that Envoy has.
const REDIRECTS: [u32; 5] = [301, 302, 303, 307, 308];
const METHODS: [&str; 10] = [
    "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "OPTIONS", "TRACE", "*",
];
/// Bytes of a body that is answered with: from the first on it is worth a warning, from the second on too much.
const LARGE_BODY: usize = 100 << 10;
const LARGEST_BODY: usize = 1 << 20;

pub(super) fn cors(policy: Option<&CorsPolicy>, at: &At<'_>, report: &mut Report) {
    let Some(policy) = policy else {
        return;
    };
    for (at, origin) in at.field("allowOrigins").each(&policy.allow_origins) {
        use MatchType::{Exact, Prefix, Regex};
        match &origin.match_type {
            Some(Exact(text) | Prefix(text) | Regex(text)) if !text.is_empty() => {
                report.check(&at, regex_match(Some(origin)));
            }
            _ => report.error(&at, "an origin is needed"),
        }
    }
    for (at, method) in at.field("allowMethods").each(&policy.allow_methods) {
        if !METHODS.contains(&method.as_str()) {
            report.error(&at, format!("{method:?} is no method of HTTP"));
        }
    }
    let lists = [
        ("allowHeaders", &policy.allow_headers),
        ("exposeHeaders", &policy.expose_headers),
    ];
    for (field, names) in lists {
        for (at, name) in at.field(field).each(names) {
            if !is_token(name) {
                report.error(&at, format!("{name:?} is not a header name"));
            }
        }
    }
    if let Some(age) = policy.max_age {
        let at = at.field("maxAge");
        report.check(&at, duration(age));
        if age.0.nanos > 0 {
            report.error(&at, "only whole seconds are possible");
        }
    }
}

pub(super) fn fault(fault: Option<&HttpFaultInjection>, at: &At<'_>, report: &mut Report) {
    let Some(fault) = fault else {
        return;
    };
    if fault.abort.is_none() && fault.delay.is_none() {
        report.error(at, "one of `abort` and `delay` is needed");
    }
    if let Some(abort) = &fault.abort {
        let at = at.field("abort");
        percentage(abort.percentage.as_ref(), &at.field("percentage"), report);
        match &abort.error_type {
            Some(ErrorType::HttpStatus(code)) => {
                report.check(&at.field("httpStatus"), status((*code).into()));
            }
            Some(ErrorType::GrpcStatus(name)) if !STATUS_NAMES.contains(&name.as_str()) => {
                let at = at.field("grpcStatus");
                report.error(&at, format!("{name:?} is no status of gRPC"));
                if let Some(near) = model::parse::nearest(name, STATUS_NAMES.into_iter()) {
                    report.help(format!("did you mean `{near}`?"));
                }
            }
            Some(ErrorType::GrpcStatus(_)) => {}
            Some(ErrorType::Http2Error(_)) => {
                report.error(&at.field("http2Error"), "is not supported");
            }
            None => report.warning(&at, "nothing is aborted without a status"),
        }
    }
    if let Some(delay) = &fault.delay {
        let at = at.field("delay");
        percentage(delay.percentage.as_ref(), &at.field("percentage"), report);
        match &delay.http_delay_type {
            Some(HttpDelayType::FixedDelay(time)) => {
                report.check(&at.field("fixedDelay"), duration(*time));
            }
            Some(HttpDelayType::ExponentialDelay(_)) => {
                report.error(&at.field("exponentialDelay"), "is not supported");
            }
            None => {}
        }
    }
}

/// 0, or a share that Envoy can tell from it.
fn percentage(percentage: Option<&Percent>, at: &At<'_>, report: &mut Report) {
    let good = |share: f64| share == 0.0 || (0.0001..=100.0).contains(&share);
    if let Some(share) = percentage.map(|p| p.value).filter(|share| !good(*share)) {
        let message = format!("{share} is neither 0 nor between 0.0001 and 100");
        report.error(&at.field("value"), message);
    }
}

fn status(code: i64) -> Check {
    if (200..=599).contains(&code) {
        return Ok(());
    }
    Err(format!("the status {code} is not between 200 and 599"))
}

pub(super) fn mirrors(route: &HttpRoute, at: &At<'_>, report: &mut Report) {
    if let Some(share) = route.mirror_percent {
        let at = at.field("mirrorPercent");
        if share > 100 {
            report.error(&at, "must be at most 100");
        }
        report.warning(&at, "deprecated");
        report.help("use mirrorPercentage");
    }
    let share = route.mirror_percentage.as_ref();
    mirrored(share, &at.field("mirrorPercentage"), report);
    destination(route.mirror.as_ref(), &at.field("mirror"), report);
    if route.mirrors.len() > MIRRORS {
        let message = format!(
            "more than {MIRRORS} are too many, so requests are mirrored to the first {MIRRORS}"
        );
        report.warning(&at.field("mirrors"), message);
    }
    for (at, mirror) in at.field("mirrors").each(&route.mirrors) {
        if mirror.destination.is_none() {
            report.error(&at.field("destination"), "a destination is needed");
            continue;
        }
        destination(
            mirror.destination.as_ref(),
            &at.field("destination"),
            report,
        );
        mirrored(mirror.percentage.as_ref(), &at.field("percentage"), report);
    }
}

fn mirrored(share: Option<&Percent>, at: &At<'_>, report: &mut Report) {
    if let Some(share) = share.filter(|share| !(0.0..=100.0).contains(&share.value)) {
        let message = format!("{} is not between 0 and 100", share.value);
        report.error(&at.field("value"), message);
    }
}

pub(super) fn redirect(route: &HttpRoute, at: &At<'_>, report: &mut Report) {
    let Some(redirect) = &route.redirect else {
        return;
    };
    for (field, text) in [
        ("uri", &redirect.uri),
        ("authority", &redirect.authority),
        ("prefixRewrite", &redirect.prefix_rewrite),
    ] {
        report.check(&at.field(field), one_line(text));
    }
    if !redirect.uri.is_empty() && !redirect.prefix_rewrite.is_empty() {
        let message = "only one of `uri` and `prefixRewrite` may be set";
        return report.error(&at.field("prefixRewrite"), message);
    }
    if !redirect.prefix_rewrite.is_empty() {
        let by_prefix = |kind: &Option<MatchType>| matches!(kind, Some(MatchType::Prefix(_)));
        let mut uris = route.r#match.iter().filter_map(|m| m.uri.as_ref());
        if uris.any(|uri| !by_prefix(&uri.match_type)) {
            let message = "only prefixes can be replaced, and the route matches otherwise";
            return report.error(&at.field("prefixRewrite"), message);
        }
    }
    let empty = redirect.uri.is_empty()
        && redirect.prefix_rewrite.is_empty()
        && redirect.authority.is_empty()
        && redirect.redirect_port.is_none()
        && redirect.scheme.is_empty();
    if empty {
        return report.error(
            at,
            "one of `uri`, `authority`, `scheme` and `port` is needed",
        );
    }
    let code = redirect.redirect_code;
    if code != 0 && !REDIRECTS.contains(&code) {
        let message = format!("the status {code} is not 301, 302, 303, 307 or 308");
        report.error(&at.field("redirectCode"), message);
    }
    if !matches!(redirect.scheme.as_str(), "" | "http" | "https") {
        report.error(&at.field("scheme"), "must be http or https");
    }
    if let Some(RedirectPort::Port(number)) = redirect.redirect_port
        && number > 0
    {
        report.check(&at.field("port"), port(number.into()));
    }
}

pub(super) fn direct_response(
    response: Option<&HttpDirectResponse>,
    at: &At<'_>,
    report: &mut Report,
) {
    let Some(response) = response else {
        return;
    };
    let size = match response.body.as_ref().and_then(|b| b.specifier.as_ref()) {
        Some(Specifier::String(text)) => text.len(),
        Some(Specifier::Bytes(bytes)) => bytes.len(),
        None => 0,
    };
    let message = format!("the body has {size} bytes, and every proxy keeps it");
    if size > LARGEST_BODY {
        report.error(&at.field("body"), message);
    } else if size > LARGE_BODY {
        report.warning(&at.field("body"), message);
    }
    report.check(&at.field("status"), status(response.status.into()));
}

pub(super) fn rewrite(rewrite: Option<&HttpRewrite>, at: &At<'_>, report: &mut Report) {
    let Some(rewrite) = rewrite else {
        return;
    };
    report.check(&at.field("uri"), one_line(&rewrite.uri));
    report.check(&at.field("authority"), one_line(&rewrite.authority));
    let regex = rewrite.uri_regex_rewrite.as_ref();
    if !rewrite.uri.is_empty() && regex.is_some() {
        let message = "only one of `uri` and `uriRegexRewrite` may be set";
        return report.error(&at.field("uriRegexRewrite"), message);
    }
    if rewrite.uri.is_empty() && regex.is_none() && rewrite.authority.is_empty() {
        return report.error(
            at,
            "one of `uri`, `uriRegexRewrite` and `authority` is needed",
        );
    }
    if let Some(regex) = regex {
        let at = at.field("uriRegexRewrite");
        if regex.r#match.is_empty() || regex.rewrite.is_empty() {
            return report.error(&at, "both of `match` and `rewrite` are needed");
        }
        report.check(&at.field("match"), re2(&regex.r#match));
        let text =
            one_line(&regex.rewrite).and_then(|()| substitution(&regex.r#match, &regex.rewrite));
        report.check(&at.field("rewrite"), text);
    }
}
