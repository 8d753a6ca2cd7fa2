//! What is said to be asked, of filters as proxies have them.

use prost_types::Value;
use proto_envoy::envoy::config::core::v3::{HttpUri, Metadata};
use proto_envoy::envoy::config::rbac::v3::{Permission, Policy, Principal};
use proto_envoy::envoy::config::rbac::v3::{permission, principal};
use proto_envoy::envoy::extensions::filters::http::lua::v3::Lua;
use proto_envoy::envoy::r#type::matcher::v3::string_matcher::MatchPattern as Text;
use proto_envoy::envoy::r#type::matcher::v3::{StringMatcher, ValueMatcher};
use xds::any;

use super::*;

fn filter(name: &str, config: Any) -> HttpFilter {
    HttpFilter {
        name: name.to_owned(),
        config_type: Some(http_filter::ConfigType::TypedConfig(config)),
        ..HttpFilter::default()
    }
}

fn asked(filters: Vec<HttpFilter>, route: Option<&Route>, call: &Call) -> Vec<(String, String)> {
    let manager = HttpConnectionManager {
        http_filters: filters,
        ..HttpConnectionManager::default()
    };
    let asked = of_request(&manager, &[], route, call);
    asked.into_iter().map(|a| (a.what, a.assumed)).collect()
}

fn with_header(value: &str) -> Call {
    Call {
        headers: vec![("authorization".to_owned(), value.to_owned())],
        port: 80,
        ..Call::default()
    }
}

#[test]
fn a_password_is_asked_for_and_taken_to_be_right() {
    let filters = || vec![filter("users", any(&BasicAuth::default()))];
    assert_eq!(
        asked(filters(), None, &Call::default()),
        [(
            format!("{PASSWORD} are asked for"),
            NO_CREDENTIALS.to_owned()
        )]
    );
    let (_, assumed) = asked(filters(), None, &with_header("Basic YTpi")).remove(0);
    assert_eq!(assumed, "those of the request are taken to be right");
    let off = vec![HttpFilter {
        disabled: true,
        ..filters().remove(0)
    }];
    assert!(asked(off, None, &Call::default()).is_empty());
}

#[test]
fn a_token_may_be_missing_where_that_is_said() {
    use jwt::jwt_requirement::RequiresType;
    let filters = |requires: Vec<RequiresType>| {
        let requirements = requires.into_iter().map(|requires| jwt::JwtRequirement {
            requires_type: Some(requires),
        });
        let list = jwt::JwtRequirementOrList {
            requirements: requirements.collect(),
        };
        let wanted = jwt::JwtRequirement {
            requires_type: Some(RequiresType::RequiresAny(list)),
        };
        let provider = jwt::JwtProvider {
            issuer: "https://issuer.test".to_owned(),
            ..jwt::JwtProvider::default()
        };
        let config = jwt::JwtAuthentication {
            providers: [("p".to_owned(), provider)].into(),
            rules: vec![jwt::RequirementRule {
                requirement_type: Some(jwt::requirement_rule::RequirementType::Requires(wanted)),
                ..jwt::RequirementRule::default()
            }],
            ..jwt::JwtAuthentication::default()
        };
        vec![filter("jwt", any(&config))]
    };
    let named = || RequiresType::ProviderName("p".to_owned());
    let optional = || vec![named(), RequiresType::AllowMissing(())];
    let told = |assumed: &str| {
        [(
            "a token (JWT) of https://issuer.test is asked for".to_owned(),
            assumed.to_owned(),
        )]
    };
    let (none, bearer) = (Call::default(), with_header("Bearer a.b.c"));
    assert_eq!(
        asked(filters(optional()), None, &none),
        told("the request has none, and this filter lets it pass")
    );
    assert_eq!(
        asked(filters(vec![named()]), None, &none),
        told(NO_CREDENTIALS)
    );
    assert_eq!(
        asked(filters(optional()), None, &bearer),
        told("that of the request is taken to be good")
    );
}

#[test]
fn a_service_is_asked_about_what_its_policies_take() {
    let policy = Policy {
        permissions: vec![Permission {
            rule: Some(permission::Rule::DestinationPort(80)),
        }],
        principals: vec![Principal {
            identifier: Some(principal::Identifier::Any(true)),
        }],
        ..Policy::default()
    };
    let shadow = HttpRbac {
        shadow_rules: Some(Rbac {
            policies: [("istio-ext-authz-mine-rule".to_owned(), policy)].into(),
            ..Rbac::default()
        }),
        ..HttpRbac::default()
    };
    let wanted = StringMatcher {
        match_pattern: Some(Text::Prefix("istio-ext-authz-mine".to_owned())),
        ..StringMatcher::default()
    };
    let ask = http::ExtAuthz {
        services: Some(http::ext_authz::Services::HttpService(http::HttpService {
            server_uri: Some(HttpUri {
                http_upstream_type: Some(http_uri::HttpUpstreamType::Cluster(
                    "outbound|80||auth.test".to_owned(),
                )),
                ..HttpUri::default()
            }),
            ..http::HttpService::default()
        })),
        filter_enabled_metadata: Some(MetadataMatcher {
            value: Some(ValueMatcher {
                match_pattern: Some(MatchPattern::StringMatch(wanted)),
            }),
            ..MetadataMatcher::default()
        }),
        ..http::ExtAuthz::default()
    };
    let filters = || vec![filter("rbac", any(&shadow)), filter("ask", any(&ask))];
    let told = (
        "outbound|80||auth.test is asked whether the request may pass".to_owned(),
        "it is taken to say yes".to_owned(),
    );
    assert_eq!(asked(filters(), None, &with_header("x")), [told]);
    let other = Call {
        port: 81,
        ..Call::default()
    };
    assert!(asked(filters(), None, &other).is_empty());
}

#[test]
fn what_the_script_of_a_route_asks_is_told() {
    let value = |kind| Value { kind: Some(kind) };
    let text = |text: &str| value(Kind::StringValue(text.to_owned()));
    let route = |any_is_enough: bool| {
        let external = Struct {
            fields: [
                ("cluster".to_owned(), text("outbound|80||auth.test")),
                ("authority".to_owned(), text("auth.test")),
                ("path".to_owned(), text("/check")),
            ]
            .into(),
        };
        let access = Struct {
            fields: [
                ("users".to_owned(), text("hidden")),
                ("external".to_owned(), value(Kind::StructValue(external))),
                ("any".to_owned(), value(Kind::BoolValue(any_is_enough))),
            ]
            .into(),
        };
        let said = Struct {
            fields: [("access".to_owned(), value(Kind::StructValue(access)))].into(),
        };
        Route {
            metadata: Some(Metadata {
                filter_metadata: [(SCRIPT.to_owned(), said)].into(),
                ..Metadata::default()
            }),
            ..Route::default()
        }
    };
    let asked_of = |route: &Route| {
        let filters = vec![filter(SCRIPT, any(&Lua::default()))];
        let asked = asked(filters, Some(route), &Call::default()).into_iter();
        asked.map(|(what, _)| what).collect::<Vec<_>>()
    };
    let service = "outbound|80||auth.test (auth.test/check)";
    assert_eq!(
        asked_of(&route(false)),
        [
            format!("{PASSWORD} are asked for"),
            format!("{service} is asked whether the request may pass")
        ]
    );
    assert_eq!(
        asked_of(&route(true)),
        [format!(
            "any of these is enough: {PASSWORD}, the word of {service}"
        )]
    );
    assert_eq!(asked_of(&Route::default()), [""; 0]);
}
