//! Texts of policies, with their wildcards, as matchers.
//!
//! Istio: pilot/pkg/security/authz/matcher, 1.32.

use model::re2::quote;
use proto_envoy::envoy::config::route::v3::{HeaderMatcher, header_matcher};
use proto_envoy::envoy::extensions::path::r#match::uri_template::v3::UriTemplateMatchConfig;
use proto_envoy::envoy::r#type::matcher::v3::{
    ListMatcher, MetadataMatcher, OrMatcher, PathMatcher, RegexMatcher, StringMatcher,
    ValueMatcher, list_matcher, metadata_matcher, path_matcher, string_matcher, value_matcher,
};
use string_matcher::MatchPattern;

/// Where the JWT filter leaves what it found.
const JWT_FILTER: &str = "envoy.filters.http.jwt_authn";
/// The key of the claims there.
pub(super) const JWT_PAYLOAD: &str = "payload";

fn string(pattern: MatchPattern) -> StringMatcher {
    StringMatcher {
        match_pattern: Some(pattern),
        ..Default::default()
    }
}

pub(super) fn exact(text: impl Into<String>) -> StringMatcher {
    string(MatchPattern::Exact(text.into()))
}

pub(super) fn prefix(text: impl Into<String>) -> StringMatcher {
    string(MatchPattern::Prefix(text.into()))
}

pub(super) fn suffix(text: impl Into<String>) -> StringMatcher {
    string(MatchPattern::Suffix(text.into()))
}

pub(super) fn regex(regex: impl Into<String>) -> StringMatcher {
    string(MatchPattern::SafeRegex(RegexMatcher {
        regex: regex.into(),
        ..Default::default()
    }))
}

/// Anything that is not empty.
pub(super) fn anything() -> StringMatcher {
    regex(".+")
}

/// A text with a wildcard at its start or end.
pub(super) fn text(stated: &str) -> StringMatcher {
    prefixed(stated, "")
}

/// The same, of texts that all start alike. `*` alone is anything.
pub(super) fn prefixed(stated: &str, start: &str) -> StringMatcher {
    // Envoy refuses empty prefixes and suffixes.
    if stated == "*" {
        return anything();
    }
    match (stated.strip_prefix('*'), stated.strip_suffix('*')) {
        (Some(end), _) if start.is_empty() => suffix(end),
        (Some(end), _) => regex(format!("{start}.*{}", quote(end))),
        (None, Some(begin)) => prefix(format!("{start}{begin}")),
        (None, None) => exact(format!("{start}{stated}")),
    }
}

/// A header with that value.
pub(super) fn header(name: &str, stated: &str) -> HeaderMatcher {
    header_of(name, stated, false)
}

/// A host, whose case does not matter.
pub(super) fn host(name: &str, stated: &str) -> HeaderMatcher {
    header_of(name, stated, true)
}

fn header_of(name: &str, stated: &str, ignore_case: bool) -> HeaderMatcher {
    use header_matcher::HeaderMatchSpecifier;
    let specifier = if stated == "*" {
        HeaderMatchSpecifier::PresentMatch(true)
    } else {
        HeaderMatchSpecifier::StringMatch(StringMatcher {
            ignore_case,
            ..text(stated)
        })
    };
    HeaderMatcher {
        name: name.to_owned(),
        header_match_specifier: Some(specifier),
        ..Default::default()
    }
}

pub(super) fn path(stated: &str) -> PathMatcher {
    PathMatcher {
        rule: Some(path_matcher::Rule::Path(text(stated))),
    }
}

const ONE_SEGMENT: &str = "{*}";
const ANY_SEGMENTS: &str = "{**}";

/// A path with `{*}` for one segment or `{**}` for several; `None` where it has neither.
///
/// # Errors
///
/// Where braces stand for something else, or where Envoy would refuse the template and with it the whole listener. As
/// pkg/config/security/security.go CheckValidPathTemplate, 1.32.
pub(super) fn path_template(stated: &str) -> Result<Option<UriTemplateMatchConfig>, String> {
    let template = stated.contains(ONE_SEGMENT) || stated.contains(ANY_SEGMENTS);
    let mut last = false;
    for segment in stated.trim_matches('/').split('/') {
        if segment == ONE_SEGMENT || segment == ANY_SEGMENTS {
            if last {
                return Err(format!("{stated}: {ANY_SEGMENTS} is not the last operator"));
            }
            last = segment == ANY_SEGMENTS;
        } else if segment.contains(['{', '}']) {
            return Err(format!(
                "{stated}: braces stand for {ONE_SEGMENT} and {ANY_SEGMENTS} only, between slashes"
            ));
        } else if template && !is_literal(segment) {
            return Err(format!("{stated}: {segment:?} is no segment of a path"));
        }
    }
    Ok(template.then(|| UriTemplateMatchConfig {
        path_template: stated.replace(ONE_SEGMENT, "*").replace(ANY_SEGMENTS, "**"),
    }))
}

