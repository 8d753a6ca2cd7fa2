//! Any text as a template over data with every kind of value: no panic, output within its budget, and errors that name a
//! place in the text.
#![no_main]

use std::sync::LazyLock;

use gotemplate::{Budget, Functions, List, Map, Struct, Template, Type, Value};
use libfuzzer_sys::fuzz_target;

static FUNCTIONS: LazyLock<Functions> = LazyLock::new(Functions::sprig);

fn data() -> Value {
    Struct::new("*main.Data")
        .field("Name", "pod")
        .field("Labels", Value::string_map([("app", "web")]))
        .field("Values", Value::dict([("a", Value::Nil), ("b", Value::dict([("c", Value::int(1))]))]))
        .field("Items", Value::strings(["x", "y"]))
        .field("Yes", Value::pointer(Type::Bool, Some(true.into())))
        .field("No", Value::pointer(Type::Bool, None))
        .field("NilList", Value::List(List::nil(Type::String)))
        .field("NilMap", Value::Map(Map::nil(Type::Any)))
        .field("Mode", Value::named("main.Mode", Value::int(1), Some("ON")))
        .method("Get", &[Type::String], |args| Ok(args[0].clone()))
        .json("{}".to_owned())
        .into()
}

fuzz_target!(|text: &str| {
    let budget = Budget { steps: 20_000, output: 1 << 16, made: 1 << 20, ..Budget::default() };
    let rendered = Template::parse("t", text, &FUNCTIONS).and_then(|t| t.render(&data(), &FUNCTIONS, &budget));
    match rendered {
        Ok(output) => assert!(output.len() <= budget.output),
        Err(error) => {
            assert!(error.line <= 1 + text.matches('\n').count());
            assert!(!error.to_string().is_empty());
        }
    }
});
