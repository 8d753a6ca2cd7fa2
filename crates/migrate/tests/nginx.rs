//! The model of ingress-nginx: each case is a folder with Ingresses (`in.yaml`) and what becomes of requests
//! (`expected.txt`, `METHOD URL [NAME: VALUE]... => CHOICE` a line).

use std::path::Path;

use pilothouse_migrate::compare::{Nginx, of_list};
use pilothouse_migrate::{Wanted, World};

#[test]
fn requests_go_where_ingress_nginx_sends_them() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/nginx");
    let mut seen = 0;
    for case in std::fs::read_dir(cases).unwrap().flatten() {
        let read = |name: &str| std::fs::read_to_string(case.path().join(name)).unwrap();
        let objects = testkit::World::objects(&read("in.yaml"));
        let nginx = Nginx::of(&World::load(objects, &Wanted::default()));
        for line in read("expected.txt").lines() {
            let (request, expected) = line.split_once(" => ").unwrap();
            let requests = of_list(request).unwrap();
            let chosen = nginx.choose(&requests[0]);
            assert_eq!(
                chosen.choice.to_string(),
                expected,
                "{:?}: {line}",
                case.path()
            );
            seen += 1;
        }
    }
    assert!(seen > 10);
}
