//! What a template may use is bounded, and what is left out says so.

use pilothouse_gotemplate::{Budget, Functions, Template, Value};

fn error(template: &str) -> String {
    let functions = Functions::sprig();
    let result = Template::parse("t", template, &functions)
        .and_then(|template| template.render(&Value::Missing, &functions, &Budget::default()));
    match result {
        Ok(output) => panic!("{template}: {} bytes", output.len()),
        Err(error) => error.to_string(),
    }
}

#[test]
fn what_costs_too_much_is_an_error_with_its_place() {
    let loops = "{{ range until 2000 }}{{ range until 2000 }}{{ end }}{{ end }}";
    let nested = r#"{{ $x := list }}{{ range until 200000 }}{{ $x = list $x }}{{ end }}{{ $x }}"#;
    let chained = r#"{{ $d := dict }}{{ $c := $d }}{{ range until 20000 }}{{ $n := dict }}{{ $_ := set $c "n" $n }}{{ $c = $n }}{{ end }}{{ toJson $d | len }}{{ $d }}"#;
    let doubled = r#"{{ $x := "aaaaaaaaaaaaaaaa" }}{{ range until 60 }}{{ $x = printf "%s%s" $x $x }}{{ end }}"#;
    let shared = "{{ $x := list 1 }}{{ range until 60 }}{{ $x = list $x $x }}{{ end }}{{ $x }}";
    let output = r#"{{ $x := repeat 1000000 "a" }}{{ $x }}{{ $x }}{{ $x }}{{ $x }}{{ $x }}"#;
    for (template, message) in [
        (
            "{{ repeat 1000000000 \"a\" }}",
            "the template makes too much text",
        ),
        (
            "{{ indent 1000000000 \"a\" }}",
            "the template makes too much text",
        ),
        (
            "{{ range 9999999999 }}{{ end }}",
            "the template takes too many steps",
        ),
        (
            "{{ until 9999999999 }}",
            "the template takes too many steps",
        ),
        (
            "{{ seq 0 9999999999 }}",
            "the template takes too many steps",
        ),
        (loops, "the template takes too many steps"),
        (nested, "nested too deeply"),
        (chained, "nested too deeply"),
        (doubled, "the template makes too much text"),
        (shared, "the template takes too many steps"),
        (output, "the output has more than 4194304 bytes"),
        (
            "{{ define \"r\" }}{{ template \"r\" }}{{ end }}{{ template \"r\" }}",
            "nested too deeply",
        ),
        (
            "{{ printf \"%900000d\" 1 | repeat 100 }}",
            "the template makes too much text",
        ),
        (
            "{{ mustRegexMatch \"(a{100}){100}{100}\" \"a\" }}",
            "the regular expression is too large",
        ),
        (
            "{{ $d := dict }}{{ $_ := set $d \"a\" (list $d) }}",
            "a dict cannot hold itself",
        ),
        (
            "{{ $d := dict \"x\" (dict) }}{{ $_ := set $d.x \"a\" $d }}",
            "a dict cannot hold itself",
        ),
        ("{{ now }}", "function \"now\" is not available"),
    ] {
        let error = error(template);
        assert!(error.contains(message), "{template}: {error}");
        assert!(error.starts_with("template: t:1:"), "{error}");
    }
}

#[test]
fn nesting_is_bounded_before_the_stack_is() {
    let blocks = format!("{}{}", "{{ if true }}".repeat(200), "{{ end }}".repeat(200));
    assert!(error(&blocks).contains("blocks are nested too deeply"));
    let elses = format!(
        "{}{}",
        "{{ if false }}".to_owned() + &"{{ else if false }}".repeat(200),
        "{{ end }}"
    );
    assert!(error(&elses).contains("blocks are nested too deeply"));
    let parens = format!("{{{{ {}1{} }}}}", "(".repeat(200), ")".repeat(200));
    assert!(error(&parens).contains("max expression depth exceeded"));
    // Every level of the deepest template that is allowed, with a recursion that goes as deep as it may.
    let body = format!(
        "{}{}",
        "{{ if true }}".repeat(40),
        "{{ template \"r\" }}".to_owned() + &"{{ end }}".repeat(40)
    );
    assert!(
        error(&format!(
            "{{{{ define \"r\" }}}}{body}{{{{ end }}}}{{{{ template \"r\" }}}}"
        ))
        .contains("nested too deeply")
    );
    let calls = format!("{{{{ {}1{} }}}}", "(list ".repeat(90), ")".repeat(90));
    let functions = Functions::sprig();
    let template = Template::parse("t", &calls, &functions).unwrap();
    assert!(
        template
            .render(&Value::Missing, &functions, &Budget::default())
            .is_ok()
    );
}

#[test]
fn functions_that_are_left_out_say_why() {
    for (call, why) in [
        ("env \"PATH\"", "may not read the environment"),
        ("genCA \"a\" 1", "may not make keys"),
        ("uuidv4", "the same result"),
        ("getHostByName \"a\"", "may not use the network"),
        ("call nil", "no functions among the values"),
    ] {
        let error = error(&format!("{{{{ {call} }}}}"));
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn a_template_is_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Template>();
    shared::<Functions>();
}
