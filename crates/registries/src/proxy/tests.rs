use super::*;

fn stated(name: &str) -> Stated {
    Stated {
        name: name.into(),
        server_address: "10.0.0.1".into(),
        server_port: 3128,
        ..Stated::default()
    }
}

/// What a case changes.
type Edit = fn(&mut Stated);

fn fault(change: Edit) -> String {
    let mut stated = stated("p");
    change(&mut stated);
    match Proxy::new(&stated, &BTreeSet::from([50_500])) {
        Ok(_) => String::new(),
        Err(Fault { field, message }) => format!("{field}: {message}"),
    }
}

#[test]
fn what_is_wrong_names_its_field() {
    let cases: [(Edit, &str); 9] = [
        (|_| {}, ""),
        (|s| s.proxy_type = "http".into(), ""),
        (|s| s.proxy_type = "socks5".into(), "type: \"socks5\""),
        (|s| s.name = "a|b".into(), "name: \"a|b\" is no name"),
        (
            |s| s.server_address = "a/b".into(),
            "serverAddress: \"a/b\"",
        ),
        (|s| s.server_address = "::1".into(), ""),
        (|s| s.server_port = 0, "serverPort: 0 is no port"),
        (
            |s| s.listener_port = 70_000,
            "listenerPort: 70000 is no port",
        ),
        (
            |s| s.listener_port = 50_500,
            "listenerPort: 50500 is the port of another proxy",
        ),
    ];
    for (change, wanted) in cases {
        let fault = fault(change);
        assert!(fault.starts_with(wanted), "{fault}, not {wanted}");
        assert_eq!(fault.is_empty(), wanted.is_empty(), "{fault}");
    }
}

#[test]
fn ports_are_free_and_stay() {
    let mut taken = BTreeSet::new();
    let alone = Proxy::new(&stated("last"), &taken).unwrap().listener;
    assert!(PORTS.contains(&alone));
    for n in 0..PORTS.len() {
        let proxy = Proxy::new(&stated(&format!("p{n}")), &taken).unwrap();
        assert!(PORTS.contains(&proxy.listener) && taken.insert(proxy.listener));
    }
    let fault = Proxy::new(&stated("last"), &taken).unwrap_err();
    assert_eq!(fault.field, "listenerPort");
    taken.remove(&alone);
    assert_eq!(Proxy::new(&stated("last"), &taken).unwrap().listener, alone);
}
