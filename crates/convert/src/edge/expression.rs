//! Expressions of paths as PCRE reads them, which nginx does and which knows more than RE2: what of them proxies can ask of a
//! path, and what they take at most.
//!
//! A negative look-ahead behind a beginning that is always the same text, as in `/(?!public|assets).*`, asks two things: that
//! the path matches without it, and that it does not begin with what is excepted. Proxies can ask both. Of every other
//! expression that RE2 lacks, the [`beginning`] is known.

use std::borrow::Cow;

use model::re2::quote;

use super::encoded;

/// What proxies ask of a path in place of an expression.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Split<'e> {
    /// The expression without look-aheads.
    pub(super) matched: Cow<'e, str>,
    /// What a path must not match, with its query or without.
    pub(super) excepted: Option<String>,
}

/// Takes an expression apart. One whose look-aheads cannot be asked separately stays as it is.
pub(super) fn split(expression: &str) -> Split<'_> {
    let whole = Split {
        matched: Cow::Borrowed(expression),
        excepted: None,
    };
    if !expression.contains("(?!") {
        return whole;
    }
    let tokens = tokens(expression);
    match tokens.and_then(|tokens| without_lookahead(expression, &tokens)) {
        Some((matched, excepted)) => Split {
            matched: Cow::Owned(matched),
            excepted: Some(excepted),
        },
        None => whole,
    }
}

/// An expression without what says at its end that anything follows.
pub(super) fn without_rest(expression: &str) -> &str {
    without_end(expression, ".*")
}

/// An expression without what says at its end that nothing follows.
pub(super) fn without_dollar(expression: &str) -> &str {
    without_end(expression, "$")
}

/// An expression without a sign at its end, however often it is there: behind a backslash it stands for itself.
fn without_end<'e>(mut expression: &'e str, sign: &str) -> &'e str {
    while let Some(before) = expression.strip_suffix(sign) {
        let backslashes = before.len() - before.trim_end_matches('\\').len();
        if backslashes % 2 == 1 {
            break;
        }
        expression = before;
    }
    expression
}

/// The text that every path begins with that an expression may take, at least `/`.
pub(super) fn beginning(expression: &str) -> Cow<'_, str> {
    let root = Cow::Borrowed("/");
    // A choice may have a branch that begins with something else; where that is depends on what is not understood here.
    let Some(tokens) = tokens(expression) else {
        let is_plain = !expression.contains(['|', '\\', '[', '{']);
        return match is_plain {
            true => literal(&plain_tokens(expression)).map_or(root, Cow::Owned),
            false => root,
        };
    };
    let mut depth = 0;
    for (token, _) in &tokens {
        match token {
            Token::Open | Token::Lookahead | Token::Assertion => depth += 1,
            Token::Close => depth -= 1,
            Token::Choice if depth <= 0 => return root,
            _ => {}
        }
        if depth < 0 {
            return root;
        }
    }
    literal(&tokens).map_or(root, Cow::Owned)
}

/// A part of an expression.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Token {
    Literal(char),
    /// Any character.
    Any,
    /// One of some characters, or one not of some.
    Class {
        negated: bool,
    },
    /// How often what stands before it.
    Repetition,
    Open,
    /// `(?!`
    Lookahead,
    /// Another look-around.
    Assertion,
    Close,
    Choice,
    /// Says how what follows is compared.
    Flag,
    Start,
    End,
}

/// A part with its place in the expression.
pub(super) type Placed = (Token, (usize, usize));

/// The parts of an expression; none where one is not understood.
pub(super) fn tokens(expression: &str) -> Option<Vec<Placed>> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(c) = expression[at..].chars().next() {
        let rest = &expression[at..];
        let (token, length) = match c {
            '\\' => escape(rest)?,
            '[' => class(rest)?,
            '(' if rest.starts_with("(?!") => (Token::Lookahead, 3),
            '(' if rest.starts_with("(?i)") => (Token::Flag, 4),
            '(' if rest.starts_with("(?:") => (Token::Open, 3),
            '(' if rest.starts_with("(?=") => (Token::Assertion, 3),
            '(' if rest.starts_with("(?<=") || rest.starts_with("(?<!") => (Token::Assertion, 4),
            '(' if rest.starts_with("(?") || rest.starts_with("(*") => return None,
            '(' => (Token::Open, 1),
            ')' => (Token::Close, 1),
            '|' => (Token::Choice, 1),
            '*' | '+' | '?' => (Token::Repetition, 1),
            '{' => {
                let inside = &rest[1..rest.find('}')?];
                let is_count = |c: char| c.is_ascii_digit() || c == ',';
                if inside.is_empty() || !inside.chars().all(is_count) {
                    return None;
                }
                (Token::Repetition, inside.len() + 2)
            }
            '.' => (Token::Any, 1),
            '^' => (Token::Start, 1),
            '$' => (Token::End, 1),
            c => (Token::Literal(c), c.len_utf8()),
        };
        tokens.push((token, (at, at + length)));
        at += length;
    }
    Some(tokens)
}

