//! Any bytes as answers of registries, and what services they make.
#![no_main]

use libfuzzer_sys::fuzz_target;
use registries::limits::Limits;
use registries::service::{Making, VirtualPorts};
use registries::{consul, eureka};

fuzz_target!(|body: &[u8]| {
    let making = Making {
        owner: model::Owner::new(250, "registry:a/b"),
        kind: "a".into(),
        name: "b".into(),
        protocol: registries::protocol::Protocol::Http,
        sni: "".into(),
        ports: VirtualPorts::default(),
        only_in: None,
    };
    let _ = consul::decode::names(body, "");
    let _ = consul::decode::summary(body, "");
    let _ = consul::decode::datacenter(body);
    let mut lists = Vec::new();
    lists.extend(consul::decode::instances(body, "").ok());
    if let Ok(all) = eureka::decode::Applications::read(body) {
        let names: Vec<_> = all.names().cloned().collect();
        lists.extend(names.iter().filter_map(|name| all.instances(name)));
        let mut again = all.clone();
        if let Ok(delta) = eureka::decode::Delta::read(body) {
            let _ = again.apply(delta);
        }
    }
    for list in lists {
        let made = making.make(&"host".into(), &list, &Limits::default());
        if let Some(made) = made {
            assert!(made.entry.spec.endpoints.len() <= list.len());
        }
    }
});
