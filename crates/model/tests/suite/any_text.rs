//! Whatever stands in a file: reading it ends, soon, and says something where it found nothing to use.

use std::path::Path;
use std::time::{Duration, Instant};

use pilothouse_model::parse::{Parsed, Validation, code, parse};
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
        .filter(|d| d.object.is_none() && d.substitute.is_none())
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
                "kind: Ingress", "kind: DestinationRule", "host: a", "hosts: [", "tls", "\nnginx.ingress.kubernetes.io/auth-url: x",
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
    let kinds = format!("{}x: [", "kind: DestinationRul\n".repeat(20_000));
    let hosts = format!(
        "kind: DestinationRule\n{}tls: [",
        (0..20_000)
            .map(|i| format!("host: h{i}\n"))
            .collect::<String>()
    );
    for text in [
        deep, wide, keys, same, quotes, documents, merges, kinds, hosts,
    ] {
        read(&text);
    }
}

/// An object of Istio and one of the Gateway API with this in their specs.
fn around(spec: &str) -> String {
    let of = |api: &str, kind: &str| {
        format!("{{apiVersion: {api}, kind: {kind}, metadata: {{name: a}}, spec: {spec}}}\n")
    };
    let istio = of("networking.istio.io/v1", "VirtualService");
    let gateway = of("gateway.networking.k8s.io/v1", "HTTPRoute");
    format!("{istio}---\n{gateway}")
}

/// Reads once: what is bounded here is counted, and not timed.
fn once(text: &str) -> Parsed {
    parse(text, &Path::new("any.yaml").into(), Validation::Strict)
}

/// Bytes of everything that is told.
fn told(parsed: &Parsed) -> usize {
    let of = |d: &pilothouse_model::Diagnostic| {
        let excerpt = d.excerpt.as_ref().map_or(0, |e| e.text.len());
        d.message.len() + d.path.len() + d.help.as_ref().map_or(0, |h| h.len()) + excerpt
    };
    parsed.diagnostics.iter().map(of).sum()
}

#[test]
fn a_document_that_would_be_large_written_out_is_refused_before_it_is() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let inner = format!("*a{}, ", level - 1).repeat(10);
        bomb.push_str(&format!("a{level}: &a{level} [{inner}]\n"));
    }
    let parsed = once(&bomb);
    assert_eq!(parsed.objects().count(), 0);
    let first = &parsed.diagnostics[0];
    assert!(
        first.message.contains("large") || first.message.contains("many"),
        "{first}"
    );
}

#[test]
fn a_document_that_is_nested_too_deeply_is_refused_and_a_deep_one_is_read() {
    let nested = |levels: usize| format!("{}1{}", "{a: ".repeat(levels), "}".repeat(levels));
    assert!(once(&nested(5_000)).diagnostics[0].code == code::SYNTAX);
    // No object, and no more than that.
    let shallow = once(&nested(90));
    assert_eq!(shallow.diagnostics[0].code, code::NO_OBJECT);
}

#[test]
fn what_is_told_of_an_object_is_bounded_however_many_faults_it_has() {
    let unknown: String = (0..5_000).map(|i| format!("x{i}: 1, ")).collect();
    let twice = "k: 1, ".repeat(5_000);
    let mistyped = format!("hosts: [{}]", "1, ".repeat(5_000));
    let long_key = format!(
        "{}: {{{}}}",
        "k".repeat(1 << 18),
        "x: 1, y: 2, ".repeat(100)
    );
    let long_text = format!("hosts: \"{}\"", "t".repeat(1 << 18));
    for spec in [unknown, twice, mistyped, long_key, long_text] {
        let text = around(&format!("{{{spec}}}"));
        let parsed = once(&text);
        assert!(!parsed.diagnostics.is_empty());
        assert!(
            parsed.diagnostics.len() <= 2 * 101,
            "{}",
            parsed.diagnostics.len()
        );
        assert!(told(&parsed) < 500_000, "{} bytes are told", told(&parsed));
    }
}

#[test]
fn numbers_beyond_every_type_are_told_and_nothing_else_happens() {
    for number in [
        "99999999999999999999999999",
        "-99999999999999999999999999",
        "1e999",
        "-1e999",
        ".inf",
        ".nan",
        "0x1ffffffffffffffffff",
    ] {
        let spec = format!(
            "{{hosts: [a], http: [{{route: [{{destination: {{host: a, port: {{number: {number}}}}}, weight: {number}}}]}}], rules: [{{backendRefs: [{{name: a, port: {number}}}]}}]}}"
        );
        let parsed = once(&around(&spec));
        for field in [".number", ".weight", "[0].port"] {
            let told = parsed.diagnostics.iter().any(|d| d.path.ends_with(field));
            assert!(told, "{number} {field}: {:?}", parsed.diagnostics);
        }
    }
}
