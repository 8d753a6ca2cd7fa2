//! Directives that decide who may send requests.

use super::syntax::Directive;
use crate::variables;

/// Those that do whatever their arguments are.
const GUARDS: [&str; 18] = [
    "allow",
    "basicrule",
    "checkrule",
    "deniedurl",
    "deny",
    "include",
    "internal",
    "limit_except",
    "mainrule",
    "perl",
    "perl_set",
    "proxy_ssl_trusted_certificate",
    "proxy_ssl_verify",
    "satisfy",
    "ssl_client_certificate",
    "ssl_crl",
    "ssl_verify_client",
    "valid_referers",
];

/// Families of them.
const FAMILIES: [&str; 5] = ["auth_", "js_", "modsecurity", "secrule", "secure_link"];

/// Programs in Lua that only change answers.
const HARMLESS_LUA: [&str; 3] = ["body_filter_by_lua", "header_filter_by_lua", "log_by_lua"];

/// Variables by which requests are told apart that nobody is let in by.
const HARMLESS: [&str; 15] = [
    "args",
    "host",
    "http_host",
    "http_origin",
    "http_user_agent",
    "http_x_forwarded_proto",
    "https",
    "is_args",
    "query_string",
    "request_filename",
    "request_method",
    "request_uri",
    "scheme",
    "server_port",
    "uri",
];

/// The first directive that decides who may send requests, by a name that is fit for a message.
pub(super) fn first(directives: &[Directive]) -> Option<String> {
    // The conditions of the blocks that a directive stands in.
    let mut around: Vec<&Directive> = Vec::new();
    for directive in directives {
        around.truncate(directive.depth);
        if is_guard(&directive.name) || guards_by_answer(directive, &around) {
            return Some(directive.shown());
        }
        if directive.opens {
            around.push(directive);
        }
    }
    None
}

/// Whether a text that is not well formed has the name of such a directive in it, or refuses requests.
pub(super) fn mentions(text: &str) -> bool {
    let is_of_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut words = text
        .split(|c| !is_of_word(c))
        .filter(|word| !word.is_empty());
    words.any(|word| is_guard(word) || word == "return" || word == "rewrite")
}

fn is_guard(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let lua = name.contains("_by_lua")
        && !HARMLESS_LUA
            .iter()
            .any(|harmless| name.starts_with(harmless));
    lua || GUARDS.contains(&name.as_str()) || FAMILIES.iter().any(|family| name.starts_with(family))
}

/// Whether a directive answers some requests only: with an error, or with a redirect by who sends them.
fn guards_by_answer(directive: &Directive, around: &[&Directive]) -> bool {
    let answers = matches!(directive.name.as_str(), "return" | "rewrite");
    if !answers || around.is_empty() {
        return false;
    }
    if directive.name == "return" && !directive.returns_redirect() {
        return true;
    }
    let conditions = around.iter().flat_map(|block| &block.arguments);
    let mut variables = conditions.flat_map(|words| variables::names(words));
    variables.any(|name| !HARMLESS.contains(&name) && !name.starts_with("arg_"))
}
