//! Lines of what a server says, each with what is asked and reported then.

use super::*;
use crate::report::Report;

/// `children PATH NAME ...`, `data PATH CONTENT`, `missing PATH`, `there PATH`, `refused PATH` answer the oldest question
/// about a path; `changed|created|deleted|below PATH` are events.
fn run(roots: &[(&str, Layout)], lines: &[(&str, &str)]) {
    let roots: Vec<(Arc<str>, Layout)> = roots.iter().map(|(p, l)| ((*p).into(), *l)).collect();
    let (mut tree, mut out) = (Tree::new(&roots), Outbox::default());
    let mut open = tree.begin();
    for (number, (line, wanted)) in lines.iter().enumerate() {
        let mut words = line.split_whitespace();
        let (verb, path) = (words.next().unwrap(), words.next().unwrap());
        let change = match verb {
            "changed" => Some(Change::Data),
            "created" => Some(Change::Created),
            "deleted" => Some(Change::Deleted),
            "below" => Some(Change::Children),
            _ => None,
        };
        let asks = if let Some(change) = change {
            tree.changed(change, path)
        } else {
            let found = match verb {
                "children" => Found::Children(words.map(Arc::from).collect()),
                "data" => Found::Data(Bytes::from(content(words.next().unwrap()))),
                "missing" => Found::Missing,
                "there" => Found::There,
                "refused" => Found::Refused(-102),
                _ => panic!("no such verb: {verb}"),
            };
            let place = open.iter().position(|a| a.path == path);
            let ask = open
                .remove(place.unwrap_or_else(|| panic!("line {number}: {path} is not asked for")));
            tree.answered(ask, found, &mut out).unwrap()
        };
        let mut said: Vec<String> = asks
            .iter()
            .map(|a| format!("{:?}?{}", a.what, a.path))
            .collect();
        open.extend(asks);
        said.extend(std::iter::from_fn(|| out.pop()).map(shown));
        assert_eq!(said.join(" "), *wanted, "line {number}: {line}");
        assert_eq!(tree.asked, open.len());
    }
}

