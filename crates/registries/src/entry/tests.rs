use std::collections::BTreeSet;

use model::kinds::higress::RegistryProxy;

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

fn making(stated: Stated) -> Making {
    let entry = Entry::new(stated, Credentials::default(), None).unwrap();
    entry.making(&"edge".into())
}

fn fault(stated: Stated) -> String {
    match Entry::new(stated, Credentials::default(), None) {
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

/// The service `a.dns` behind the proxy `p`.
fn behind_proxy() -> Stated {
    Stated {
        protocol: "https".into(),
        proxy_name: "p".into(),
        ..stated("dns", "a", "A.example", 8443)
    }
}

fn proxy(listener_port: u32) -> RegistryProxy {
    RegistryProxy {
        name: "p".into(),
        server_address: "proxy.example".into(),
        server_port: 3128,
        listener_port,
        ..RegistryProxy::default()
    }
}

#[test]
fn a_service_behind_a_proxy_is_where_the_way_begins() {
    let proxy = Proxy::new(&proxy(50_100), &BTreeSet::new()).unwrap();
    let entry = Entry::new(behind_proxy(), Credentials::default(), Some(&proxy)).unwrap();
    let through = entry.through().unwrap();
    assert_eq!((&*through.proxy, through.listener), ("p", 50_100));
    let tunnel = &through.tunnel;
    assert_eq!(
        (&*tunnel.sni, &*tunnel.target),
        ("a.example", "A.example:8443")
    );
    let making = entry.making(&"edge".into());
    assert_eq!(making.only_in, Some("edge".into()));
    assert_eq!(
        (&*making.sni, making.ports.default),
        ("A.example", Some(8443))
    );
}

#[test]
fn what_would_go_around_a_proxy_is_refused() {
    let used = Proxy::new(&proxy(0), &BTreeSet::new()).unwrap();
    let refused = |stated, proxy| {
        let fault = Entry::new(stated, Credentials::default(), proxy).unwrap_err();
        format!("{}: {}", fault.field, fault.message)
    };
    let none = refused(behind_proxy(), None);
    assert!(
        none.starts_with("proxyName: there is no proxy \"p\""),
        "{none}"
    );
    let consul = Stated {
        proxy_name: "p".into(),
        protocol: "https".into(),
        ..stated("consul", "c", "b", 8500)
    };
    let with = |change: fn(&mut Stated)| {
        let mut stated = behind_proxy();
        change(&mut stated);
        stated
    };
    for wrong in [
        consul,
        with(|s| s.protocol = "http".into()),
        with(|s| s.domain = "a.example,b.example".into()),
        with(|s| s.domain = "_https._tcp.a.example".into()),
    ] {
        let fault = refused(wrong, Some(&used));
        assert!(fault.starts_with("proxyName: only one host"), "{fault}");
    }
    let fault = refused(with(|s| s.sni = "a*b".into()), Some(&used));
    assert!(fault.starts_with("sni: "), "{fault}");
}

#[test]
fn listed_services_have_the_port_and_name_of_their_entry() {
    let mut api = stated("dns", "a", "a.example", 443);
    api.protocol = "https".into();
    let api = making(api);
    assert_eq!((&*api.sni, api.ports.default), ("a.example", Some(443)));
    assert_eq!(api.owner.to_string(), "registry:dns/a");
    let consul = making(stated("consul", "c", "b", 8500));
    assert_eq!(
        (consul.ports, consul.only_in),
        (VirtualPorts::default(), None)
    );
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
    let entry = Entry::new(stated("consul", "c", "b", 8500), Credentials(secret), None);
    let shown = format!("{entry:?}");
    assert!(
        shown.contains("consulToken") && !shown.contains("hush"),
        "{shown}"
    );
}

#[test]
fn access_keys_of_a_secret_count_before_those_of_the_entry() {
    let mut nacos = stated("nacos2", "n", "b", 8848);
    let key = |nacos: &Stated, secret: &Credentials| {
        let key = options::nacos(nacos, secret).credentials.key;
        key.map(|(id, secret)| (id.to_string(), secret.reveal().to_owned()))
    };
    let none = Credentials::default();
    assert_eq!(key(&nacos, &none), None);
    (nacos.nacos_access_key, nacos.nacos_secret_key) = ("a".into(), "b".into());
    assert_eq!(key(&nacos, &none), Some(("a".into(), "b".into())));
    let pair = [("nacosAccessKey", "c"), ("nacosSecretKey", "d")];
    let pair = pair.map(|(name, text)| (name.into(), Redacted::new(text)));
    let secret = Credentials(pair.into());
    assert_eq!(key(&nacos, &secret), Some(("c".into(), "d".into())));
}
