//! Text: cutting, trimming, joining, quoting.

use super::convert::{text, texts};
use super::{A, I, S};
use crate::budget::Meter;
use crate::functions::{Fault, Functions};
use crate::print::{quote, value};
use crate::value::Value;

pub(super) fn add(functions: &mut Functions) {
    cutting(functions);
    trimming(functions);
    searching(functions);
    joining(functions);
    functions.add("repeat", &[I, S], |meter, args| {
        let count = usize::try_from(args.int(0)).map_err(|_| "strings: negative Repeat count")?;
        meter.make(args.str(1).len().saturating_mul(count))?;
        Ok(args.str(1).repeat(count).into())
    });
    functions.add("replace", &[S, S, S], |meter, args| {
        let (old, new, text) = (args.str(0), args.str(1), args.str(2));
        let count = if old.is_empty() {
            text.chars().count() + 1
        } else {
            text.matches(old).count()
        };
        meter.make(text.len().saturating_add(count.saturating_mul(new.len())))?;
        Ok(text.replace(old, new).into())
    });
    functions.add("indent", &[I, S], |meter, args| {
        indent(meter, "", args.int(0), args.str(1))
    });
    functions.add("nindent", &[I, S], |meter, args| {
        indent(meter, "\n", args.int(0), args.str(1))
    });
    functions.add("plural", &[S, S, I], |_, args| {
        Ok(args.str(usize::from(args.int(2) != 1)).into())
    });
    functions.add("toString", &[A], |meter, args| {
        text(meter, args.value(0)).map(Value::from)
    });
    functions.add("toStrings", &[A], |meter, args| {
        texts(meter, args.value(0)).map(Value::strings)
    });
}

/// A part of a text by bytes. Halves of characters become replacement characters.
pub(crate) fn cut(text: &str, from: usize, to: usize) -> Value {
    String::from_utf8_lossy(&text.as_bytes()[from..to])
        .into_owned()
        .into()
}

fn cutting(functions: &mut Functions) {
    functions.add("trunc", &[I, S], |_, args| {
        let (count, text) = (args.int(0), args.str(1));
        let length = text.len() as i64;
        Ok(match count {
            _ if count < 0 && length + count > 0 => {
                cut(text, (length + count) as usize, text.len())
            }
            _ if count >= 0 && length > count => cut(text, 0, count as usize),
            _ => text.into(),
        })
    });
    functions.add("substr", &[I, I, S], |_, args| {
        let (from, to, text) = (args.int(0), args.int(1), args.str(2));
        let length = text.len() as i64;
        let (from, to) = match (from, to) {
            (..0, _) => (0, to),
            (_, ..0) => (from, length),
            _ if to > length => (from, length),
            _ => (from, to),
        };
        if !(0..=length).contains(&to) {
            return Err(format!(
                "runtime error: slice bounds out of range [:{to}] with length {length}"
            )
            .into());
        }
        if from > to {
            return Err(format!("runtime error: slice bounds out of range [{from}:{to}]").into());
        }
        Ok(cut(text, from as usize, to as usize))
    });
    functions.add("abbrev", &[I, S], |_, args| {
        Ok(abbreviated(0, args.int(0), args.str(1)))
    });
    functions.add("abbrevboth", &[I, I, S], |_, args| {
        Ok(abbreviated(args.int(0), args.int(1), args.str(2)))
    });
}

/// A text of at most that width, with dots where something is left out.
fn abbreviated(offset: i64, width: i64, text: &str) -> Value {
    let length = text.len() as i64;
    if width < 4 || offset > 0 && width < 7 || length <= width {
        return text.into();
    }
    let offset = if length - offset < width - 3 {
        length - (width - 3)
    } else {
        offset.min(length)
    };
    let dotted = |value: Value, before: bool| {
        let part = value.as_str().unwrap_or_default().to_owned();
        if before {
            format!("...{part}")
        } else {
            format!("{part}...")
        }
    };
    if offset <= 4 {
        return dotted(cut(text, 0, (width - 3) as usize), false).into();
    }
    let from = offset as usize;
    if offset + width - 3 < length {
        let middle = cut(text, from, from + (width - 6) as usize);
        return format!("...{}", dotted(middle, false)).into();
    }
    dotted(cut(text, (length - (width - 3)) as usize, text.len()), true).into()
}

