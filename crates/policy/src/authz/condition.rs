//! One condition of a rule, and what it is as a permission or principal of Envoy's.
//!
//! Istio: pilot/pkg/security/authz/model/generator.go, 1.32.

use permission::Rule;
use principal::{Authenticated, Identifier};
use proto_envoy::envoy::config::core::v3::{CidrRange, TypedExtensionConfig};
use proto_envoy::envoy::config::rbac::v3::{Permission, Principal, permission, principal};
use proto_envoy::envoy::r#type::matcher::v3::{MetadataMatcher, StringMatcher};

use super::matcher;
use mesh::address::cidr_range;
use model::re2::quote;
use xds::any;

const SPIFFE: &str = "spiffe://";

/// What a condition looks at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Attribute {
    Host,
    Method,
    Path,
    DestinationIp,
    DestinationPort,
    ServerName,
    /// Metadata of a filter: its name and the key.
    FilterMetadata(String),
    SourceIp,
    RemoteIp,
    Namespace,
    TrustDomain,
    ServiceAccount,
    Principal,
    RequestPrincipal,
    Audiences,
    Presenter,
    Header(String),
    Claims(String),
}

/// Why a condition makes nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Unfit {
    /// It is about requests, which a TCP chain does not see. Holds what it looks at.
    RequestsOnly(String),
    /// It says nothing that makes sense.
    Invalid(String),
    /// The whole rule makes too much.
    TooLarge,
}

impl Attribute {
    /// The attribute of a key in `when`.
    pub(super) fn of_key(key: &str) -> Option<Self> {
        let after = |start: &str| key.strip_prefix(start).map(str::to_owned);
        Some(match key {
            "destination.ip" => Self::DestinationIp,
            "destination.port" => Self::DestinationPort,
            "connection.sni" => Self::ServerName,
            "source.ip" => Self::SourceIp,
            "remote.ip" => Self::RemoteIp,
            "source.namespace" => Self::Namespace,
            "source.trustDomain" => Self::TrustDomain,
            "source.serviceAccount" => Self::ServiceAccount,
            "source.principal" => Self::Principal,
            "request.auth.principal" => Self::RequestPrincipal,
            "request.auth.audiences" => Self::Audiences,
            "request.auth.presenter" => Self::Presenter,
            _ if key.starts_with("experimental.envoy.filters.") => {
                Self::FilterMetadata(after("experimental.")?)
            }
            _ if key.starts_with("request.headers") => Self::Header(after("request.headers")?),
            _ => Self::Claims(after("request.auth.claims")?),
        })
    }

    /// Whether it says what is asked for, rather than who asks.
    pub(super) fn is_permission(&self) -> bool {
        matches!(
            self,
            Self::Host
                | Self::Method
                | Self::Path
                | Self::DestinationIp
                | Self::DestinationPort
                | Self::ServerName
                | Self::FilterMetadata(_)
        )
    }

    /// Whether only requests have it.
    fn is_of_requests(&self) -> bool {
        matches!(
            self,
            Self::Host
                | Self::Method
                | Self::Path
                | Self::RequestPrincipal
                | Self::Audiences
                | Self::Presenter
                | Self::Header(_)
                | Self::Claims(_)
        )
    }

    pub(super) fn check(&self, tcp: bool) -> Result<(), Unfit> {
        match tcp && self.is_of_requests() {
            true => Err(Unfit::RequestsOnly(self.label())),
            false => Ok(()),
        }
    }

    /// What of requests it looks at, as it is written in policies.
    fn label(&self) -> String {
        match self {
            Self::Host => "hosts".to_owned(),
            Self::Method => "methods".to_owned(),
            Self::Path => "paths".to_owned(),
            Self::RequestPrincipal => "requestPrincipals".to_owned(),
            Self::Audiences => "request.auth.audiences".to_owned(),
            Self::Presenter => "request.auth.presenter".to_owned(),
            Self::Header(key) => format!("request.headers{key}"),
            Self::Claims(key) => format!("request.auth.claims{key}"),
            other => format!("{other:?}"),
        }
    }

