//! The keys of a text that is not YAML, with their scalar values and what they stand in: as far as comments, quotes, brackets and
//! indentation say.

/// A key, and what stands behind it.
#[derive(Debug)]
pub(super) struct Field<'a> {
    pub(super) key: &'a str,
    /// The begin of a scalar, as a name may be written; empty where there is none.
    pub(super) value: &'a str,
    /// The field in whose value it stands.
    pub(super) within: Option<usize>,
    /// How far its line is indented.
    pub(super) indent: usize,
}

/// The fields of a text, in the order written. `is_flow` says that the text begins inside of brackets.
pub(super) fn fields(text: &str, is_flow: bool) -> Vec<Field<'_>> {
    let mut scanner = Scanner::default();
    if is_flow {
        scanner.flow.push(Flow {
            within: None,
            indent: None,
        });
    }
    for line in text.split(['\n', '\r']) {
        scanner.line(line);
    }
    scanner.fields
}

/// Brackets that are open.
struct Flow {
    /// The field whose value they are in.
    within: Option<usize>,
    /// How far the line is indented on which they begin; `None` where that is before the text.
    indent: Option<usize>,
}

#[derive(Default)]
struct Scanner<'a> {
    fields: Vec<Field<'a>>,
    /// The fields of blocks in whose values a line may stand, the outermost first, with how far they are indented.
    open: Vec<(usize, usize)>,
    flow: Vec<Flow>,
    /// The field whose value comes next.
    awaited: Option<usize>,
    /// How far the key is indented whose value is a text of several lines.
    literal: Option<usize>,
}

impl<'a> Scanner<'a> {
    fn line(&mut self, line: &'a str) {
        let line = line.trim_end();
        let start = line.trim_start();
        let indent = line.len() - start.len();
        if start.is_empty() || self.literal.is_some_and(|of| indent > of) {
            return;
        }
        self.literal = None;
        if start.starts_with('#') {
            return;
        }
        let begin = self.flow.first().and_then(|flow| flow.indent);
        if begin.is_some_and(|begin| indent <= begin) && begins_block(start) {
            // Brackets that nothing closes.
            self.flow.clear();
            self.awaited = None;
        }
        match self.flow.is_empty() {
            true => self.block(line),
            false => self.brackets(start, indent),
        }
    }

    /// Reads a line outside of brackets.
    fn block(&mut self, line: &'a str) {
        let rest =
            line.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '-' | '\u{feff}'));
        let indent = line.len() - rest.len();
        while self.open.last().is_some_and(|(_, of)| *of >= indent) {
            self.open.pop();
        }
        let within = self.open.last().map(|(field, _)| *field);
        if rest.starts_with(['{', '[']) {
            self.awaited = within;
            return self.brackets(rest, indent);
        }
        let Some((key, value)) = key(rest).or_else(|| key_without_colon(rest)) else {
            // A value may stand on the line after its key.
            let is_item = line.trim_start().starts_with('-');
            if let Some(field) = self.awaited.take().filter(|_| !is_item) {
                self.set(field, rest);
            }
            return;
        };
        let field = self.push(key, within, indent);
        let value = without_properties(value);
        match value.chars().next() {
            None | Some('#') => self.open.push((field, indent)),
            Some('|' | '>') => {
                self.literal = Some(indent);
                self.awaited = None;
            }
            Some('{' | '[') => {
                self.open.push((field, indent));
                self.brackets(value, indent);
            }
            Some(_) => self.set(field, value),
        }
    }

    /// Reads what is left of a line inside of brackets, or from one on.
    fn brackets(&mut self, mut rest: &'a str, indent: usize) {
        loop {
            rest = rest.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, ',' | ':'));
            match rest.chars().next() {
                None | Some('#') => return,
                Some('{' | '[') => {
                    let outer = self.flow.last().and_then(|flow| flow.within);
                    self.flow.push(Flow {
                        within: self.awaited.take().or(outer),
                        indent: Some(indent),
                    });
                    rest = &rest[1..];
                }
                Some('}' | ']') => {
                    rest = &rest[1..];
                    self.awaited = None;
                    // The outermost may have been closed too early.
                    let is_outermost =
                        self.flow.len() == 1 && self.flow.iter().all(|flow| flow.within.is_none());
                    if !is_outermost {
                        self.flow.pop();
                    }
                    if self.flow.is_empty() {
                        return;
                    }
                }
                Some(_) => rest = self.token(rest, indent),
            }
        }
    }

    /// Reads a key or a value inside of brackets; returns what follows.
    fn token(&mut self, rest: &'a str, indent: usize) -> &'a str {
        let (text, after) = quoted(rest).unwrap_or_else(|| plain(rest, self.awaited.is_some()));
        let within = self.flow.last().and_then(|flow| flow.within);
        let is_key = after.trim_start().starts_with(':');
        match (is_key, self.awaited) {
            (true, awaited) => {
                let text = text.trim().trim_matches(['"', '\'']);
                // The comma before a key may be missing.
                let divided = text.rsplit_once([' ', '\t']);
                let key = match awaited.zip(divided) {
                    Some((field, (value, key))) => {
                        self.set(field, value);
                        key
                    }
                    None => text,
                };
                self.push(key, within, indent);
            }
            (false, Some(field)) => self.set(field, text),
            (false, None) => {}
        }
        after
    }

    fn push(&mut self, key: &'a str, within: Option<usize>, indent: usize) -> usize {
        let field = self.fields.len();
        self.fields.push(Field {
            key,
            value: "",
            within,
            indent,
        });
        self.awaited = Some(field);
        field
    }

    /// Gives a field its value, unless there is nothing but an anchor or a tag yet.
    fn set(&mut self, field: usize, text: &'a str) {
        let text = without_properties(text);
        if text.is_empty() {
            return;
        }
        self.awaited = None;
        if let Some(field) = self.fields.get_mut(field) {
            field.value = scalar(text);
        }
    }
}

