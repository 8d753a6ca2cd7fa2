use super::*;

fn stated(kind: &str, name: &str, domain: &str, port: u32) -> Stated {
    Stated {
        registry_type: kind.into(),
        name: name.into(),
        domain: domain.into(),
        port,
        ..Stated::default()
    }
}

fn fault(stated: Stated) -> String {
    match Entry::new(stated, Credentials::default()) {
        Ok(_) => String::new(),
        Err(Fault { field, message }) => format!("{field}: {message}"),
    }
}

#[test]
fn what_is_wrong_names_its_field() {
    let cases = [
        (stated("consul", "a", "b.example", 8500), ""),
        (stated("consul", "a", "https://b.example", 8501), ""),
        (stated("nacos2", "a", "b.example, 10.0.0.1:80", 0), ""),
        (stated("zookeeper", "a", "b.example:2182", 0), ""),
        (
            stated("nacos", "a", "b/c", 8848),
            "domain: \"b/c\" is no address",
        ),
        (stated("zookeeper", "a", "", 0), "domain: must not"),
        (stated("nacos", "a", "b", 65_536), "port: 65536"),
        (stated("static", "a", "10.0.0.1:80,[::1]:81", 0), ""),
        (stated("dns", "a", "a.example, b.example", 80), ""),
        (stated("dns", "a", "_http._tcp.a.example", 80), ""),
        (stated("etcd", "a", "b", 1), "type: \"etcd\" is no kind"),
        (stated("consul", "", "b", 1), "name: must not"),
        (stated("consul", "a", "", 1), "domain: must not"),
        (stated("consul", "a", "b", 0), "port: 0 is no port"),
        (stated("consul", "a", "b", 65_536), "port: 65536"),
        (
            stated("consul", "a", "b/c", 1),
            "domain: \"b/c\" is no host",
        ),
        (
            stated("static", "a", "a.example:80", 0),
            "domain: \"a.example:80\"",
        ),
        (
            stated("static", "a", "10.0.0.1:0", 0),
            "domain: \"10.0.0.1:0\"",
        ),
        (stated("dns", "a", "a|b", 80), "domain: \"a|b\""),
        (
            stated("dns", "a", "_http._tcp.a,b.example", 80),
            "domain: names SRV",
        ),
    ];
    for (stated, wanted) in cases {
        let shown = format!("{} {}", stated.registry_type, stated.domain);
        let fault = fault(stated);
        assert!(fault.starts_with(wanted), "{shown}: {fault}");
        assert_eq!(fault.is_empty(), wanted.is_empty(), "{shown}: {fault}");
    }
}

#[test]
fn what_would_go_around_a_proxy_is_refused() {
    let mut through = stated("dns", "a", "a.example", 80);
    through.proxy_name = "p".into();
    assert!(fault(through).starts_with("proxyName: "));
}

#[test]
fn listed_services_have_the_port_and_name_of_their_entry() {
    let mut api = stated("dns", "a", "a.example", 443);
    api.protocol = "https".into();
    let making = Entry::new(api, Credentials::default()).unwrap().making();
    assert_eq!(
        (&*making.sni, making.ports.default),
        ("a.example", Some(443))
    );
    assert_eq!(making.owner.to_string(), "registry:dns/a");
    let consul = Entry::new(stated("consul", "c", "b", 8500), Credentials::default());
    assert_eq!(consul.unwrap().making().ports, VirtualPorts::default());
}

#[test]
fn virtual_ports_are_ports() {
    let mut consul = stated("consul", "c", "b", 8500);
    let service = model::kinds::higress::VirtualServicePort {
        name: "a.dc1.consul".into(),
        value: 70_000,
    };
    consul.vport = Some(model::kinds::higress::VirtualPort {
        default: 0,
        services: vec![service],
    });
    assert_eq!(fault(consul), "vport: 70000 is no port");
}

#[test]
fn credentials_do_not_show() {
    let secret = BTreeMap::from([("consulToken".into(), Redacted::new("hush"))]);
    let entry = Entry::new(stated("consul", "c", "b", 8500), Credentials(secret));
    let shown = format!("{entry:?}");
    assert!(
        shown.contains("consulToken") && !shown.contains("hush"),
        "{shown}"
    );
}