    /// What is asked for has one of the values; values that make no sense are left to `unfit`.
    pub(super) fn permission(
        &self,
        values: &[String],
        unfit: &mut dyn FnMut(Unfit) -> Result<(), Unfit>,
    ) -> Result<Option<Permission>, Unfit> {
        if let Self::FilterMetadata(key) = self {
            return match filter_metadata(key, values) {
                Ok(rule) => Ok(Some(permission(rule))),
                Err(why) => unfit(why).map(|()| None),
            };
        }
        let mut rules = Vec::with_capacity(values.len());
        for value in values {
            match self.permission_rule(value) {
                Ok(rule) => rules.push(permission(rule)),
                Err(why) => unfit(why)?,
            }
        }
        Ok((!rules.is_empty()).then(|| permission(Rule::OrRules(permission::Set { rules }))))
    }

    fn permission_rule(&self, value: &str) -> Result<Rule, Unfit> {
        Ok(match self {
            Self::Host => Rule::Header(matcher::host(":authority", value)),
            Self::Method => Rule::Header(matcher::header(":method", value)),
            Self::Path => match matcher::path_template(value).map_err(Unfit::Invalid)? {
                Some(template) => Rule::UriTemplate(TypedExtensionConfig {
                    name: "uri-template".to_owned(),
                    typed_config: Some(any(&template)),
                }),
                None => Rule::UrlPath(matcher::path(value)),
            },
            Self::DestinationIp => Rule::DestinationIp(range(value)?),
            Self::DestinationPort => Rule::DestinationPort(port(value)?),
            Self::ServerName => Rule::RequestedServerName(matcher::text(value)),
            _ => return Err(Unfit::Invalid(format!("{self:?} is not asked for"))),
        })
    }

    /// Who asks has one of the values.
    pub(super) fn principal(
        &self,
        values: &[String],
        namespace: &str,
        unfit: &mut dyn FnMut(Unfit) -> Result<(), Unfit>,
    ) -> Result<Option<Principal>, Unfit> {
        let whole = match self {
            Self::RequestPrincipal => Some(Ok(request_principals(values))),
            Self::Audiences => Some(Ok(claim(&["aud"], values))),
            Self::Presenter => Some(Ok(claim(&["azp"], values))),
            Self::Claims(key) => Some(claim_path(key).map(|path| claim(&path, values))),
            _ => None,
        };
        match whole {
            Some(Ok(identifier)) => return Ok(Some(principal(identifier))),
            Some(Err(why)) => return unfit(why).map(|()| None),
            None => {}
        }
        let mut ids = Vec::with_capacity(values.len());
        for value in values {
            match self.identifier(value, namespace) {
                Ok(identifier) => ids.push(principal(identifier)),
                Err(why) => unfit(why)?,
            }
        }
        Ok((!ids.is_empty()).then(|| principal(Identifier::OrIds(principal::Set { ids }))))
    }

    fn identifier(&self, value: &str, namespace: &str) -> Result<Identifier, Unfit> {
        Ok(match self {
            Self::SourceIp => Identifier::DirectRemoteIp(range(value)?),
            Self::RemoteIp => Identifier::RemoteIp(range(value)?),
            Self::Namespace => {
                let parts: Vec<String> = value.split('*').map(quote).collect();
                authenticated(matcher::regex(format!(".*/ns/{}/.*", parts.join(".*"))))
            }
            Self::TrustDomain => authenticated(of_trust_domain(value)),
            Self::ServiceAccount => {
                authenticated(matcher::regex(service_account(namespace, value)))
            }
            Self::Principal => authenticated(matcher::prefixed(value, SPIFFE)),
            Self::Header(key) => {
                let name = name(key)?;
                if name.is_empty() {
                    return Err(Unfit::Invalid("a header without a name".to_owned()));
                }
                Identifier::Header(matcher::header(name, value))
            }
            _ => return Err(Unfit::Invalid(format!("{self:?} is nobody"))),
        })
    }
}

