//! From text to tokens.

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    LeftDelim,
    RightDelim,
    Space,
    Assign,
    Declare,
    Pipe,
    LeftParen,
    RightParen,
    Char,
    Bool,
    CharConstant,
    Number,
    String,
    Identifier,
    Field,
    Variable,
    Dot,
    Nil,
    Block,
    Break,
    Continue,
    Define,
    Else,
    End,
    If,
    Range,
    Template,
    With,
    Eof,
    Error,
}

/// A token: its text is a part of the template, but for errors.
#[derive(Clone, Debug)]
pub(crate) struct Token<'t> {
    pub(crate) kind: Kind,
    pub(crate) at: usize,
    pub(crate) text: &'t str,
    /// What is wrong, for errors.
    pub(crate) fault: Option<String>,
}

impl Token<'_> {
    /// How messages name it.
    pub(crate) fn shown(&self) -> String {
        use Kind::{
            Block, Break, Continue, Define, Dot, Else, End, Eof, If, Nil, Range, Template, With,
        };
        match (self.kind, &self.fault) {
            (_, Some(fault)) => fault.clone(),
            (Eof, _) => "EOF".to_owned(),
            (
                Dot | Nil | Block | Break | Continue | Define | Else | End | If | Range | Template
                | With,
                _,
            ) => {
                format!("<{}>", self.text)
            }
            _ if self.text.len() > 10 => {
                let start: String = self.text.chars().take(10).collect();
                format!("{}...", crate::print::quote(&start))
            }
            _ => crate::print::quote(self.text),
        }
    }
}

/// All tokens of a template: the last is the end, or an error.
pub(crate) fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut lexer = Lexer {
        text,
        at: 0,
        parens: 0,
        tokens: Vec::new(),
    };
    if let Err((at, fault)) = lexer.run() {
        lexer.tokens.push(Token {
            kind: Kind::Error,
            at,
            text: "",
            fault: Some(fault),
        });
    }
    lexer.tokens
}

struct Lexer<'t> {
    text: &'t str,
    at: usize,
    parens: usize,
    tokens: Vec<Token<'t>>,
}

type Step = Result<(), (usize, String)>;

const SPACES: [char; 4] = [' ', '\t', '\r', '\n'];

