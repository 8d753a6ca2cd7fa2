//! Any text as a regular expression, a URL, a value of a header and a host: no panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use validate::text;

fuzz_target!(|input: &str| {
    let _ = text::re2(input);
    let _ = text::re2_syntax(input);
    let _ = text::plugin_url(input);
    let _ = text::jwks_uri(input);
    let _ = text::header_value(input);
    let _ = text::wildcard_domain(input);
    let _ = text::host_of_gateway_route(true, input);
    let _ = text::namespaced_host(input, true, false);
    let _ = text::proxy_address(input);
    let _ = text::path_template(&[input.to_owned()]);
    let _ = text::attribute(input, &[]);
});
