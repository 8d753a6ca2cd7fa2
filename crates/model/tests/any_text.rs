//! Whatever stands in a file: reading it ends, soon, and says something where it found nothing to use.

use std::path::Path;
use std::time::{Duration, Instant};

use pilothouse_model::parse::{Parsed, Validation, parse};
use pilothouse_model::{Severity, mesh};
use proptest::prelude::*;

/// Far more than any of these texts takes, far less than what is exponential in their length would.
const SOON: Duration = Duration::from_secs(20);

fn read(text: &str) -> Parsed {
    let file = Path::new("any.yaml").into();
    let start = Instant::now();
    let parsed = parse(text, &file, Validation::Strict);
    let _ = parse(text, &file, Validation::Warn);
    let _ = mesh::read_mesh_config(text, &file);
    let _ = mesh::read_mesh_networks(text, &file);
    assert!(start.elapsed() < SOON, "{:?} for {text:?}", start.elapsed());
    let refused = parsed
        .documents
        .iter()
        .filter(|d| d.object.is_none())
        .count();
    let errors = parsed
        .diagnostics
        .iter()
        .filter(|d| d.severity == Severity::Error)
        .count();
    assert!(
        refused <= errors,
        "{refused} documents refused, {errors} errors told: {text:?}"
    );
    for diagnostic in &parsed.diagnostics {
        let _ = format!("{diagnostic}\n{diagnostic:#}");
    }
    parsed
}

const SEED: &str = "\
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: a, namespace: b, labels: {x: \"1\"}, creationTimestamp: 2024-01-01T00:00:00Z}
spec:
  hosts: [a, &h b, *h]
  http:
  - match: [{uri: {prefix: /}}]
    timeout: 1.5s
    route: [{destination: {host: a, port: {number: 80}}, weight: 100}]
---
apiVersion: v1
kind: Service
metadata: {name: a}
spec: {ports: [{port: 80, targetPort: http}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: a}
spec: {rules: [{filters: [{type: CORS, cors: {maxAge: 5}}]}]}
";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 2))]

    #[test]
    fn any_text_is_read_without_a_panic(text in any::<String>()) {
        read(&text);
    }

    #[test]
    fn text_made_of_yamls_own_signs_is_read_without_a_panic(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "- ", "? ", ": ", "{", "}", "[", "]", ",", "&a ", "*a ", "!!str ", "! ", "|", ">", "'", "\"", "#", "\n",
                "\n  ", "\n---\n", "...", "%YAML 1.2", "<<: ", "~", "\t", "é", "\\u", "a", "1", "kind: List", "items:",
                "apiVersion: v1", "kind: ServiceList", "metadata: {name: a}", "spec: ", "\u{feff}", "\r\n",
            ]),
            0..60,
        )
    ) {
        read(&parts.concat());
    }

    #[test]
    fn a_manifest_with_pieces_moved_is_read_without_a_panic(
        cuts in prop::collection::vec((0..SEED.len(), 0..SEED.len(), 0..SEED.len()), 1..6)
    ) {
        let mut text = SEED.to_owned();
        for (a, b, to) in cuts {
            let (a, b) = (a.min(b).min(text.len()), b.max(a).min(text.len()));
            let piece = text[a..b].to_owned();
            text.replace_range(a..b, "");
            text.insert_str(to.min(text.len()), &piece);
        }
        read(&text);
    }

    #[test]
    fn a_manifest_that_breaks_off_keeps_the_documents_before(at in 0..SEED.len()) {
        let whole = SEED[..at].matches("\n---\n").count();
        let parsed = read(&SEED[..at]);
        prop_assert!(parsed.objects().count() >= whole);
    }
}

#[test]
fn the_seed_is_good() {
    let parsed = read(SEED);
    assert_eq!(parsed.objects().count(), 3, "{:?}", parsed.diagnostics);
}

#[test]
fn texts_made_to_take_long_do_not() {
    let deep = "{a: ".repeat(20_000);
    let wide = format!("a: [{}]", "x, ".repeat(100_000));
    let keys: String = (0..20_000).map(|i| format!("k{i}: v\n")).collect();
    let same = "k: v\n".repeat(20_000);
    let quotes = "'\"".repeat(20_000);
    let documents = "---\na\n".repeat(20_000);
    let merges = format!(
        "a: &a {{{}}}\nb:\n{}",
        "x: y, ".repeat(10),
        "  <<: *a\n".repeat(20_000)
    );
    for text in [deep, wide, keys, same, quotes, documents, merges] {
        read(&text);
    }
}
