//! Lines of what a server says, each with what follows from it.

use super::*;
use crate::report::Report;

/// `list A B`, `answer A 10.0.0.1 ...`, `push A 10.0.0.1 ...`, `refuse A`; a service is `group/name`, an address `!` is an
/// instance of a McpBridge.
fn run(lines: &[(&str, &str)]) {
    let (mut catalog, mut out) = (Catalog::new("n_s".into()), Outbox::default());
    for (number, (line, wanted)) in lines.iter().enumerate() {
        let mut words = line.split_whitespace();
        let verb = words.next().unwrap();
        let mut said: Vec<String> = Vec::new();
        if verb == "list" {
            let found = words.map(key).collect();
            let plan = catalog.listed(&found, &mut out);
            said.extend(
                plan.follow
                    .iter()
                    .map(|k| format!("+{}/{}", k.group, k.service)),
            );
            said.extend(
                plan.leave
                    .iter()
                    .map(|k| format!("-{}/{}", k.group, k.service)),
            );
            said.extend(plan.again.then(|| "again".to_owned()));
        } else {
            let key = key(words.next().unwrap());
            let instances = words.map(instance).collect();
            match verb {
                "answer" => catalog.answered(&key, instances, &mut out),
                "push" => catalog.pushed(&key, instances, &mut out),
                "refuse" => catalog.refused(&key, &mut out),
                _ => panic!("no such verb: {verb}"),
            }
        }
        said.extend(std::iter::from_fn(|| out.pop()).map(|report| match report {
            Report::Service(name, instances) => {
                let addresses: Vec<&str> = instances.iter().map(|i| &*i.address).collect();
                format!("{name}=[{}]", addresses.join(","))
            }
            Report::Whole(names) => {
                let names: Vec<&str> = names.iter().map(|n| &**n).collect();
                format!("whole[{}]", names.join(","))
            }
            Report::Lost(why) => format!("lost {why}"),
        }));
        assert_eq!(said.join(" "), *wanted, "line {number}: {line}");
        let asked = catalog
            .entries
            .values()
            .filter(|e| e.standing == Standing::Asked);
        assert_eq!(catalog.asked, asked.count());
    }
}

fn key(word: &str) -> Key {
    let (group, service) = word.split_once('/').unwrap();
    Key {
        group: group.into(),
        service: service.into(),
    }
}

fn instance(address: &str) -> Instance {
    let resource = ("register-resource".into(), "mcp-bridge".into());
    Instance {
        address: address.into(),
        port: 80,
        protocol: None,
        weight: 1.0,
        healthy: true,
        metadata: (address == "!").then_some(resource).into_iter().collect(),
    }
}

#[test]
fn everything_is_told_then_what_there_is_then_each_change() {
    run(&[
        ("list g/a g/b", "+g/a +g/b again"),
        ("answer g/a 1", "a.g.n-s.nacos=[1]"),
        ("list g/a g/b", ""),
        (
            "answer g/b",
            "b.g.n-s.nacos=[] whole[a.g.n-s.nacos,b.g.n-s.nacos]",
        ),
        ("push g/a 1 2", "a.g.n-s.nacos=[1,2]"),
        ("push g/a", "a.g.n-s.nacos=[]"),
        ("list g/a g/b", ""),
    ]);
}

#[test]
fn nothing_there_is_said_after_two_lists() {
    run(&[("list", "again"), ("list", "whole[]"), ("list", "")]);
}

#[test]
fn a_service_is_gone_when_two_lists_in_a_row_do_not_have_it() {
    run(&[
        ("list g/a g/b", "+g/a +g/b again"),
        ("list g/a", "again"),
        ("answer g/a 1", "a.g.n-s.nacos=[1]"),
        (
            "answer g/b 1",
            "b.g.n-s.nacos=[1] whole[a.g.n-s.nacos,b.g.n-s.nacos]",
        ),
        ("list g/a g/b", ""),
        ("list g/b", "again"),
        ("list g/b", "-g/a whole[b.g.n-s.nacos]"),
        ("push g/a 1", ""),
        ("list g/a g/b", "+g/a"),
        (
            "answer g/a 3",
            "a.g.n-s.nacos=[3] whole[a.g.n-s.nacos,b.g.n-s.nacos]",
        ),
    ]);
}

#[test]
fn a_push_is_newer_than_the_answer_that_comes_after_it() {
    run(&[
        ("list g/a", "+g/a again"),
        ("push g/a 2", "a.g.n-s.nacos=[2]"),
        ("answer g/a 1", ""),
        ("list g/a", "whole[a.g.n-s.nacos]"),
    ]);
}

#[test]
fn a_service_that_is_refused_stays_and_is_asked_for_again() {
    run(&[
        ("list g/a g/b", "+g/a +g/b again"),
        ("answer g/b 1", "b.g.n-s.nacos=[1]"),
        ("list g/a g/b", ""),
        ("refuse g/a", "whole[a.g.n-s.nacos,b.g.n-s.nacos]"),
        ("list g/a g/b", "+g/a"),
        ("answer g/a 1", "a.g.n-s.nacos=[1]"),
        ("refuse g/a", ""),
    ]);
}

#[test]
fn what_came_from_a_bridge_is_not_told() {
    run(&[
        ("list g/a g/b", "+g/a +g/b again"),
        ("list g/a g/b", ""),
        ("answer g/a ! 1", ""),
        ("answer g/b 1 !", "b.g.n-s.nacos=[1,!] whole[b.g.n-s.nacos]"),
        (
            "push g/a 1",
            "a.g.n-s.nacos=[1] whole[a.g.n-s.nacos,b.g.n-s.nacos]",
        ),
        ("push g/a !", "whole[b.g.n-s.nacos]"),
    ]);
}

#[test]
fn of_two_services_with_one_host_one_is_read() {
    run(&[
        ("list g-h/a g_h/a", "+g-h/a again"),
        ("answer g-h/a 1", "a.g-h.n-s.nacos=[1]"),
        ("push g_h/a 2", ""),
        ("list g-h/a g_h/a", "whole[a.g-h.n-s.nacos]"),
        ("list g_h/a", "again"),
        ("list g_h/a", "-g-h/a whole[]"),
        ("list g_h/a", "+g_h/a"),
    ]);
}

#[test]
fn what_came_and_went_unseen_is_gone() {
    run(&[
        ("list g/a", "+g/a again"),
        ("list g/a", ""),
        ("answer g/a 1", "a.g.n-s.nacos=[1] whole[a.g.n-s.nacos]"),
        ("list g/a g/b g/c", "+g/b +g/c"),
        ("answer g/b 1", "b.g.n-s.nacos=[1]"),
        ("list g/a g/c", "again"),
        ("list g/a", "-g/b again"),
        ("list g/a", "-g/c whole[a.g.n-s.nacos]"),
    ]);
}
