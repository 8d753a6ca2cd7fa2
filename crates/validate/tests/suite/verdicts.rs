//! What is checked here is what Envoys check: tables of verdicts of real ones (`tests/verdicts`), which
//! `crates/demo/tests/envoy/verdicts.rs` asks for again.
//!
//! What passes here must pass in every version. What all versions take must pass as well, but for what is listed.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use pilothouse_validate::{cel, text};

/// Compares the verdicts of a table with a check. `stricter` lists what is refused on purpose.
fn compare(table: &str, check: impl Fn(&str) -> text::Check, stricter: &[&str]) {
    let mut faults = Vec::new();
    let mut count = 0;
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let mut columns = line.splitn(3, ' ');
        let verdicts = [columns.next().unwrap(), columns.next().unwrap()];
        let item: String = serde_json::from_str(columns.next().unwrap()).unwrap();
        let all_take_it = verdicts == ["yes", "yes"];
        let found = check(&item);
        let is_listed = stricter.contains(&item.as_str());
        count += 1;
        match (all_take_it, &found) {
            (true, Err(_)) if is_listed => {}
            (true, Ok(())) | (false, Err(_)) if !is_listed => {}
            _ => faults.push(format!("{verdicts:?} {item:?}: {found:?}")),
        }
    }
    assert!(count > 20, "the table is empty");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn regular_expressions_are_judged_as_by_envoys() {
    // Close to the limit, where the estimate is above what RE2 makes of it; and a name that istiod refuses twice.
    let stricter = [
        "(ak|al|am|an|ao|ap|aq|ar|as|at|au|av|aw|ax|ay|az){1000}",
        "([^é]){1000}",
        "(?i)\\W{1000}",
        "(?P<a>b)(?P<a>c)",
    ];
    compare(include_str!("../verdicts/regex.txt"), text::re2, &stricter);
}

#[test]
fn values_of_headers_are_judged_as_by_envoys() {
    // What no header can hold, what is the proxy's, and keys that are too odd to be meant.
    let stricter = [
        "\u{1}",
        "\u{7f}",
        "%ENVIRONMENT(PATH)%",
        "%PER_REQUEST_STATE(a:FIELD:x)%",
        "%PER_REQUEST_STATE(a:FIELD)%",
    ];
    let table = include_str!("../verdicts/header-values.txt");
    compare(table, text::header_value, &stricter);
}

#[test]
fn names_of_headers_are_judged_as_by_envoys() {
    // Envoy adds and removes what is not a token of HTTP as well.
    let stricter = [
        "a b", "é", "a:b", "x\u{7f}", "a\tb", "a,b", "\"a\"", "a(b", " a", "a ", "x-é",
    ];
    let table = include_str!("../verdicts/header-names.txt");
    compare(table, text::header_name_to_remove, &stricter);
}

#[test]
fn expressions_are_judged_as_by_envoys() {
    // Regular expressions are judged as in routes; messages, undocumented functions and numbers that overflow are not taken.
    let stricter = [
        "request.path.matches('\\\\x{100}')",
        "google.protobuf.Timestamp{seconds: 1} < request.time",
        "google.protobuf.Duration{seconds: 1} == a",
        "re.extract('a','b','c')==''",
        "1e400 == 1.0",
    ];
    let table = include_str!("../verdicts/expressions.txt");
    compare(table, cel::envoy::check, &stricter);
}