/// An address, as an instance; `?` is none.
fn content(address: &str) -> String {
    match address {
        "?" => "?".to_owned(),
        address => format!(r#"{{"address":"{address}","port":80}}"#),
    }
}

fn shown(report: Report) -> String {
    match report {
        Report::Service(name, instances) => {
            let addresses: Vec<&str> = instances.iter().map(|i| &*i.address).collect();
            format!("{name}=[{}]", addresses.join(","))
        }
        Report::Whole(names) => {
            let names: Vec<&str> = names.iter().map(|n| &**n).collect();
            format!("whole[{}]", names.join(","))
        }
        Report::Lost(why) => format!("lost {why}"),
    }
}

const CLOUD: &[(&str, Layout)] = &[("/services", Layout::Applications)];
const DUBBO: &[(&str, Layout)] = &[("/dubbo/", Layout::Interfaces)];

#[test]
fn an_application_is_told_when_all_of_its_instances_are_known() {
    run(
        CLOUD,
        &[
            (
                "children /services a b config",
                "Children?/services/a Children?/services/b",
            ),
            (
                "children /services/a x y",
                "Data?/services/a/x Data?/services/a/y",
            ),
            ("data /services/a/y 2", ""),
            ("children /services/b", "b.services.zookeeper=[]"),
            (
                "data /services/a/x 1",
                "a.services.zookeeper=[1,2] whole[a.services.zookeeper,b.services.zookeeper]",
            ),
            ("changed /services/a/x", "Data?/services/a/x"),
            ("data /services/a/x 3", "a.services.zookeeper=[3,2]"),
            ("below /services/a", "Children?/services/a"),
            ("children /services/a y z", "Data?/services/a/z"),
            ("data /services/a/z ?", "a.services.zookeeper=[2]"),
            ("below /services/a", "Children?/services/a"),
            ("children /services/a", "a.services.zookeeper=[]"),
        ],
    );
}

#[test]
fn what_goes_while_it_is_asked_for_holds_nothing_up() {
    run(
        CLOUD,
        &[
            (
                "children /services a b",
                "Children?/services/a Children?/services/b",
            ),
            ("children /services/b", "b.services.zookeeper=[]"),
            (
                "children /services/a x y",
                "Data?/services/a/x Data?/services/a/y",
            ),
            ("missing /services/a/x", ""),
            ("below /services/a", "Children?/services/a"),
            ("children /services/a z", "Data?/services/a/z"),
            ("data /services/a/y 1", ""),
            (
                "data /services/a/z 2",
                "a.services.zookeeper=[2] whole[a.services.zookeeper,b.services.zookeeper]",
            ),
            ("deleted /services/a", "Children?/services/a"),
            ("below /services", "Children?/services"),
            ("missing /services/a", ""),
            ("children /services b", "whole[b.services.zookeeper]"),
            ("changed /services/a/z", ""),
        ],
    );
}

#[test]
fn an_instance_that_is_made_anew_is_read_anew() {
    run(
        CLOUD,
        &[
            ("children /services a", "Children?/services/a"),
            ("children /services/a x", "Data?/services/a/x"),
            (
                "data /services/a/x 1",
                "a.services.zookeeper=[1] whole[a.services.zookeeper]",
            ),
            ("deleted /services/a/x", "Data?/services/a/x"),
            ("below /services/a", "Children?/services/a"),
            ("data /services/a/x 2", "a.services.zookeeper=[2]"),
            ("children /services/a x", "a.services.zookeeper=[2]"),
        ],
    );
}

#[test]
fn an_application_that_comes_back_while_it_is_asked_for_is_read_anew() {
    run(
        CLOUD,
        &[
            ("children /services a", "Children?/services/a"),
            ("missing /services/a", "whole[]"),
            ("below /services", "Children?/services"),
            ("children /services a", "Children?/services/a"),
            (
                "children /services/a",
                "a.services.zookeeper=[] whole[a.services.zookeeper]",
            ),
        ],
    );
}

#[test]
fn an_instance_that_comes_back_while_it_is_asked_for_is_told_in_the_end() {
    run(
        CLOUD,
        &[
            ("children /services a", "Children?/services/a"),
            ("children /services/a x", "Data?/services/a/x"),
            ("below /services/a", "Children?/services/a"),
            ("children /services/a", "a.services.zookeeper=[]"),
            ("below /services/a", "Children?/services/a"),
            ("children /services/a x", "Data?/services/a/x"),
            ("data /services/a/x 1", "a.services.zookeeper=[1]"),
            (
                "data /services/a/x 2",
                "a.services.zookeeper=[2] whole[a.services.zookeeper]",
            ),
        ],
    );
}

#[test]
fn a_root_may_come_later_and_go() {
    run(
        CLOUD,
        &[
            ("missing /services", "Exists?/services"),
            ("missing /services", "whole[]"),
            ("created /services", "Children?/services"),
            ("children /services a", "Children?/services/a"),
            (
                "children /services/a",
                "a.services.zookeeper=[] whole[a.services.zookeeper]",
            ),
            ("deleted /services", "Children?/services"),
            ("missing /services", "Exists?/services"),
            ("there /services", "Children?/services"),
            ("children /services", "whole[]"),
        ],
    );
}

#[test]
fn an_interface_is_as_many_services_as_it_has_versions_and_groups() {
    let one = "dubbo%3A%2F%2F1%3A1%2Fi%3Fversion%3D1";
    let two = "dubbo%3A%2F%2F2%3A1%2Fi%3Fversion%3D2";
    run(
        DUBBO,
        &[
            (
                "children /dubbo i config metadata mapping",
                "Children?/dubbo/i/providers",
            ),
            (
                &format!("children /dubbo/i/providers {one} {two} nonsense"),
                "providers:i:1:.zookeeper=[1] providers:i:2:.zookeeper=[2] \
             whole[providers:i:1:.zookeeper,providers:i:2:.zookeeper]",
            ),
            ("below /dubbo/i/providers", "Children?/dubbo/i/providers"),
            (
                &format!("children /dubbo/i/providers {two}"),
                "providers:i:1:.zookeeper=[] providers:i:2:.zookeeper=[2]",
            ),
            ("deleted /dubbo/i/providers", "Children?/dubbo/i/providers"),
            (
                "missing /dubbo/i/providers",
                "Exists?/dubbo/i/providers providers:i:1:.zookeeper=[] providers:i:2:.zookeeper=[]",
            ),
            ("missing /dubbo/i/providers", ""),
            ("below /dubbo", "Children?/dubbo"),
            ("children /dubbo", "whole[]"),
        ],
    );
}

#[test]
fn a_consumer_may_be_there_before_its_provider() {
    run(
        DUBBO,
        &[
            ("children /dubbo i", "Children?/dubbo/i/providers"),
            ("missing /dubbo/i/providers", "Exists?/dubbo/i/providers"),
            ("missing /dubbo/i/providers", "whole[]"),
            ("created /dubbo/i/providers", "Children?/dubbo/i/providers"),
            (
                "children /dubbo/i/providers dubbo://1:1/i",
                "providers:i:0.0.0:.zookeeper=[1] whole[providers:i:0.0.0:.zookeeper]",
            ),
        ],
    );
}

#[test]
fn a_service_that_is_not_told_of_keeps_what_it_had() {
    run(
        CLOUD,
        &[
            (
                "children /services a b",
                "Children?/services/a Children?/services/b",
            ),
            ("refused /services/a", ""),
            ("children /services/b x", "Data?/services/b/x"),
            (
                "data /services/b/x 1",
                "b.services.zookeeper=[1] whole[a.services.zookeeper,b.services.zookeeper]",
            ),
            ("changed /services/b/x", "Data?/services/b/x"),
            ("refused /services/b/x", "b.services.zookeeper=[1]"),
        ],
    );
}

#[test]
fn a_root_that_is_not_told_of_is_an_error() {
    let mut tree = Tree::new(&[("/dubbo".into(), Layout::Interfaces)]);
    let ask = tree.begin().remove(0);
    let error = tree.answered(ask, Found::Refused(-102), &mut Outbox::default());
    assert_eq!(error, Err(Untold("/dubbo".to_owned(), -102)));
}

#[test]
fn hosts_have_the_path_of_their_root() {
    for (root, line, asked, host) in [
        (
            "/services",
            "children /services a",
            "/services/a",
            "a.services",
        ),
        (
            "my/own/path/",
            "children /my/own/path a",
            "/my/own/path/a",
            "a.my-own-path",
        ),
        ("/", "children / a", "/a", "a"),
    ] {
        run(
            &[(root, Layout::Applications)],
            &[
                (line, &format!("Children?{asked}")),
                (
                    &format!("children {asked}"),
                    &format!("{host}.zookeeper=[] whole[{host}.zookeeper]"),
                ),
            ],
        );
    }
}

#[test]
fn a_root_below_another_is_read_as_both() {
    let roots = [("/s", Layout::Applications), ("/s/t", Layout::Applications)];
    run(
        &roots,
        &[
            ("children /s t", "Children?/s/t"),
            ("children /s/t x", "Children?/s/t/x"),
            ("children /s/t/x", "x.s-t.zookeeper=[]"),
            ("children /s/t x", "Data?/s/t/x"),
            (
                "data /s/t/x ?",
                "t.s.zookeeper=[] whole[t.s.zookeeper,x.s-t.zookeeper]",
            ),
            ("below /s/t", "Children?/s/t Children?/s/t"),
        ],
    );
}
