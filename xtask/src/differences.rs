//! What `../shared/tools/conformance --diff` reports, held against the list of known differences.
//!
//! A line of the list names a whole scenario, where what it needs is not there yet, or one resource of it:
//! `SCENARIO NODE/TYPE RESOURCE`.

use std::collections::{BTreeMap, BTreeSet};

use known_differences::Known;

/// A report: the differences of each scenario that was run.
#[derive(Debug, PartialEq, Eq)]
struct Report {
    scenarios: BTreeMap<String, Scenario>,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Scenario {
    whole: bool,
    /// `NODE/TYPE RESOURCE`.
    differences: BTreeSet<String>,
}

/// What is wrong with a report, a line each.
///
/// # Errors
///
/// When the list cannot be read, or the report is not one of a finished run.
pub(crate) fn judge(list: &str, report: &str) -> anyhow::Result<Vec<String>> {
    let known = Known::parse(list).map_err(anyhow::Error::msg)?;
    let report = read(report)?;
    let mut found = BTreeSet::new();
    let mut wrong = Vec::new();
    for (name, scenario) in &report.scenarios {
        if scenario.whole {
            continue;
        }
        if known.reason(name).is_some() {
            found.insert(name.clone());
            continue;
        }
        if scenario.differences.is_empty() {
            wrong.push(format!("{name}: nothing was compared"));
        }
        let of_scenario = scenario.differences.iter();
        found.extend(of_scenario.map(|difference| format!("{name} {difference}")));
    }
    let ran = |case: &str| {
        let scenario = case.split(' ').next().unwrap_or_default();
        report.scenarios.contains_key(scenario)
    };
    wrong.extend(known.judge(&found, ran));
    Ok(wrong)
}

/// The scenarios that the list names and that are none of these.
///
/// # Errors
///
/// When the list cannot be read.
pub(crate) fn unknown(list: &str, scenarios: &BTreeSet<String>) -> anyhow::Result<Vec<String>> {
    let known = Known::parse(list).map_err(anyhow::Error::msg)?;
    let named = known.cases().filter_map(|case| case.split(' ').next());
    Ok(named
        .filter(|name| !scenarios.contains(*name))
        .map(|name| format!("{name} is listed, and there is no such scenario"))
        .collect())
}

fn read(text: &str) -> anyhow::Result<Report> {
    let mut scenarios = BTreeMap::new();
    let mut current: Option<String> = None;
    let mut finished = false;
    for line in text.lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some(mark @ ("ok" | "FAIL")) => {
                let Some(name) = words.nth(1) else {
                    anyhow::bail!("a scenario without a name: {line}");
                };
                let scenario = Scenario {
                    whole: mark == "ok",
                    ..Scenario::default()
                };
                scenarios.insert(name.to_owned(), scenario);
                current = Some(name.to_owned());
            }
            Some("-" | "+" | "~") => {
                let scenario = current.as_ref().and_then(|name| scenarios.get_mut(name));
                let (Some(scenario), Some(place)) = (scenario, words.next()) else {
                    anyhow::bail!("a difference of no scenario: {line}");
                };
                let Some(resource) = quoted(line) else {
                    anyhow::bail!("a difference of no resource: {line}");
                };
                scenario.differences.insert(format!("{place} {resource}"));
            }
            Some("TOTAL") if line.contains("scenarios whole:") => finished = true,
            _ => {}
        }
    }
    anyhow::ensure!(finished, "the report is not of a finished run");
    anyhow::ensure!(!scenarios.is_empty(), "no scenario was run");
    Ok(Report { scenarios })
}

/// The first text in quotes, as it stands there.
fn quoted(line: &str) -> Option<&str> {
    let start = line.find('"')? + 1;
    let mut escaped = false;
    let end = line[start..].find(|c| match c {
        '"' if !escaped => true,
        _ => {
            escaped = c == '\\' && !escaped;
            false
        }
    })?;
    Some(&line[start..start + end])
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "\
ok      30/30    one
-- by type
TOTAL                          30/30     100.00%
FAIL     1/3     two
- web/clusters \"outbound|80||a\" is missing
~ web/routes \"80\" virtual_hosts[0].name: a, b
~ web/routes \"80\" virtual_hosts[1].name: a, b
TOTAL                          1/3
FAIL     0/9     three  server not ready after 20 s
- web/clusters \"x\" is missing
TOTAL 80.00%  scenarios whole: 1/3
";

    fn judged(list: &str, report: &str) -> Vec<String> {
        judge(list, report).unwrap()
    }

    #[test]
    fn what_is_listed_may_differ_and_must() {
        let list = "reason\n  two web/clusters outbound|80||a\n  two web/routes 80\nnot there yet\n  three\n";
        assert_eq!(judged(list, REPORT), [""; 0]);
        let fewer = list.replace("  two web/routes 80\n", "");
        assert_eq!(
            judged(&fewer, REPORT),
            ["differs and is not listed: two web/routes 80"]
        );
        let whole = judged(&format!("{list}  one\n"), REPORT);
        assert!(whole[0].ends_with("take it off the list: one"), "{whole:?}");
        let equal = judged(&format!("{list}  two web/listeners a\n"), REPORT);
        assert_eq!(equal.len(), 1);
        // A scenario that was not run may still differ.
        assert_eq!(judged(&format!("{list}  four\n"), REPORT), [""; 0]);
    }

    #[test]
    fn a_run_that_compared_nothing_or_did_not_end_is_a_fault() {
        let report = "FAIL     0/0     two  server exited with 1\nTOTAL -   scenarios whole: 0/1\n";
        assert_eq!(judged("", report), ["two: nothing was compared"]);
        assert!(judge("", "ok      30/30    one\n").is_err());
        assert!(judge("", "TOTAL -   scenarios whole: 0/0\n").is_err());
    }

    #[test]
    fn a_listed_scenario_has_to_be_there() {
        let there = BTreeSet::from(["two".to_owned()]);
        let list = "reason\n  two web/routes 80\n  gone\n";
        assert_eq!(unknown(list, &there).unwrap().len(), 1);
    }

    #[test]
    fn names_in_quotes_may_hold_quotes() {
        assert_eq!(quoted(r#"- a/b "x \" y" is missing"#), Some(r#"x \" y"#));
    }
}
