//! Directives that may be left out: those of which it is known that they decide about nobody's access.
//!
//! nginx and its modules have hundreds of directives, and a module that is not known here may protect what it stands in. So
//! the list is of those that are harmless; everything else closes the routes.

use super::syntax::Directive;
use crate::variables;

/// Directives that change how answers look, how long things may take, what is buffered and what is logged.
const HARMLESS: [&str; 58] = [
    "absolute_redirect",
    "access_log",
    "add_header",
    "add_trailer",
    "charset",
    "chunked_transfer_encoding",
    "client_body_buffer_size",
    "client_body_timeout",
    "client_header_buffer_size",
    "client_header_timeout",
    "default_type",
    "error_log",
    "etag",
    "expires",
    "keepalive_requests",
    "keepalive_time",
    "keepalive_timeout",
    "large_client_header_buffers",
    "log_format",
    "log_not_found",
    "log_subrequest",
    "lua_package_path",
    "lua_shared_dict",
    "merge_slashes",
    "more_clear_headers",
    "more_set_headers",
    "output_buffers",
    "port_in_redirect",
    "postpone_output",
    "proxy_bind",
    "proxy_force_ranges",
    "proxy_headers_hash_bucket_size",
    "proxy_headers_hash_max_size",
    "proxy_hide_header",
    "proxy_http_version",
    "proxy_ignore_client_abort",
    "proxy_max_temp_file_size",
    "proxy_pass_header",
    "proxy_redirect",
    "proxy_request_buffering",
    "proxy_send_lowat",
    "proxy_socket_keepalive",
    "proxy_temp_file_write_size",
    "reset_timedout_connection",
    "resolver",
    "resolver_timeout",
    "rewrite_log",
    "send_timeout",
    "sendfile",
    "server_name_in_redirect",
    "server_tokens",
    "ssl_buffer_size",
    "tcp_nodelay",
    "tcp_nopush",
    "types_hash_max_size",
    "variables_hash_bucket_size",
    "variables_hash_max_size",
    "xslt_last_modified",
];

/// Families of them.
const FAMILIES: [&str; 13] = [
    "brotli",
    "gunzip",
    "gzip",
    "http2_",
    "opentelemetry",
    "opentracing",
    "proxy_buffer",
    "proxy_cookie_",
    "proxy_next_upstream",
    "ssl_session_",
    "ssl_stapling",
    "sub_filter",
    "zstd",
];

/// Those with the name of what they limit in time.
const TIMEOUTS: [&str; 3] = [
    "proxy_connect_timeout",
    "proxy_read_timeout",
    "proxy_send_timeout",
];

/// Blocks that only define variables, which decide nothing until something reads them.
const DEFINITIONS: [&str; 3] = ["geo", "map", "split_clients"];

/// Variables by which a redirect tells requests apart without keeping anybody out: the host and whether it is over TLS.
const OF_SITES: [&str; 7] = [
    "host",
    "http_host",
    "http_x_forwarded_proto",
    "https",
    "pass_access_scheme",
    "scheme",
    "server_port",
];

/// Whether a directive that has no equal may be left out. `around` are the blocks that it stands in.
pub(super) fn is_harmless(directive: &Directive, around: &[&Directive]) -> bool {
    let name = directive.name.to_ascii_lowercase();
    let name = name.as_str();
    if around.iter().any(|block| is_definition(block)) || is_definition(directive) {
        return true;
    }
    match (name, directive.opens) {
        ("if", true) => true,
        (_, true) => false,
        ("return", false) => answers_harmlessly(directive, around),
        ("set", false) => sets_its_own(directive),
        ("break", false) => around.is_empty(),
        (name, false) => {
            HARMLESS.contains(&name)
                || TIMEOUTS.contains(&name)
                || FAMILIES.iter().any(|family| name.starts_with(family))
        }
    }
}

fn is_definition(block: &Directive) -> bool {
    block.opens && DEFINITIONS.contains(&block.name.to_ascii_lowercase().as_str())
}

/// Whether an answer under conditions keeps nobody out: one that moves a site, or that answers preflights.
fn answers_harmlessly(directive: &Directive, around: &[&Directive]) -> bool {
    let conditions = || around.iter().flat_map(|block| &block.arguments);
    let mut read = conditions()
        .flat_map(|words| variables::names(words))
        .peekable();
    if read.peek().is_none() {
        return false;
    }
    let moves = directive.returns_to_url() && read.all(|name| OF_SITES.contains(&name));
    let words: Vec<&str> = conditions()
        .map(|word| word.trim_matches(['(', ')']))
        .collect();
    let preflight = matches!(words.as_slice(), ["$request_method", "=", "OPTIONS"]);
    moves
        || preflight
            && matches!(
                directive.arguments.first().map(String::as_str),
                Some("200" | "204")
            )
}

/// Whether a variable is one that nothing else reads: those of ingress-nginx say where a request goes.
fn sets_its_own(directive: &Directive) -> bool {
    let name = directive.arguments.first().map_or("", String::as_str);
    let name = name.trim_start_matches(['$', '{']);
    ![
        "auth",
        "limit_rate",
        "namespace",
        "pass_",
        "proxy_",
        "service_",
    ]
    .iter()
    .any(|known| name.starts_with(known))
}