/// The parts up to the first that is more than a character, with that.
fn plain_tokens(expression: &str) -> Vec<Placed> {
    let special = |c: char| "\\[](){}*+?|.^$".contains(c);
    let mut tokens = Vec::new();
    for (at, c) in expression.char_indices() {
        let token = match c {
            '*' | '+' | '?' => Token::Repetition,
            '^' => Token::Start,
            c if special(c) => Token::Open,
            c => Token::Literal(c),
        };
        tokens.push((token, (at, at + c.len_utf8())));
        if token == Token::Open {
            break;
        }
    }
    tokens
}

fn escape(rest: &str) -> Option<(Token, usize)> {
    let escaped = rest[1..].chars().next()?;
    let token = match escaped {
        c if c.is_ascii_punctuation() => Token::Literal(c),
        'd' | 'w' | 's' | 'b' | 'B' => Token::Class { negated: false },
        // What a group took may be anything as well.
        'D' | 'W' | 'S' | '1'..='9' => Token::Class { negated: true },
        _ => return None,
    };
    Some((token, 2))
}

fn class(rest: &str) -> Option<(Token, usize)> {
    let negated = rest.starts_with("[^");
    let begins = if negated { 2 } else { 1 };
    let mut chars = rest[begins..].char_indices().peekable();
    let mut is_first = true;
    while let Some((at, c)) = chars.next() {
        match c {
            // A bracket at the beginning stands for itself.
            ']' if !is_first => return Some((Token::Class { negated }, begins + at + 1)),
            '[' if chars.peek().is_some_and(|(_, next)| ":.=".contains(*next)) => return None,
            '\\' => {
                chars.next()?;
            }
            _ => {}
        }
        is_first = false;
    }
    None
}

/// The characters that tokens begin with, up to the first that may be there another number of times.
fn literal(tokens: &[Placed]) -> Option<String> {
    let mut text = String::new();
    for (at, (token, _)) in tokens.iter().enumerate() {
        let repeated = tokens.get(at + 1).map(|(token, _)| token) == Some(&Token::Repetition);
        match token {
            Token::Start if text.is_empty() => {}
            Token::Literal(c) if !repeated => text.push(*c),
            _ => break,
        }
    }
    text.starts_with('/').then_some(text)
}

/// An expression without its look-aheads, and what paths must not match instead. None unless each look-ahead stands behind
/// what is always the same text, and is asked of every path that matches.
fn without_lookahead(expression: &str, tokens: &[Placed]) -> Option<(String, String)> {
    let (mut matched, mut excepted) = (String::new(), Vec::new());
    let mut before = String::new();
    let mut is_literal = true;
    // Of each open group, whether it has a look-ahead.
    let mut groups: Vec<bool> = Vec::new();
    let mut at = 0;
    while let Some((token, (from, to))) = tokens.get(at) {
        let repeated = tokens.get(at + 1).map(|(token, _)| token) == Some(&Token::Repetition);
        match token {
            Token::Lookahead => {
                if !is_literal {
                    return None;
                }
                let length = inside(&tokens[at + 1..])?;
                let what = exception(expression, &tokens[at + 1..at + 1 + length])?;
                excepted.push(format!("{}(?:{what}).*", quote(&before)));
                groups.iter_mut().for_each(|group| *group = true);
                at += length + 2;
                if tokens.get(at).map(|(token, _)| token) == Some(&Token::Repetition) {
                    return None;
                }
                continue;
            }
            Token::Choice | Token::Assertion => return None,
            Token::Open => groups.push(false),
            Token::Close => {
                if groups.pop()? && repeated {
                    return None;
                }
                is_literal &= !repeated;
            }
            Token::Literal(c) if is_literal && !repeated => before.push(*c),
            Token::Start if before.is_empty() => {}
            _ => is_literal = false,
        }
        matched.push_str(&expression[*from..*to]);
        at += 1;
    }
    let is_whole = groups.is_empty() && before.starts_with('/') && !excepted.is_empty();
    is_whole.then(|| (matched, excepted.join("|")))
}

