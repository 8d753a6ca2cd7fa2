//! Templates render as Go 1.26 and Sprig 3.3 render them: outputs and errors of the cases in `tests/cases` were made
//! with Go. Where an error says something else here, the case has it under `ours`.

use std::path::Path;

use pilothouse_gotemplate::{
    Budget, Functions, IntType, List, Map, Struct, Template, Type, Value, json, yaml,
};
use serde_json::Value as Json;

fn mode(number: i64, name: &str) -> Value {
    Value::named("main.Mode", Value::Int(number, IntType::Int32), Some(name))
}

fn config(port: i32, mode: Value, sub: Value, metadata: Value) -> Struct {
    let (port_again, sub_again) = (port, sub.clone());
    Struct::new("*main.Config")
        .field("Port", port)
        .field("Mode", mode)
        .field("Sub", sub)
        .field("Metadata", metadata)
        .method("GetPort", &[], move |_| Ok(port_again.into()))
        .method("GetSub", &[], move |_| Ok(sub_again.clone()))
        .method("Hello", &[Type::String], |args| {
            Ok(format!("hello {}", args[0].as_str().unwrap_or_default()).into())
        })
        .method("Fails", &[], |_| Err("it failed".into()))
        .json(format!(r#"{{"port":{port}}}"#))
}

fn no_config() -> Struct {
    Struct::new("*main.Config")
        .field("Port", 0)
        .field("Mode", mode(0, "REDIRECT"))
        .field("Sub", Value::Nil)
        .field("Metadata", Value::Map(Map::nil(Type::String)))
        .method("GetPort", &[], |_| Ok(0.into()))
        .method("GetSub", &[], |_| Ok(no_config().into()))
        .nil()
}

fn item(name: &str, port: i32, protocol: &str) -> Value {
    Struct::new("main.Item")
        .field("Name", name)
        .field("Port", port)
        .field(
            "Proto",
            Value::named("main.Protocol", protocol.into(), None),
        )
        .json(format!(
            r#"{{"name":"{name}","port":{port},"proto":"{protocol}"}}"#
        ))
        .into()
}

/// Structs, typed maps and numbers, nil pointers.
fn world() -> Value {
    let values = r#"{"global":{"hub":"docker.io/x","tag":1.5,"port":15021,"big":15000000,"proxy":{"image":"proxyv2",
        "privileged":false,"resources":{"limits":{"cpu":"2000m"},"requests":null}},"list":["a",1,true,null],"empty":"",
        "none":null},"pilot":{"cni":{"enabled":true}},"revision":""}"#;
    let meta = Struct::new("main.Meta")
        .field("Name", "pod")
        .field("Labels", Value::string_map([("app", "web"), ("version", "v1")]))
        .field("Annotations", Value::string_map([("a/b", "1"), ("x", "")]))
        .json(r#"{"name":"pod","labels":{"app":"web","version":"v1"},"annotations":{"a/b":"1","x":""}}"#.to_owned());
    let sub = config(
        2,
        mode(2, "NONE"),
        no_config().into(),
        Value::Map(Map::nil(Type::String)),
    );
    let items = vec![item("app", 80, "TCP"), item("side", 90, "UDP")];
    Struct::new("*main.World")
        .field("Meta", meta)
        .field(
            "Config",
            config(
                15001,
                mode(1, "TPROXY"),
                sub.into(),
                Value::string_map([("B", "2"), ("A", "1")]),
            ),
        )
        .field("None", no_config())
        .field(
            "Values",
            json::read(&serde_json::from_str(values).expect("JSON")),
        )
        .field("Names", Value::strings(["one", "two", "three"]))
        .field(
            "Items",
            Value::List(List::new(Type::Named("main.Item".into()), items)),
        )
        .field("Yes", Value::pointer(Type::Bool, Some(true.into())))
        .field("NoBool", Value::pointer(Type::Bool, None))
        .field("UID", 1337_i64)
        .field("Size", Value::Uint(200, IntType::Uint8))
        .field("Ratio", 0.25)
        .field("Revision", "")
        .field("On", true)
        .field("NilMap", Value::Map(Map::nil(Type::String)))
        .field("NilList", Value::List(List::nil(Type::String)))
        .into()
}

fn functions() -> Functions {
    let mut functions = Functions::sprig();
    functions.add("toYaml", &[Type::Any], |meter, args| {
        let text = json::write(meter, args.value(0), false)?;
        Ok(yaml::write(&serde_json::from_str(&text).map_err(|error| error.to_string())?).into())
    });
    functions.add(
        "isset",
        &[Type::map_of(Type::String), Type::String],
        |_, args| Ok(args.map(0).contains(args.str(1)).into()),
    );
    functions.add("takesMeta", &[Type::Named("main.Meta".into())], |_, _| {
        Ok("pod".into())
    });
    functions.add(
        "takesConfig",
        &[Type::Named("*main.Config".into())],
        |_, args| {
            Ok(if args.value(0).is_nil() {
                "nil"
            } else {
                "15001"
            }
            .into())
        },
    );
    functions.add("takesStrings", &[Type::list_of(Type::String)], |_, args| {
        Ok(Value::int(args.list(0).len() as i64))
    });
    functions
}

fn rendered(
    template: &str,
    data: &Json,
    functions: &Functions,
) -> Result<String, pilothouse_gotemplate::Error> {
    let data = match data {
        Json::String(name) if name == "world" => world(),
        other => json::read(other),
    };
    Template::parse("t", template, functions)?.render(&data, functions, &Budget::default())
}

/// An error as Go prints it: without a column where it comes from parsing.
fn shown(error: &pilothouse_gotemplate::Error) -> String {
    match error.executing {
        Some(_) => error.to_string(),
        None => format!(
            "template: {}:{}: {}",
            error.template, error.line, error.message
        ),
    }
}

#[test]
fn templates_render_as_gos_do() {
    let functions = functions();
    let mut count = 0;
    let mut faults = Vec::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    for file in files {
        let cases: Vec<Json> =
            serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        for case in cases {
            count += 1;
            let template = case["template"].as_str().unwrap();
            let got = rendered(template, &case["data"], &functions).map_err(|error| shown(&error));
            let ours = case["ours"].as_str().or(case["error"].as_str());
            let wanted = match case["output"].as_str() {
                Some(output) => Ok(output.to_owned()),
                None => Err(ours.unwrap().to_owned()),
            };
            if got != wanted {
                let name = file.file_stem().unwrap().to_string_lossy();
                faults.push(format!(
                    "{name}: {template}\n    wanted {wanted:?}\n    got    {got:?}"
                ));
            }
        }
    }
    assert!(count > 300, "only {count} cases");
    assert!(
        faults.is_empty(),
        "{} of {count} cases differ:\n{}",
        faults.len(),
        faults.join("\n")
    );
}