fn trimming(functions: &mut Functions) {
    functions.add("trim", &[S], |_, args| Ok(args.str(0).trim().into()));
    for name in ["trimAll", "trimall"] {
        functions.add(name, &[S, S], |_, args| {
            let set: Vec<char> = args.str(0).chars().collect();
            Ok(args.str(1).trim_matches(&set[..]).into())
        });
    }
    functions.add("trimSuffix", &[S, S], |_, args| {
        Ok(args
            .str(1)
            .strip_suffix(args.str(0))
            .unwrap_or(args.str(1))
            .into())
    });
    functions.add("trimPrefix", &[S, S], |_, args| {
        Ok(args
            .str(1)
            .strip_prefix(args.str(0))
            .unwrap_or(args.str(1))
            .into())
    });
    functions.add("nospace", &[S], |_, args| {
        Ok(args
            .str(0)
            .chars()
            .filter(|c| !c.is_whitespace())
            .collect::<String>()
            .into())
    });
}

fn searching(functions: &mut Functions) {
    functions.add("contains", &[S, S], |_, args| {
        Ok(args.str(1).contains(args.str(0)).into())
    });
    functions.add("hasPrefix", &[S, S], |_, args| {
        Ok(args.str(1).starts_with(args.str(0)).into())
    });
    functions.add("hasSuffix", &[S, S], |_, args| {
        Ok(args.str(1).ends_with(args.str(0)).into())
    });
}

fn joining(functions: &mut Functions) {
    functions.add_variadic("quote", &[], A, |meter, args| {
        each(meter, args.rest(0), |text| quote(&text))
    });
    functions.add_variadic("squote", &[], A, |meter, args| {
        each(meter, args.rest(0), |text| format!("'{text}'"))
    });
    functions.add_variadic("cat", &[], A, |meter, args| {
        each(meter, args.rest(0), |text| text)
    });
    functions.add("join", &[S, A], |meter, args| {
        let texts = texts(meter, args.value(1))?;
        let length: usize = texts
            .iter()
            .map(|text| text.len() + args.str(0).len())
            .sum();
        meter.make(length)?;
        Ok(texts.join(args.str(0)).into())
    });
    functions.add("splitList", &[S, S], |meter, args| {
        Ok(Value::strings(split(meter, args.str(0), args.str(1), -1)?))
    });
    functions.add("split", &[S, S], |meter, args| {
        Ok(numbered(split(meter, args.str(0), args.str(1), -1)?))
    });
    functions.add("splitn", &[S, I, S], |meter, args| {
        Ok(numbered(split(
            meter,
            args.str(0),
            args.str(2),
            args.int(1),
        )?))
    });
    functions.add("sortAlpha", &[A], |meter, args| {
        let mut texts = texts(meter, args.value(0))?;
        texts.sort();
        Ok(Value::strings(texts))
    });
}

/// Values that are not nil, with a space between them.
fn each(meter: &Meter, values: &[Value], shown: fn(String) -> String) -> Result<Value, Fault> {
    let mut out = Vec::with_capacity(values.len());
    for item in values.iter().filter(|value| !matches!(value, Value::Nil)) {
        let text = match item {
            Value::String(text) => text.to_string(),
            other => value(meter, other)?,
        };
        let text = shown(text);
        meter.make(text.len() + 1)?;
        out.push(text);
    }
    Ok(out.join(" ").into())
}

/// Parts between separators, at most that many if it is not negative; each character for an empty separator.
fn split<'t>(
    meter: &Meter,
    separator: &str,
    text: &'t str,
    most: i64,
) -> Result<Vec<&'t str>, Fault> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let parts: Vec<&str> = if most == 0 {
        Vec::new()
    } else if separator.is_empty() {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            let end = if parts.len() + 1 == most {
                rest.len()
            } else {
                c.len_utf8()
            };
            parts.push(&rest[..end]);
            rest = &rest[end..];
        }
        parts
    } else {
        text.splitn(most, separator).collect()
    };
    meter.step(parts.len())?;
    meter.make(text.len() + 32 * parts.len())?;
    Ok(parts)
}

/// Parts under the keys `_0`, `_1` and so on.
fn numbered(parts: Vec<&str>) -> Value {
    Value::string_map(
        parts
            .into_iter()
            .enumerate()
            .map(|(i, part)| (format!("_{i}"), part)),
    )
}

fn indent(meter: &Meter, before: &str, spaces: i64, text: &str) -> Result<Value, Fault> {
    let spaces = usize::try_from(spaces).map_err(|_| "strings: negative Repeat count")?;
    let lines = 1 + text.matches('\n').count();
    meter.make(
        text.len()
            .saturating_add(spaces.saturating_mul(lines))
            .saturating_add(1),
    )?;
    let pad = " ".repeat(spaces);
    Ok(format!("{before}{pad}{}", text.replace('\n', &format!("\n{pad}"))).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Type;

    #[test]
    fn a_cut_character_leaves_a_replacement() {
        assert_eq!(cut("aé", 0, 2).as_str(), Some("a\u{fffd}"));
        assert_eq!(
            Value::strings(["a"]).type_of(),
            Some(Type::list_of(Type::String))
        );
    }
}