/// Whether a line begins with a key as blocks have it.
fn begins_block(start: &str) -> bool {
    let start = start.trim_start_matches(['-', ' ', '\t']);
    start.starts_with(|c: char| c.is_ascii_alphanumeric()) && key(start).is_some()
}

/// The key at the begin of a line, and what follows its colon.
fn key(line: &str) -> Option<(&str, &str)> {
    let (key, rest) = quoted(line).unwrap_or_else(|| word(line));
    let rest = rest.trim_start().strip_prefix([':', '='])?;
    (!key.is_empty()).then(|| (key, rest.trim_start()))
}

/// A key and a value, each a word, between which the colon is missing.
fn key_without_colon(line: &str) -> Option<(&str, &str)> {
    let (key, rest) = word(line);
    let value = rest.trim_start();
    let (value, after) = match value.len() < rest.len() {
        true => quoted(value).unwrap_or_else(|| word(value)),
        false => return None,
    };
    let after = after.trim_start();
    let is_all = after.is_empty() || after.starts_with('#');
    (is_all && !key.is_empty() && !value.is_empty()).then_some((key, value))
}

/// The word at the begin of a text, as keys are, and what follows.
fn word(text: &str) -> (&str, &str) {
    let is_part =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | '/' | '<' | '~');
    text.split_at(text.find(|c| !is_part(c)).unwrap_or(text.len()))
}

/// What stands in quotes at the begin of a text, and what follows; a quote that its line does not close is closed there.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let inner = &text[1..];
    let mut is_escaped = false;
    let end = inner.find(|c: char| {
        let ends = c == quote && !is_escaped;
        is_escaped = quote == '"' && c == '\\' && !is_escaped;
        ends
    });
    Some(match end {
        Some(end) => (&inner[..end], &inner[end + 1..]),
        None => (inner, ""),
    })
}

/// What stands without quotes inside of brackets, and what follows. Values may hold colons, keys do not.
fn plain(text: &str, is_value: bool) -> (&str, &str) {
    let mut before = ' ';
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let next = chars.peek().map(|(_, next)| *next);
        let is_colon = c == ':'
            && (!is_value
                || next.is_none_or(|next| {
                    next.is_whitespace() || matches!(next, '"' | '\'' | '{' | '[')
                }));
        let is_comment = c == '#' && before.is_whitespace();
        if at > 0 && (is_colon || is_comment || matches!(c, ',' | '{' | '}' | '[' | ']')) {
            return text.split_at(at);
        }
        before = c;
    }
    (text, "")
}

/// A value without the anchor and the tag before it.
fn without_properties(value: &str) -> &str {
    let mut value = value.trim_start();
    while value.starts_with(['&', '!']) {
        let end = value.find(char::is_whitespace).unwrap_or(value.len());
        value = value[end..].trim_start();
    }
    value
}

/// The begin of a scalar, as a name may be written.
fn scalar(text: &str) -> &str {
    let text = text.trim_start_matches([' ', '\t', ':', '"', '\'']);
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | ':');
    let end = text.find(|c| !is_part(c)).unwrap_or(text.len());
    text[..end].trim_end_matches(':')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each field with what it stands in.
    fn found(text: &str) -> Vec<String> {
        let fields = fields(text, false);
        let path = |field: &Field<'_>| {
            let mut path = vec![field.key];
            let mut within = field.within;
            while let Some(outer) = within {
                path.push(fields[outer].key);
                within = fields[outer].within;
            }
            path.reverse();
            format!("{}={}", path.join("."), field.value)
        };
        fields.iter().map(path).collect()
    }

    #[test]
    fn fields_are_found_with_what_they_stand_in() {
        let cases: &[(&str, &[&str])] = &[
            ("a:\n  b: c # d: e\n  f: g", &["a=", "a.b=c", "a.f=g"]),
            (
                "a: {b: 'c, d: e', f: [g, {h: i}]}\nj: k",
                &["a=", "a.b=c", "a.f=", "a.f.h=i", "j=k"],
            ),
            (
                "a: &n b\nc: !!str d\ne:\n  f\ng: {h: &i j}",
                &["a=b", "c=d", "e=f", "g=", "g.h=j"],
            ),
            ("a: |\n  b: c\nd: e", &["a=", "d=e"]),
            ("a: [\nb: {c: d\ne: f", &["a=", "b=", "b.c=d", "e=f"]),
            (
                "{\"a\": {\"b\": \"c\"\n\"d\": \"e\"}, \"f\": ",
                &["a=", "a.b=c", "a.d=e", "f="],
            ),
            ("a b\n- c: d\n  e: f", &["a=b", "c=d", "e=f"]),
            (
                "a:\n- b: c\n  d:\n    e: f",
                &["a=", "a.b=c", "a.d=", "a.d.e=f"],
            ),
            ("a:\u{a0}b\rc: \"d", &["a=b", "c=d"]),
        ];
        for (text, wanted) in cases {
            assert_eq!(found(text), *wanted, "{text}");
        }
    }
}