impl<'t> Lexer<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn emit(&mut self, kind: Kind, from: usize) {
        self.tokens.push(Token {
            kind,
            at: from,
            text: &self.text[from..self.at],
            fault: None,
        });
    }

    /// Text and actions in turn, to the end.
    fn run(&mut self) -> Step {
        loop {
            let from = self.at;
            let Some(length) = self.rest().find("{{") else {
                self.at = self.text.len();
                if self.at > from {
                    self.emit(Kind::Text, from);
                }
                self.emit(Kind::Eof, self.at);
                return Ok(());
            };
            let trims = trims_left(&self.rest()[length + 2..]);
            let mut written = &self.rest()[..length];
            if trims {
                written = written.trim_end_matches(SPACES);
            }
            self.at = from + written.len();
            if !written.is_empty() {
                self.emit(Kind::Text, from);
            }
            self.at = from + length;
            self.left_delim(trims)?;
        }
    }

    /// An opening delimiter with what follows up to the closing one: a comment or an action.
    fn left_delim(&mut self, trims: bool) -> Step {
        let from = self.at;
        let skipped = if trims { 4 } else { 2 };
        if self.text[from + skipped..].starts_with("/*") {
            self.at = from + skipped;
            return self.comment();
        }
        self.at += 2;
        self.emit(Kind::LeftDelim, from);
        self.at = from + skipped;
        self.parens = 0;
        while !self.in_action()? {}
        Ok(())
    }

    fn comment(&mut self) -> Step {
        let from = self.at;
        let Some(length) = self.text[from + 2..].find("*/") else {
            return Err((from, "unclosed comment".to_owned()));
        };
        self.at = from + 2 + length + 2;
        match self.right_delim() {
            Some(trims) => {
                self.close(trims);
                Ok(())
            }
            None => Err((from, "comment ends before closing delimiter".to_owned())),
        }
    }

    /// Whether a closing delimiter follows, and with a trim marker.
    fn right_delim(&self) -> Option<bool> {
        let rest = self.rest();
        if rest.starts_with(SPACES) && rest[1..].starts_with("-}}") {
            Some(true)
        } else {
            rest.starts_with("}}").then_some(false)
        }
    }

    /// Goes past a closing delimiter.
    fn close(&mut self, trims: bool) {
        self.at += if trims { 4 } else { 2 };
        if trims {
            let rest = self.rest();
            self.at += rest.len() - rest.trim_start_matches(SPACES).len();
        }
    }

    /// One token of an action; true after its end.
    fn in_action(&mut self) -> Result<bool, (usize, String)> {
        let from = self.at;
        if let Some(trims) = self.right_delim() {
            if self.parens > 0 {
                return Err((from, "unclosed left paren".to_owned()));
            }
            let start = from + if trims { 2 } else { 0 };
            self.tokens.push(Token {
                kind: Kind::RightDelim,
                at: start,
                text: "}}",
                fault: None,
            });
            self.close(trims);
            return Ok(true);
        }
        let Some(c) = self.peek() else {
            return Err((from, "unclosed action".to_owned()));
        };
        self.at += c.len_utf8();
        match c {
            ' ' | '\t' | '\r' | '\n' => self.space(from),
            '=' => self.emit(Kind::Assign, from),
            ':' if self.peek() == Some('=') => {
                self.at += 1;
                self.emit(Kind::Declare, from);
            }
            ':' => return Err((from, "expected :=".to_owned())),
            '|' => self.emit(Kind::Pipe, from),
            '"' => self.quoted(from, '"', Kind::String, "unterminated quoted string")?,
            '\'' => self.quoted(
                from,
                '\'',
                Kind::CharConstant,
                "unterminated character constant",
            )?,
            '`' => match self.rest().find('`') {
                Some(length) => {
                    self.at += length + 1;
                    self.emit(Kind::String, from);
                }
                None => return Err((from, "unterminated raw quoted string".to_owned())),
            },
            '$' => self.name(from, Kind::Variable)?,
            '.' if !self.peek().is_some_and(|next| next.is_ascii_digit()) => {
                self.name(from, Kind::Field)?
            }
            '.' | '+' | '-' | '0'..='9' => {
                self.at = from;
                self.number()?;
            }
            _ if is_name(c) => self.name(from, Kind::Identifier)?,
            '(' => {
                self.parens += 1;
                self.emit(Kind::LeftParen, from);
            }
            ')' if self.parens == 0 => return Err((from, "unexpected right paren".to_owned())),
            ')' => {
                self.parens -= 1;
                self.emit(Kind::RightParen, from);
            }
            ' '..='~' => self.emit(Kind::Char, from),
            _ => {
                return Err((
                    from,
                    format!("unrecognized character in action: {}", unicode(c)),
                ));
            }
        }
        Ok(false)
    }

    /// Spaces, but for one that belongs to a closing delimiter with a trim marker.
    fn space(&mut self, from: usize) {
        let rest = &self.text[from..];
        let spaces = rest.len() - rest.trim_start_matches(SPACES).len();
        self.at = from + spaces;
        if self.rest().starts_with("-}}") {
            self.at -= 1;
        }
        if self.at > from {
            self.emit(Kind::Space, from);
        }
    }

    fn quoted(&mut self, from: usize, end: char, kind: Kind, fault: &str) -> Step {
        let mut escaped = false;
        for (i, c) in self.rest().char_indices() {
            match c {
                '\n' => break,
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                _ if c == end => {
                    self.at += i + 1;
                    self.emit(kind, from);
                    return Ok(());
                }
                _ => {}
            }
        }
        Err((from, fault.to_owned()))
    }

    /// A word after its first character, which says what it is.
    fn name(&mut self, from: usize, kind: Kind) -> Step {
        if kind != Kind::Identifier && self.at_terminator() {
            self.emit(if kind == Kind::Field { Kind::Dot } else { kind }, from);
            return Ok(());
        }
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches(is_name).len();
        if !self.at_terminator() {
            let c = self.peek().unwrap_or_default();
            return Err((from, format!("bad character {}", unicode(c))));
        }
        let kind = if kind == Kind::Identifier {
            word(&self.text[from..self.at])
        } else {
            kind
        };
        self.emit(kind, from);
        Ok(())
    }

    /// Whether what follows may stand after a word.
    fn at_terminator(&self) -> bool {
        match self.peek() {
            None | Some(' ' | '\t' | '\r' | '\n' | '.' | ',' | '|' | ':' | ')' | '(') => true,
            Some(_) => self.rest().starts_with("}}"),
        }
    }

    fn accept(&mut self, set: &[char]) -> bool {
        let accepted = self.peek().is_some_and(|c| set.contains(&c));
        self.at += usize::from(accepted);
        accepted
    }

    fn accept_run(&mut self, allowed: fn(char) -> bool) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches(allowed).len();
    }

    fn number(&mut self) -> Step {
        let from = self.at;
        self.accept(&['+', '-']);
        let mut digits: fn(char) -> bool = |c| c.is_ascii_digit() || c == '_';
        let (mut hex, mut decimal) = (false, true);
        if self.accept(&['0']) {
            if self.accept(&['x', 'X']) {
                digits = |c| c.is_ascii_hexdigit() || c == '_';
                (hex, decimal) = (true, false);
            } else if self.accept(&['o', 'O']) {
                digits = |c| ('0'..='7').contains(&c) || c == '_';
                decimal = false;
            } else if self.accept(&['b', 'B']) {
                digits = |c| c == '0' || c == '1' || c == '_';
                decimal = false;
            }
        }
        self.accept_run(digits);
        if self.accept(&['.']) {
            self.accept_run(digits);
        }
        if decimal && self.accept(&['e', 'E']) || hex && self.accept(&['p', 'P']) {
            self.accept(&['+', '-']);
            self.accept_run(|c| c.is_ascii_digit() || c == '_');
        }
        if let Some(c) = self.peek().filter(|c| is_name(*c)) {
            let end = self.at + c.len_utf8();
            return Err((
                from,
                format!(
                    "bad number syntax: {}",
                    crate::print::quote(&self.text[from..end])
                ),
            ));
        }
        self.emit(Kind::Number, from);
        Ok(())
    }
}

/// Whether what follows an opening delimiter trims the space before it.
fn trims_left(rest: &str) -> bool {
    rest.starts_with('-') && rest[1..].starts_with(SPACES)
}

fn is_name(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

fn unicode(c: char) -> String {
    if c.is_control() {
        format!("U+{:04X}", u32::from(c))
    } else {
        format!("U+{:04X} '{c}'", u32::from(c))
    }
}

fn word(text: &str) -> Kind {
    match text {
        "true" | "false" => Kind::Bool,
        "nil" => Kind::Nil,
        "block" => Kind::Block,
        "break" => Kind::Break,
        "continue" => Kind::Continue,
        "define" => Kind::Define,
        "else" => Kind::Else,
        "end" => Kind::End,
        "if" => Kind::If,
        "range" => Kind::Range,
        "template" => Kind::Template,
        "with" => Kind::With,
        _ => Kind::Identifier,
    }
}