/// Characters of a path's segment, RFC 3986 appendix A.
fn is_literal(segment: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-._~%!$&'()+,;:@=".contains(c);
    !segment.is_empty() && segment.chars().all(fits)
}

pub(super) fn string_value(matcher: StringMatcher) -> ValueMatcher {
    value(value_matcher::MatchPattern::StringMatch(matcher))
}

fn value(pattern: value_matcher::MatchPattern) -> ValueMatcher {
    ValueMatcher {
        match_pattern: Some(pattern),
    }
}

/// A list that holds such a value.
pub(super) fn list_value(of: ValueMatcher) -> ValueMatcher {
    value(value_matcher::MatchPattern::ListMatch(Box::new(
        ListMatcher {
            match_pattern: Some(list_matcher::MatchPattern::OneOf(Box::new(of))),
        },
    )))
}

/// One of several; the one itself where it is alone.
pub(super) fn any_value(mut values: Vec<ValueMatcher>) -> ValueMatcher {
    if values.len() == 1
        && let Some(only) = values.pop()
    {
        return only;
    }
    value(value_matcher::MatchPattern::OrMatch(OrMatcher {
        value_matchers: values,
    }))
}

/// One of several texts.
pub(super) fn any_text(stated: &[String]) -> ValueMatcher {
    any_value(stated.iter().map(|s| string_value(text(s))).collect())
}

/// Metadata that a filter leaves under keys.
pub(super) fn metadata<'a>(
    filter: &str,
    keys: impl IntoIterator<Item = &'a str>,
    value: ValueMatcher,
) -> MetadataMatcher {
    use metadata_matcher::{PathSegment, path_segment};
    MetadataMatcher {
        filter: filter.to_owned(),
        path: keys
            .into_iter()
            .map(|key| PathSegment {
                segment: Some(path_segment::Segment::Key(key.to_owned())),
            })
            .collect(),
        value: Some(value),
        ..Default::default()
    }
}

/// A claim that is a text.
pub(super) fn claim(name: &str, matcher: StringMatcher) -> MetadataMatcher {
    metadata(JWT_FILTER, [JWT_PAYLOAD, name], string_value(matcher))
}

/// A claim, possibly inside others, that is such a value or a list with one.
pub(super) fn claim_or_list(path: &[&str], value: ValueMatcher) -> MetadataMatcher {
    let keys = std::iter::once(JWT_PAYLOAD).chain(path.iter().copied());
    let either = any_value(vec![list_value(value.clone()), value]);
    metadata(JWT_FILTER, keys, either)
}

#[cfg(test)]
mod tests {
    use prost::{Message, Name};
    use serde_json::Value;

    use super::*;
    use testkit::cases;

    fn shown<M: Message + Name>(message: &M) -> Value {
        let mut json = descriptors::json::from_bytes(&M::type_url(), &message.encode_to_vec());
        json.as_object_mut().unwrap().remove("@type");
        json
    }

    fn check<M: Message + Name>(function: &str, build: impl Fn(&Value) -> M) {
        for case in cases("authz-matcher", function) {
            assert_eq!(shown(&build(&case["in"])), case["out"], "{case}");
        }
    }

    fn of<'a>(value: &'a Value, key: &str) -> &'a str {
        value[key].as_str().unwrap()
    }

    #[test]
    fn matchers_are_those_of_the_recording() {
        check("matcher.HeaderMatcher", |i| header(of(i, "k"), of(i, "v")));
        check("matcher.HostMatcher", |i| host(of(i, "k"), of(i, "v")));
        check("matcher.PathMatcher", |i| path(of(i, "path")));
        check("matcher.PathTemplateMatcher", |i| {
            let found = path_template(of(i, "path")).unwrap();
            found.unwrap_or(UriTemplateMatchConfig {
                path_template: of(i, "path").to_owned(),
            })
        });
        check("matcher.StringMatcher", |i| text(of(i, "v")));
        let cased = |matcher: StringMatcher, input: &Value| StringMatcher {
            ignore_case: input["ignoreCase"] == true,
            ..matcher
        };
        check("matcher.StringMatcherExact", |i| {
            cased(exact(of(i, "exact")), i)
        });
        check("matcher.StringMatcherPrefix", |i| {
            cased(prefix(of(i, "prefix")), i)
        });
        check("matcher.StringMatcherSuffix", |i| {
            cased(suffix(of(i, "suffix")), i)
        });
        check("matcher.MetadataStringMatcher", |i| {
            let value = string_value(exact(of(&i["m"], "exact")));
            metadata(of(i, "filter"), [of(i, "key")], value)
        });
        check("matcher.MetadataListMatcher", |i| {
            let keys: Vec<&str> = i["keys"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect();
            let value = string_value(regex(of(&i["value"]["safeRegex"], "regex")));
            metadata(of(i, "filter"), keys, list_value(value))
        });
        check("matcher.StringMatcherRegex", |i| regex(of(i, "regex")));
        check("matcher.StringMatcherWithPrefix", |i| {
            prefixed(of(i, "v"), of(i, "prefix"))
        });
    }
}
