//! The ledger from the command line: what it shows of Secrets, and how it counts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::support::{Api, pilothouse};

/// What the Secret holds: `opensesame` and `openbarley` in base64, and as they are.
const HIDDEN: [&str; 4] = [
    "b3BlbnNlc2FtZQ==",
    "b3BlbmJhcmxleQ==",
    "opensesame",
    "openbarley",
];

fn run(data: &Path, args: &[&str]) -> Output {
    let mut command = pilothouse(args);
    command.args(["--data", data.to_str().unwrap()]);
    command.output().unwrap()
}

fn said(data: &Path, args: &[&str]) -> String {
    let output = run(data, args);
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(output.status.success(), "{args:?}: {text}");
    text
}

/// A folder with a store that no server runs on, and one for manifests.
fn folders(dir: &Path) -> (PathBuf, PathBuf) {
    let (data, folder) = (dir.join("data"), dir.join("manifests"));
    fs::create_dir(&folder).unwrap();
    drop(Api::start(&data, &[]));
    (data, folder)
}

fn import(data: &Path, folder: &Path, value: &str) -> String {
    let text = format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: a, namespace: shop}}\ndata: {{door: {value}, same: {}}}\n",
        HIDDEN[0]
    );
    fs::write(folder.join("a.yaml"), text).unwrap();
    said(data, &["import", folder.to_str().unwrap()])
}

/// The newest revision.
fn newest(data: &Path) -> String {
    let history = said(data, &["history"]);
    let last = history.lines().last().unwrap();
    let (revision, _) = last["Newest revision ".len()..].split_once(';').unwrap();
    revision.to_owned()
}

#[test]
fn no_command_prints_the_value_of_a_secret_unless_it_is_asked_to() {
    let dir = tempfile::tempdir().unwrap();
    let (data, folder) = folders(dir.path());
    let imported = import(&data, &folder, HIDDEN[0]);
    assert!(
        imported.contains("1 object applied, 0 refused."),
        "{imported}"
    );
    let before = newest(&data);
    import(&data, &folder, HIDDEN[1]);
    let after = newest(&data);

    let secret = ["secret", "a", "-n", "shop"];
    let commands: [(Vec<&str>, &str); 5] = [
        (vec!["get"], "<redacted, 10 bytes>"),
        ([&["get"], &secret[..]].concat(), "<redacted, 10 bytes>"),
        (
            vec!["diff", &before, &after],
            "+    \"door\": \"<redacted, 10 bytes, changed>\"",
        ),
        (
            vec!["rollback", &before],
            "1 object would be as at revision",
        ),
        (vec!["history"], "secrets shop/a"),
    ];
    for (command, wanted) in commands {
        let text = said(&data, &command);
        assert!(text.contains(wanted), "{command:?}: {text}");
        for hidden in HIDDEN {
            assert!(!text.contains(hidden), "{command:?}: {text}");
        }
    }
    let shown = said(&data, &[&["get", "--show-secrets"], &secret[..]].concat());
    assert!(shown.contains(HIDDEN[1]), "{shown}");

    let done = said(&data, &["rollback", &before, "--yes"]);
    assert!(done.contains("1 object is as at revision"), "{done}");
    let shown = said(&data, &[&["get", "--show-secrets"], &secret[..]].concat());
    assert!(!shown.contains(HIDDEN[1]), "{shown}");
}

#[test]
fn a_rollback_says_what_is_made_changed_and_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let (data, folder) = folders(dir.path());
    let write = |name: &str| {
        let text = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: shop}}\n"
        );
        fs::write(folder.join("map.yaml"), text).unwrap();
        said(&data, &["import", folder.to_str().unwrap()])
    };
    write("a");
    let before = newest(&data);
    write("b");
    let shown = said(&data, &["rollback", &before]);
    assert!(shown.contains("deleted configmaps shop/b"), "{shown}");
    let account = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: web, namespace: shop}\n";
    fs::write(folder.join("map.yaml"), account).unwrap();
    said(&data, &["import", folder.to_str().unwrap()]);
    let shown = said(&data, &["rollback", &before]);
    assert!(
        shown.contains("serviceaccounts shop/web: tokens"),
        "{shown}"
    );
    assert!(!shown.contains("deleted serviceaccounts"), "{shown}");
}

#[test]
fn an_import_applies_nothing_of_a_document_in_which_a_key_stands_twice() {
    let dir = tempfile::tempdir().unwrap();
    let (data, folder) = folders(dir.path());
    let map = |name: &str| {
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: shop}}\n")
    };
    let item = "{apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: shop}}";
    let list = format!("apiVersion: v1\nkind: List\nitems: [{item}]\nitems: []\n");
    fs::write(folder.join("a.yaml"), format!("{}---\n{list}", map("a"))).unwrap();
    let output = run(&data, &["import", folder.to_str().unwrap()]);
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(2), "{printed}");
    assert!(
        printed.contains("a.yaml:8: items: the key stands twice, first on line 7"),
        "{printed}"
    );
    assert!(
        printed.contains("1 object applied, 1 refused."),
        "{printed}"
    );
    let history = said(&data, &["history"]);
    assert!(!history.contains("configmaps shop/b"), "{history}");
}

#[test]
fn what_validate_finds_an_error_is_not_imported_without_a_server_either() {
    let dir = tempfile::tempdir().unwrap();
    let (data, folder) = folders(dir.path());
    let ingress = "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata:\n  name: web\n  namespace: shop\n  annotations: {nginx.ingress.kubernetes.io/whitelist-source-rnage: 10.0.0.0/8}\nspec:\n  ingressClassName: nginx\n  rules:\n  - http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}\n";
    fs::write(folder.join("a.yaml"), ingress).unwrap();
    let output = run(&data, &["import", folder.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("0 objects applied, 1 refused."), "{said}");
    assert!(said.contains("whitelist-source-rnage"), "{said}");
}
