//! Commands that run an Envoy on this machine: what they are to read is looked for first.

use crate::support::pilothouse;

#[test]
fn what_is_to_be_read_is_looked_for_before_an_envoy() {
    let dir = tempfile::tempdir().unwrap();
    let (empty, none) = (dir.path().join("empty"), dir.path().join("none"));
    std::fs::create_dir(&empty).unwrap();
    let text = |path: &std::path::Path| path.to_str().unwrap().to_owned();
    let (empty, none) = (text(&empty), text(&none));
    let missing = format!("there is no {none}");
    for (args, wanted) in [
        (vec!["ingress", "--manifest", &none], missing.clone()),
        (vec!["ingress", "--kubeconfig", &none], missing.clone()),
        (
            vec!["ingress", "--manifest", &empty, "--mesh-config", &none],
            missing,
        ),
        (
            vec!["gateway", "shop", "--config-dir", &none],
            format!("{none} is no folder"),
        ),
        (
            vec!["gateway", "shop", "--config-dir", &empty],
            "default/shop".to_owned(),
        ),
    ] {
        let output = pilothouse(&[])
            .args(&args)
            .args(["--envoy", "/nowhere/envoy"])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(&wanted), "{args:?}: {said}");
        assert!(!said.contains("/nowhere/envoy"), "{args:?}: {said}");
    }
}
