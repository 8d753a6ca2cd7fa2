//! Any path, query and body: what a request means is read once and is written in one way, so that authorization, audit and
//! handlers cannot understand it differently.
#![no_main]

use apiserver::access::{Verb, Who};
use apiserver::api::{Query, Request, Target};
use http::Method;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, &str, &[u8])| {
    let (method, uri, body) = input;
    let method = match method % 6 {
        0 => Method::GET,
        1 => Method::POST,
        2 => Method::PUT,
        3 => Method::PATCH,
        4 => Method::DELETE,
        _ => Method::HEAD,
    };
    let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
    let request =
        Request::new(method, uri, Who::local()).with_body("application/json", body.to_vec());
    assert_eq!(request.target, Target::parse(path));
    let reads = matches!(request.method, Method::GET | Method::HEAD);
    if let Ok(target) = &request.target {
        // Another way to write it that is taken means the same, and is told as the same.
        if let Some(written) = target.path() {
            let again = Target::parse(&written).expect("what is written can be read");
            assert_eq!(&again, target);
            assert_eq!(again.path().as_deref(), Some(&*written));
            assert!(
                !written.contains("//") && !written.contains("/./") && !written.contains("/../")
            );
        }
        if let Target::Object(object) = target {
            let parts = [&object.namespace, &object.name, &object.subresource];
            for part in parts
                .into_iter()
                .flatten()
                .chain([&object.plural, &object.version])
            {
                assert!(!part.is_empty() && !part.contains(['/', '\0']), "{path}");
            }
        }
    }
    if let Some(Ok(verb)) = request.verb() {
        assert_eq!(reads, matches!(verb, Verb::Get | Verb::List | Verb::Watch));
    }
    // Only one word makes a dry run, and no other is passed over.
    let said = Query::parse(query);
    let said: Vec<&str> = said.all("dryRun").collect();
    match request.dry_run() {
        Ok(false) => assert!(reads || said.is_empty()),
        Ok(true) => assert!(!reads && said.iter().all(|value| *value == "All")),
        Err(failure) => assert!(failure.code.is_client_error()),
    }
});
