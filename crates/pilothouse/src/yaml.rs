//! JSON as YAML, for people.

use std::io::{self, Write};

use serde_json::Value;

/// Writes JSON as YAML in block style; texts that YAML could take for something else are quoted as JSON quotes them.
pub(crate) fn write_yaml(out: &mut dyn Write, value: &Value, indent: usize) -> io::Result<()> {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, value) in map {
                write!(out, "{:indent$}{}:", "", scalar(key))?;
                nested(out, value, indent)?;
            }
            Ok(())
        }
        Value::Array(list) if !list.is_empty() => {
            for value in list {
                let mut text = Vec::new();
                write_yaml(&mut text, value, indent + 2)?;
                let text = String::from_utf8_lossy(&text).into_owned();
                write!(out, "{:indent$}- {}", "", text.trim_start())?;
            }
            Ok(())
        }
        Value::String(s) => writeln!(out, "{:indent$}{}", "", scalar(s)),
        other => writeln!(out, "{:indent$}{other}", ""),
    }
}

fn nested(out: &mut dyn Write, value: &Value, indent: usize) -> io::Result<()> {
    match value {
        Value::Object(map) if !map.is_empty() => {
            writeln!(out)?;
            write_yaml(out, value, indent + 2)
        }
        Value::Array(list) if !list.is_empty() => {
            writeln!(out)?;
            write_yaml(out, value, indent)
        }
        other => {
            write!(out, " ")?;
            write_yaml(out, other, 0)
        }
    }
}

fn scalar(text: &str) -> String {
    let plain = !text.is_empty()
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "_-./@".contains(c))
        && text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && !["true", "false", "null", "yes", "no", "on", "off", "y", "n"]
            .contains(&text.to_ascii_lowercase().as_str());
    if plain {
        text.to_owned()
    } else {
        Value::from(text).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn yaml_quotes_what_yaml_would_misread() {
        let mut out = Vec::new();
        write_yaml(
            &mut out,
            &json!({ "a": ["x", { "b": "yes", "c": [] }], "n": 5, "s": "0.0.0.0:80" }),
            0,
        )
        .unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "a:\n- x\n- b: \"yes\"\n  c: []\n\"n\": 5\ns: \"0.0.0.0:80\"\n"
        );
    }
}
