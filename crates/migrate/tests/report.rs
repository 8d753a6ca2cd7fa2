//! The report as a whole: what it looks at, how long it is, and what it never does.

use pilothouse_migrate::report::{Report, Verdict};
use pilothouse_migrate::show::{self, Form, Style};
use pilothouse_migrate::{Wanted, World};
use testkit::World as Objects;

fn report(yaml: &str) -> Report {
    let world = World::load(Objects::objects(yaml), &Wanted::default());
    Report::of(&world)
}

fn shown(report: &Report, form: Form) -> String {
    shown_within(report, form, 80)
}

fn shown_within(report: &Report, form: Form, width: usize) -> String {
    let style = Style {
        color: false,
        width,
        details: false,
    };
    let mut out = Vec::new();
    show::write(&mut out, report, form, style).expect("a list of bytes takes all");
    String::from_utf8(out).expect("it is text")
}

/// An Ingress with these annotations, as `key: value` lines, and this spec.
fn ingress(name: &str, annotations: &[String], spec: &str) -> String {
    let annotations: Vec<String> = annotations.iter().map(|a| format!("    {a}\n")).collect();
    format!(
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata:\n  name: {name}\n  namespace: shop\n  annotations:\n{}spec: {spec}\n---\n",
        annotations.concat()
    )
}

#[test]
fn the_summary_fits_a_screen() {
    let key = |i: usize| {
        let long = "with-a-name-that-no-column-has-room-for";
        format!("nginx.ingress.kubernetes.io/unknown-{i}-{long}: 'x'")
    };
    let keys: Vec<String> = (0..60).map(key).collect();
    let text = shown(&report(&ingress("web", &keys, "{}")), Form::Text);
    assert!(text.lines().count() <= 24, "{text}");
    let longest = text.lines().map(|line| line.chars().count()).max();
    assert!(longest <= Some(80), "{text}");
    assert!(text.contains("more: --details"), "{text}");
}

#[test]
fn what_no_terminal_reads_is_not_cut() {
    let spec = "{ingressClassName: nginx, rules: [{host: a.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]}";
    let annotation =
        "nginx.ingress.kubernetes.io/temporal-redirect: https://b.example.com/$http_x_some_header";
    let report = report(&ingress("a", &[annotation.to_owned()], spec));
    let text = |width| shown_within(&report, Form::Text, width);
    assert!(text(80).contains('…'), "{}", text(80));
    assert!(!text(usize::MAX).contains('…'), "{}", text(usize::MAX));
}

#[test]
fn ingresses_of_other_controllers_are_left_out() {
    let class = |name: &str, controller: &str| {
        format!(
            "apiVersion: networking.k8s.io/v1\nkind: IngressClass\nmetadata: {{name: {name}}}\nspec: {{controller: {controller}}}\n---\n"
        )
    };
    let annotated = ["nginx.ingress.kubernetes.io/app-root: /a".to_owned()];
    let yaml = [
        class("outside", "k8s.io/ingress-nginx"),
        class("nginx", "nginx.org/ingress-controller"),
        ingress("by-class", &[], "{ingressClassName: outside}"),
        ingress("of-another", &[], "{ingressClassName: nginx}"),
        ingress(
            "by-annotation",
            &["kubernetes.io/ingress.class: outside".to_owned()],
            "{ingressClassName: nginx}",
        ),
        ingress("unnamed", &annotated, "{}"),
        ingress("unnamed-and-plain", &[], "{}"),
    ];
    let report = report(&yaml.concat());
    let names: Vec<&str> = report.ingresses.iter().map(|i| &*i.name).collect();
    assert_eq!(names, ["by-annotation", "by-class", "unnamed"]);
    let left: Vec<String> = report
        .left
        .iter()
        .map(|(n, why)| format!("{n} {why}"))
        .collect();
    assert_eq!(
        left,
        [
            "shop/of-another is of the class nginx (nginx.org/ingress-controller)",
            "shop/unnamed-and-plain names no class and has no annotation of ingress-nginx",
        ]
    );
}

#[test]
fn texts_of_objects_are_no_part_of_the_page() {
    let hostile = "nginx.ingress.kubernetes.io/<script>alert(1)</script>: 'x'".to_owned();
    let spec = "{ingressClassName: nginx, rules: [{host: \"<img src=x onerror=alert(1)>\", http: {paths: [{path: \"/<b>|`\", pathType: Exact, backend: {service: {name: web, port: {number: 80}}}}]}}]}";
    let report = report(&ingress("web", &[hostile], spec));
    let page = shown(&report, Form::Html);
    assert_eq!(page.matches("<script>").count(), 1, "{page}");
    assert!(!page.contains("<img") && !page.contains("<b>|"), "{page}");
    assert!(!shown(&report, Form::Markdown).contains("<script>"));
}

#[test]
fn secrets_are_never_shown() {
    let yaml = format!(
        "{}apiVersion: v1\nkind: Secret\nmetadata: {{name: users, namespace: shop}}\nstringData: {{auth: 'anna:{{SHA}}geheim'}}\n",
        ingress(
            "web",
            &[
                "nginx.ingress.kubernetes.io/auth-type: basic".to_owned(),
                "nginx.ingress.kubernetes.io/auth-secret: users".to_owned()
            ],
            "{ingressClassName: nginx, rules: [{host: a.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]}"
        )
    );
    let report = report(&yaml);
    for form in [Form::Text, Form::Json, Form::Markdown, Form::Html] {
        let text = shown(&report, form);
        assert!(!text.contains("geheim") && !text.contains("anna"), "{text}");
    }
}

