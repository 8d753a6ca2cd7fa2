//! Regular expressions. Their syntax is that of the `regex` crate, which has nearly all of Go's.

use regex::{Regex, RegexBuilder};

use super::{I, S};
use crate::budget::Meter;
use crate::functions::{Fault, Functions};
use crate::value::{List, Type, Value};

/// The most bytes that a compiled expression may take.
const MAX_SIZE: usize = 1 << 20;

pub(super) fn add(functions: &mut Functions) {
    functions.add("regexMatch", &[S, S], |meter, args| {
        match compiled(meter, args.str(0), args.str(1)) {
            Err(fault) if !fault.is_limit() => Ok(false.into()),
            regex => Ok(regex?.is_match(args.str(1)).into()),
        }
    });
    functions.add("mustRegexMatch", &[S, S], |meter, args| {
        Ok(compiled(meter, args.str(0), args.str(1))?
            .is_match(args.str(1))
            .into())
    });
    functions.add("regexQuoteMeta", &[S], |meter, args| {
        meter.make(args.str(0).len().saturating_mul(2))?;
        let special = |c: char| r"\.+*?()|[]{}^$".contains(c);
        let quoted = args
            .str(0)
            .chars()
            .flat_map(|c| special(c).then_some('\\').into_iter().chain([c]));
        Ok(quoted.collect::<String>().into())
    });
    for name in ["regexFind", "mustRegexFind"] {
        functions.add(name, &[S, S], |meter, args| {
            let regex = compiled(meter, args.str(0), args.str(1))?;
            Ok(regex
                .find(args.str(1))
                .map_or("", |found| found.as_str())
                .into())
        });
    }
    for name in ["regexFindAll", "mustRegexFindAll"] {
        functions.add(name, &[S, S, I], |meter, args| {
            let regex = compiled(meter, args.str(0), args.str(1))?;
            let most = usize::try_from(args.int(2)).unwrap_or(usize::MAX);
            let found: Vec<&str> = regex
                .find_iter(args.str(1))
                .take(most)
                .map(|found| found.as_str())
                .collect();
            strings(meter, found)
        });
    }
    for name in ["regexReplaceAll", "mustRegexReplaceAll"] {
        functions.add(name, &[S, S, S], |meter, args| {
            let regex = compiled(meter, args.str(0), args.str(1))?;
            replaced(meter, &regex, args.str(1), |captures, out| {
                captures.expand(args.str(2), out)
            })
        });
    }
    for name in ["regexReplaceAllLiteral", "mustRegexReplaceAllLiteral"] {
        functions.add(name, &[S, S, S], |meter, args| {
            let regex = compiled(meter, args.str(0), args.str(1))?;
            replaced(meter, &regex, args.str(1), |_, out| {
                out.push_str(args.str(2))
            })
        });
    }
    for name in ["regexSplit", "mustRegexSplit"] {
        functions.add(name, &[S, S, I], |meter, args| {
            let regex = compiled(meter, args.str(0), args.str(1))?;
            strings(meter, split(&regex, args.str(1), args.int(2)))
        });
    }
}

/// The expression. Compiling and searching cost steps by the sizes of expression and text.
fn compiled(meter: &Meter, expression: &str, text: &str) -> Result<Regex, Fault> {
    meter.step(100 + expression.len() * 10 + text.len() / 8)?;
    let regex = RegexBuilder::new(expression)
        .size_limit(MAX_SIZE)
        .dfa_size_limit(MAX_SIZE)
        .build();
    regex.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => "the regular expression is too large".into(),
        other => format!("error parsing regexp: {other}").into(),
    })
}

/// A list of strings, nil if there are none.
fn strings(meter: &Meter, found: Vec<&str>) -> Result<Value, Fault> {
    meter.step(found.len())?;
    meter.make(found.iter().map(|text| text.len() + 32).sum())?;
    Ok(if found.is_empty() {
        Value::List(List::nil(Type::String))
    } else {
        Value::strings(found)
    })
}

fn replaced(
    meter: &Meter,
    regex: &Regex,
    text: &str,
    replace: impl Fn(&regex::Captures<'_>, &mut String),
) -> Result<Value, Fault> {
    let mut out = String::new();
    let mut end = 0;
    for captures in regex.captures_iter(text) {
        let before = out.len();
        if let Some(whole) = captures.get(0) {
            out.push_str(&text[end..whole.start()]);
            end = whole.end();
        }
        replace(&captures, &mut out);
        meter.step(1)?;
        meter.make(out.len() - before)?;
    }
    out.push_str(&text[end..]);
    Ok(out.into())
}

/// What stands between matches, at most that many parts if it is not negative.
fn split<'t>(regex: &Regex, text: &'t str, most: i64) -> Vec<&'t str> {
    if most == 0 {
        return Vec::new();
    }
    if text.is_empty() && !regex.as_str().is_empty() {
        return vec![""];
    }
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let mut parts = Vec::new();
    let (mut start, mut end) = (0, 0);
    for found in regex.find_iter(text) {
        if parts.len() + 1 >= most {
            break;
        }
        end = found.start();
        if found.end() != 0 {
            parts.push(&text[start..end]);
        }
        start = found.end();
    }
    if end != text.len() {
        parts.push(&text[start..]);
    }
    parts
}