pub(super) fn permission(rule: Rule) -> Permission {
    Permission { rule: Some(rule) }
}

pub(super) fn principal(identifier: Identifier) -> Principal {
    Principal {
        identifier: Some(identifier),
    }
}

#[expect(
    deprecated,
    reason = "proxies of all supported versions read `metadata`"
)]
fn asked_metadata(of: MetadataMatcher) -> Rule {
    Rule::Metadata(of)
}

#[expect(
    deprecated,
    reason = "proxies of all supported versions read `metadata`"
)]
fn asking_metadata(of: MetadataMatcher) -> Identifier {
    Identifier::Metadata(of)
}

fn authenticated(name: StringMatcher) -> Identifier {
    Identifier::Authenticated(Authenticated {
        principal_name: Some(name),
    })
}

fn range(value: &str) -> Result<CidrRange, Unfit> {
    cidr_range(value).ok_or_else(|| Unfit::Invalid(format!("{value} is no address")))
}

fn port(value: &str) -> Result<u32, Unfit> {
    let digits = value.bytes().all(|b| b.is_ascii_digit());
    match value.parse::<u16>() {
        Ok(port) if digits => Ok(u32::from(port)),
        _ => Err(Unfit::Invalid(format!("{value} is no port"))),
    }
}

/// Metadata of a filter, by `filter[key]`. A value in brackets is one of a list.
fn filter_metadata(key: &str, values: &[String]) -> Result<Rule, Unfit> {
    let stated = key.strip_suffix(']').unwrap_or(key);
    let (filter, name) = stated
        .split_once('[')
        .filter(|(filter, name)| !filter.is_empty() && !name.is_empty())
        .ok_or_else(|| Unfit::Invalid(format!("{key} names no metadata")))?;
    let values = values.iter().map(|value| {
        if value.starts_with('[') && value.ends_with(']') {
            let inner = value.trim_matches(['[', ']']);
            matcher::list_value(matcher::string_value(matcher::text(inner)))
        } else {
            matcher::string_value(matcher::text(value))
        }
    });
    let any = matcher::any_value(values.collect());
    Ok(asked_metadata(matcher::metadata(filter, [name], any)))
}

fn of_trust_domain(value: &str) -> StringMatcher {
    if value == "*" {
        return matcher::prefix(SPIFFE);
    }
    match value.split_once('*') {
        None => matcher::prefix(format!("{SPIFFE}{value}/")),
        Some((start, end)) => {
            matcher::regex(format!("{SPIFFE}{}[^/]*{}/.*", quote(start), quote(end)))
        }
    }
}

/// An account, or `namespace/account`. Further pairs of names may stand in the identity around it.
fn service_account(namespace: &str, value: &str) -> String {
    let (namespace, account) = value.split_once('/').unwrap_or((namespace, value));
    format!(
        "{SPIFFE}.+/ns/{}/(.+/|)sa/{}(/.+)?",
        quote(namespace),
        quote(account)
    )
}

/// `issuer/subject`, either of which may have a wildcard at the outer end.
fn request_principals(values: &[String]) -> Identifier {
    let both = |value: &String| {
        let (issuer, subject) = request_principal(value);
        let ids = [("iss", issuer), ("sub", subject)]
            .map(|(claim, m)| principal(asking_metadata(matcher::claim(claim, m))));
        Identifier::AndIds(principal::Set { ids: ids.into() })
    };
    match values {
        [only] => both(only),
        _ => Identifier::OrIds(principal::Set {
            ids: values.iter().map(|v| principal(both(v))).collect(),
        }),
    }
}