/// How many tokens stand before the end of a group that has begun.
fn inside(tokens: &[Placed]) -> Option<usize> {
    let mut depth = 0;
    for (at, (token, _)) in tokens.iter().enumerate() {
        match token {
            Token::Open => depth += 1,
            Token::Lookahead | Token::Assertion => return None,
            Token::Close if depth == 0 => return Some(at),
            Token::Close => depth -= 1,
            _ => {}
        }
    }
    None
}

/// What a look-ahead excepts, as an expression that does not go on into the query of a path.
fn exception(expression: &str, tokens: &[Placed]) -> Option<String> {
    let mut text = String::new();
    for (token, (from, to)) in tokens {
        let written = &expression[*from..*to];
        match token {
            Token::Any => text.push_str("[^?]"),
            Token::End => text.push_str(r"(?:\?|$)"),
            Token::Class { .. } if matches!(written, r"\b" | r"\B") => text.push_str(written),
            // As the last of a range, too.
            Token::Class { negated: false } if encoded::class_has(written, b'?')? => return None,
            Token::Class { negated: true } if written.starts_with("[^]") => return None,
            Token::Class { negated: true } => {
                text.push_str(&format!("[^?{}", written.strip_prefix("[^")?))
            }
            Token::Literal('?') | Token::Lookahead | Token::Assertion | Token::Start => {
                return None;
            }
            _ => text.push_str(written),
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn look_aheads_behind_a_text_are_asked_separately() {
        let table = [
            ("/(?!public|assets).*", "/.*", r"/(?:public|assets).*"),
            ("/v1/((?!status).*)", "/v1/(.*)", r"/v1/(?:status).*"),
            (
                "^/a(?!b$)(?!c/).+",
                "^/a.+",
                r"/a(?:b(?:\?|$)).*|/a(?:c/).*",
            ),
            (r"/(?!.*\.php$).*", "/.*", r"/(?:[^?]*\.php(?:\?|$)).*"),
            ("/(?!x[^/]+/y)", "/", "/(?:x[^?/]+/y).*"),
            (r"/(?!x[\w-]+y)", "/", r"/(?:x[\w-]+y).*"),
        ];
        for (expression, matched, excepted) in table {
            let wanted = Split {
                matched: matched.into(),
                excepted: Some(excepted.to_owned()),
            };
            assert_eq!(split(expression), wanted, "{expression}");
        }
        for expression in [
            "/admin",
            "/v[0-9]+(?!x)",
            "/a*(?!x)",
            "/((?!a).)*",
            "/((?!a).)*b",
            "/(?!a).*|/b",
            "/(?:(?!a)b|c)",
            "/(?!(?!a)b)",
            "/(?=a).*",
            "/(?<!a)b(?!c)",
            r"/(?!\Wa)",
            "/(?!x[!-@]y)",
            r"/(?!x[\!-\@]y)",
            "/(?!a",
        ] {
            assert_eq!(split(expression).excepted, None, "{expression}");
            assert_eq!(split(expression).matched, expression);
        }
    }

    #[test]
    fn every_path_begins_so_that_an_expression_may_take() {
        let table = [
            ("/(?!public).*", "/"),
            ("/v1/((?=a).*)", "/v1/"),
            ("^/api/(?=a)", "/api/"),
            (r"/a\.b/(a)\1", "/a.b/"),
            (r"/v1/[a-z]+(?!x)", "/v1/"),
            ("/v1x*(?=a)", "/v1"),
            ("/v1x?(?=a)", "/v1"),
            ("/admin(?=a)|/secure", "/"),
            ("/admin/(?=a|b)", "/admin/"),
            ("/admin/(?!a|b)(c|d)", "/admin/"),
            (r"/\Q(\E(?=a)|/b", "/"),
            ("/[(](?=a)|/b", "/"),
            ("/(?#()x|/b", "/"),
            ("/a{2}(?=b)", "/"),
            ("/a(b(?=c)", "/a"),
            ("(?=/a)", "/"),
            ("/admin", "/admin"),
        ];
        for (expression, wanted) in table {
            assert_eq!(beginning(expression), wanted, "{expression}");
        }
    }
}