#[test]
fn a_backend_that_nginx_looks_up_and_that_is_refused_here_is_not_supported() {
    let spec = |service: &str| {
        format!(
            "{{ingressClassName: nginx, rules: [{{host: a.com, http: {{paths: [{{path: /, pathType: Prefix, backend: {{service: {{name: {service}, port: {{number: 80}}}}}}}}]}}}}]}}"
        )
    };
    let services = "
{apiVersion: v1, kind: Service, metadata: {name: outside, namespace: shop}, spec: {type: ExternalName, externalName: files.example.org}}
---
{apiVersion: v1, kind: Service, metadata: {name: inside, namespace: shop}, spec: {type: ExternalName, externalName: web.shop.pod.cluster.local}}
---
";
    let verdict = |service: &str| {
        let report = report(&[services, &ingress("web", &[], &spec(service))].concat());
        let told = report.ingresses[0].fields.first().cloned();
        let how = told.iter().flat_map(|line| &line.how);
        let how: Vec<String> = how.map(ToString::to_string).collect();
        (report.verdict(), how.concat())
    };
    assert_eq!(verdict("outside"), (Verdict::Same, String::new()));
    let (told, how) = verdict("inside");
    assert_eq!(told, Verdict::Unsupported, "{how}");
    assert!(
        how.contains("is an alias of web.shop.pod.cluster.local"),
        "{how}"
    );
    // nginx has nowhere to send them either.
    let (told, how) = verdict("none");
    assert_eq!(told, Verdict::Different, "{how}");
}

#[test]
fn a_default_backend_beside_rules_takes_more_hosts_than_with_nginx() {
    let backend = "defaultBackend: {service: {name: a, port: {number: 80}}}";
    let rule = "rules: [{host: a.example.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: a, port: {number: 80}}}}]}}]";
    let verdict = |spec: &str| {
        let report = report(&ingress(
            "web",
            &[],
            &format!("{{ingressClassName: nginx, {spec}}}"),
        ));
        let web = &report.ingresses[0];
        let field = web.fields.iter().find(|l| &*l.key == "spec.defaultBackend");
        field.map(|line| line.verdict)
    };
    assert_eq!(
        verdict(&format!("{backend}, {rule}")),
        Some(Verdict::Different)
    );
    assert_eq!(verdict(backend), None);
    assert_eq!(verdict(rule), None);
}

#[test]
fn a_port_that_is_not_there_counts_once_and_an_ingress_of_it_refuses_every_request() {
    let service = "{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop}, spec: {ports: [{name: http, port: 80, targetPort: 8080}]}}\n---\n";
    let told = |tls: &str, port: &str| {
        let spec = format!(
            "{{ingressClassName: nginx, {tls}rules: [{{host: a.com, http: {{paths: [{{path: /, pathType: Prefix, backend: {{service: {{name: web, port: {port}}}}}}}]}}}}]}}"
        );
        let report = report(&[service, &ingress("web", &[], &spec)].concat());
        let web = &report.ingresses[0];
        let needs = report.summary.attention.iter().map(|told| told.ingresses);
        (
            report.summary.closed,
            web.verdict,
            web.fields.len(),
            needs.sum::<usize>(),
        )
    };
    let fine = (0, Verdict::Same, 0, 0);
    assert_eq!(told("", "{number: 80}"), fine);
    let tls = "tls: [{hosts: [a.com], secretName: cert}], ";
    assert_eq!(told(tls, "{number: 80}"), fine);
    // With nginx they get 503 as well, in whatever way the port is named.
    let refused = (1, Verdict::Different, 1, 1);
    for port in ["{number: 81}", "{name: admin}", "{}", "{number: 70000}"] {
        assert_eq!(told("", port), refused, "{port}");
        assert_eq!(told(tls, port), refused, "{port}");
    }
    // That of the pods, which nginx takes.
    let lost = (1, Verdict::Unsupported, 1, 1);
    assert_eq!(told("", "{number: 8080}"), lost);
}

#[test]
fn what_answers_503_because_it_says_so_refuses_nothing() {
    let spec = "{ingressClassName: nginx, rules: [{host: a.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]}";
    let closed = |annotation: &str| {
        let stated = format!("nginx.ingress.kubernetes.io/{annotation}");
        report(&ingress("web", &[stated], spec)).summary.closed
    };
    assert_eq!(closed("configuration-snippet: return 503;"), 0);
    assert_eq!(closed("enable-modsecurity: 'true'"), 1);
}

#[test]
fn ranges_of_addresses_are_counted_as_people_do() {
    let does = |ranges: &str| {
        let spec = "{ingressClassName: nginx, rules: [{host: a.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]}";
        let annotation = format!("nginx.ingress.kubernetes.io/whitelist-source-range: {ranges}");
        let report = report(&ingress("web", &[annotation], spec));
        report.ingresses[0].routes[0].does.join("; ")
    };
    let one = does("10.0.0.0/8");
    assert!(one.contains("only from 1 range of addresses"), "{one}");
    let two = does("10.0.0.0/8,192.0.2.0/24");
    assert!(two.contains("only from 2 ranges of addresses"), "{two}");
}