fn request_principal(value: &str) -> (StringMatcher, StringMatcher) {
    if value == "*" {
        return (matcher::anything(), matcher::anything());
    }
    // The issuer may be a URL.
    let parts = value.rsplit_once('/');
    let some = |text: &str, make: fn(String) -> StringMatcher| match text {
        "*" => matcher::anything(),
        text => make(text.trim_matches('*').to_owned()),
    };
    if let Some(rest) = value.strip_prefix('*') {
        match parts {
            Some((issuer, subject)) => {
                let issuer = match issuer {
                    "*" => matcher::anything(),
                    issuer => matcher::suffix(issuer.strip_prefix('*').unwrap_or(issuer)),
                };
                (issuer, matcher::exact(subject))
            }
            None => (matcher::anything(), matcher::suffix(rest)),
        }
    } else if let Some(rest) = value.strip_suffix('*') {
        match parts {
            Some((issuer, subject)) => (matcher::exact(issuer), some(subject, matcher::prefix)),
            None => (matcher::prefix(rest), matcher::anything()),
        }
    } else {
        let (issuer, subject) = parts.unwrap_or((value, ""));
        (matcher::exact(issuer), matcher::exact(subject))
    }
}

fn claim(path: &[&str], values: &[String]) -> Identifier {
    asking_metadata(matcher::claim_or_list(path, matcher::any_text(values)))
}

/// The name in `[name]`.
fn name(key: &str) -> Result<&str, Unfit> {
    key.strip_prefix('[')
        .and_then(|k| k.strip_suffix(']'))
        .ok_or_else(|| Unfit::Invalid(format!("{key} is not of the form [name]")))
}

/// The path to a claim. Envoy refuses a listener with a name that is empty.
fn claim_path(key: &str) -> Result<Vec<&str>, Unfit> {
    let names = nested_names(key)?;
    if names.is_empty() || names.iter().any(|name| name.is_empty()) {
        return Err(Unfit::Invalid("a claim without a name".to_owned()));
    }
    Ok(names)
}

/// The names in `[outer][inner]`. What is not of that form is one name, brackets and all.
fn nested_names(key: &str) -> Result<Vec<&str>, Unfit> {
    let mut names = Vec::new();
    let mut rest = key;
    while !rest.is_empty() {
        let next = rest
            .strip_prefix('[')
            .and_then(|r| r.split_once(']'))
            .filter(|(name, _)| !name.contains('['));
        let Some((name_, after)) = next else {
            return Ok(vec![name(key)?]);
        };
        names.push(name_);
        rest = after;
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use prost::{Message, Name};
    use serde_json::Value;

    use super::*;
    use testkit::cases;

    const MODEL: &str = "authz-model";

    fn shown<M: Message + Name>(message: &M) -> Value {
        let mut json = descriptors::json::from_bytes(&M::type_url(), &message.encode_to_vec());
        json.as_object_mut().unwrap().remove("@type");
        json
    }

    fn text<'a>(value: &'a Value, key: &str) -> &'a str {
        value[key].as_str().unwrap()
    }

    #[test]
    fn accounts_are_those_of_the_recording() {
        for case in cases(MODEL, "model.serviceAccountRegex") {
            let input = &case["in"];
            let found = service_account(text(input, "defaultNamespace"), text(input, "value"));
            assert_eq!(Value::from(found), case["out"], "{case}");
        }
    }

    #[test]
    fn names_in_brackets_are_those_of_the_recording() {
        for case in cases(MODEL, "model.extractNameInNestedBrackets") {
            let found = nested_names(text(&case["in"], "s"));
            let wanted = case["out"][0].as_array().cloned();
            assert_eq!(found.is_ok(), case["out"][1].is_null(), "{case}");
            let found = found
                .ok()
                .map(|names| names.into_iter().map(Value::from).collect());
            assert_eq!(found, wanted, "{case}");
        }
        for case in cases(MODEL, "model.extractNameInBrackets") {
            let found = name(text(&case["in"], "s")).ok().map(Value::from);
            let wanted = Some(&case["out"][0]).filter(|_| case["out"][1].is_null());
            assert_eq!(found.as_ref(), wanted, "{case}");
        }
    }

    #[test]
    fn request_principals_are_those_of_the_recording() {
        for case in cases(MODEL, "model.requestPrincipalGenerator.extendedPrincipal") {
            if case["in"]["forTCP"] == true {
                continue;
            }
            let values: Vec<String> = serde_json::from_value(case["in"]["values"].clone()).unwrap();
            let found = shown(&principal(request_principals(&values)));
            assert_eq!(found, case["out"][0], "{case}");
        }
    }

    #[test]
    fn principals_are_those_of_the_recording() {
        let table = [
            (
                "model.srcNamespaceGenerator.principal",
                Attribute::Namespace,
            ),
            (
                "model.srcPrincipalGenerator.principal",
                Attribute::Principal,
            ),
            (
                "model.srcTrustDomainGenerator.principal",
                Attribute::TrustDomain,
            ),
            (
                "model.requestHeaderGenerator.principal",
                Attribute::Header("[x-foo]".to_owned()),
            ),
        ];
        for (function, attribute) in table {
            for case in cases(MODEL, function) {
                let found = attribute
                    .identifier(text(&case["in"], "value"), "")
                    .unwrap();
                let found = shown(&principal(found));
                // Waypoints know the peer from elsewhere; what is asked of it is the same.
                let wanted = match &case["out"][0]["filterState"]["stringMatch"] {
                    Value::Null => case["out"][0].clone(),
                    name => serde_json::json!({"authenticated": {"principalName": name}}),
                };
                assert_eq!(found, wanted, "{case}");
            }
        }
    }

    #[test]
    fn claims_are_those_of_the_recording() {
        for case in cases(MODEL, "model.MetadataMatcherForJWTClaims") {
            let claims: Vec<&str> = case["in"]["claims"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect();
            let value = &case["in"]["value"];
            let value = match value.as_object().and_then(|o| o.iter().next()) {
                Some((form, v)) if form == "exact" => matcher::exact(v.as_str().unwrap()),
                Some((form, v)) if form == "prefix" => matcher::prefix(v.as_str().unwrap()),
                Some((form, v)) if form == "suffix" => matcher::suffix(v.as_str().unwrap()),
                Some((_, v)) => matcher::regex(text(v, "regex")),
                None => panic!("{case}"),
            };
            let found = matcher::claim_or_list(&claims, matcher::string_value(value));
            assert_eq!(shown(&found), case["out"], "{case}");
        }
    }

    #[test]
    fn permissions_are_those_of_the_recording() {
        let table = [
            ("model.destIPGenerator.permission", Attribute::DestinationIp),
            (
                "model.destPortGenerator.permission",
                Attribute::DestinationPort,
            ),
            ("model.hostGenerator.permission", Attribute::Host),
            ("model.pathGenerator.permission", Attribute::Path),
        ];
        for (function, attribute) in table {
            for case in cases(MODEL, function) {
                let rule = attribute.permission_rule(text(&case["in"], "value"));
                assert_eq!(shown(&permission(rule.unwrap())), case["out"][0], "{case}");
            }
        }
        for case in cases(MODEL, "model.envoyFilterGenerator.permission") {
            let key = text(&case["in"], "key");
            let key = key.strip_prefix("experimental.").unwrap_or(key);
            let rule = filter_metadata(key, &[text(&case["in"], "value").to_owned()]);
            let found = rule.ok().map(|rule| shown(&permission(rule)));
            let wanted = Some(&case["out"][0]).filter(|_| case["out"][1].is_null());
            assert_eq!(found.as_ref(), wanted, "{case}");
        }
        for case in cases(MODEL, "model.convertToPort") {
            let found = port(text(&case["in"], "v")).ok().map(Value::from);
            let wanted = Some(&case["out"][0]).filter(|_| case["out"][1].is_null());
            assert_eq!(found.as_ref(), wanted, "{case}");
        }
    }
}
