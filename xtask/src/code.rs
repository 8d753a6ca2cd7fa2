//! Sources as tokens: the paths they name and the functions they define, without the parts that only tests compile.
//!
//! What `#[cfg(test)]` stands before is left out up to the end of the item. Where that end is not plain, too little is
//! left out rather than too much.

use std::path::{Path, PathBuf};

use anyhow::Context;
use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// What a file says outside of tests.
#[derive(Default, Debug)]
pub(crate) struct Code {
    /// Paths as they are written, with those in braces spelled out and `!` behind macros, and their lines.
    pub(crate) paths: Vec<(String, usize)>,
    /// Names of methods that are called, and their lines.
    pub(crate) methods: Vec<(String, usize)>,
    /// Names of statics, and their lines.
    pub(crate) statics: Vec<(String, usize)>,
    /// Functions: name, first line, number of lines.
    pub(crate) functions: Vec<(String, usize, usize)>,
    /// Modules in files of their own, and whether only tests compile them.
    pub(crate) modules: Vec<(String, bool)>,
}

impl Code {
    /// Reads a source.
    ///
    /// # Errors
    ///
    /// When it is no Rust.
    pub(crate) fn read(text: &str) -> anyhow::Result<Self> {
        let tokens: TokenStream = text.parse().map_err(|e| anyhow::anyhow!("{e}"))?;
        let mut code = Self::default();
        code.walk(tokens, "");
        Ok(code)
    }

    fn walk(&mut self, tokens: TokenStream, prefix: &str) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        let mut path = prefix.to_owned();
        while at < tokens.len() {
            if let Some(after) = test_item(&tokens, at) {
                if let Some(name) = module_file(&tokens[at..after]) {
                    self.modules.push((name, true));
                }
                at = after;
                continue;
            }
            match &tokens[at] {
                TokenTree::Group(group) => {
                    // Braces after `::` continue the path that stands before them.
                    let inner = if path.ends_with("::") {
                        path.clone()
                    } else {
                        String::new()
                    };
                    self.walk(group.stream(), &inner);
                    path = String::new();
                }
                TokenTree::Ident(_) if at > 0 && is_punct(tokens.get(at - 1), '\'') => {
                    // A lifetime.
                    path = prefix.to_owned();
                }
                TokenTree::Ident(ident) => {
                    let (name, line) = (ident.to_string(), ident.span().start().line);
                    self.item(&tokens, at, &name, line);
                    if !path.ends_with("::") {
                        path.clear();
                    }
                    path.push_str(&name);
                    if is_punct(tokens.get(at + 1), '!') && !is_punct(tokens.get(at + 2), '=') {
                        path.push('!');
                    }
                    if is_double_colon(&tokens, at + 1) {
                        path.push_str("::");
                        at += 2;
                    } else {
                        self.end(&mut path, prefix, line);
                    }
                }
                TokenTree::Punct(punct) if punct.as_char() == '*' && path.ends_with("::") => {
                    path.push('*');
                    let line = punct.span().start().line;
                    self.end(&mut path, prefix, line);
                }
                TokenTree::Punct(punct) => {
                    if punct.as_char() == ',' || !path.ends_with("::") {
                        path = prefix.to_owned();
                    }
                }
                TokenTree::Literal(_) => path = prefix.to_owned(),
            }
            at += 1;
        }
    }

    fn end(&mut self, path: &mut String, prefix: &str, line: usize) {
        // `a::{self}` names `a`.
        let full = path.strip_suffix("::self").unwrap_or(path);
        self.paths.push((full.to_owned(), line));
        *path = prefix.to_owned();
    }

    /// Notes what the word at a place begins.
    fn item(&mut self, tokens: &[TokenTree], at: usize, word: &str, line: usize) {
        let next = tokens.get(at + 1);
        match (word, next) {
            ("fn", Some(TokenTree::Ident(name))) => {
                let body = tokens[at..].iter().find_map(|t| match t {
                    TokenTree::Group(g) if g.delimiter() == Delimiter::Brace => Some(Some(g)),
                    TokenTree::Punct(p) if p.as_char() == ';' => Some(None),
                    _ => None,
                });
                if let Some(Some(body)) = body {
                    let last = body.span_close().end().line;
                    self.functions
                        .push((name.to_string(), line, last + 1 - line));
                }
            }
            ("mod", Some(TokenTree::Ident(_))) => {
                if let Some(name) = module_file(&tokens[at..]) {
                    self.modules.push((name, false));
                }
            }
            ("static", Some(TokenTree::Ident(name))) => {
                self.statics.push((name.to_string(), line));
            }
            _ => {
                let called = matches!(next, Some(TokenTree::Group(g)) if g.delimiter() == Delimiter::Parenthesis);
                let dotted = at > 0 && is_punct(tokens.get(at - 1), '.');
                if called && dotted {
                    self.methods.push((word.to_owned(), line));
                }
            }
        }
    }
}

/// The files of a crate that are compiled outside of tests, from its root on, and those below the root's folder that
/// are only compiled for tests or not at all.
pub(crate) struct Files {
    /// Read, with their paths.
    pub(crate) code: Vec<(PathBuf, Code)>,
}

/// Reads a crate or binary from the file of its root on.
///
/// # Errors
///
/// When a file cannot be read, or a module is in no file.
pub(crate) fn from_root(root: &Path) -> anyhow::Result<Files> {
    let mut files = Files { code: Vec::new() };
    let mut todo = vec![root.to_owned()];
    while let Some(file) = todo.pop() {
        let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let code = Code::read(&text).with_context(|| file.display().to_string())?;
        for (name, _) in code.modules.iter().filter(|(_, test)| !test) {
            let found = places(&file, name).into_iter().find(|f| f.is_file());
            let shown = file.display();
            todo.push(found.with_context(|| format!("{shown}: module {name} is in no file"))?);
        }
        files.code.push((file, code));
    }
    files.code.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(files)
}

/// The files that may have a module which a file names.
pub(crate) fn places(file: &Path, module: &str) -> [PathBuf; 2] {
    let folder = match file.file_name().and_then(|n| n.to_str()) {
        Some("lib.rs" | "main.rs" | "mod.rs") => file.with_file_name(""),
        _ => file.with_extension(""),
    };
    let nested = folder.join(module).join("mod.rs");
    [folder.join(format!("{module}.rs")), nested]
}

/// Every Rust file of our crates, in order.
///
/// # Errors
///
/// When a folder cannot be read.
pub(crate) fn sources(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut todo = vec![root.join("crates"), root.join("xtask")];
    while let Some(folder) = todo.pop() {
        let entries = std::fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
        for entry in entries.flatten() {
            let path = entry.path();
            if path.is_dir() {
                todo.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Where the item ends that `#[cfg(test)]` at this place belongs to.
fn test_item(tokens: &[TokenTree], at: usize) -> Option<usize> {
    let attribute = |at: usize| -> Option<&Group> {
        let TokenTree::Group(group) = tokens.get(at + 1)? else {
            return None;
        };
        let bracket = group.delimiter() == Delimiter::Bracket;
        (is_punct(tokens.get(at), '#') && bracket).then_some(group)
    };
    let text: String = attribute(at)?
        .stream()
        .to_string()
        .split_whitespace()
        .collect();
    if text != "cfg(test)" {
        return None;
    }
    let mut end = at + 2;
    while attribute(end).is_some() {
        end += 2;
    }
    while let Some(token) = tokens.get(end) {
        end += 1;
        let ends = match token {
            TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
            TokenTree::Punct(punct) => matches!(punct.as_char(), ';' | ','),
            _ => false,
        };
        if ends {
            break;
        }
    }
    Some(end)
}

/// The name in `mod NAME;` at the start or after attributes and `pub`.
fn module_file(tokens: &[TokenTree]) -> Option<String> {
    let at = tokens
        .iter()
        .position(|t| matches!(t, TokenTree::Ident(i) if i == "mod"))?;
    let TokenTree::Ident(name) = tokens.get(at + 1)? else {
        return None;
    };
    is_punct(tokens.get(at + 2), ';').then(|| name.to_string())
}

fn is_punct(token: Option<&TokenTree>, wanted: char) -> bool {
    matches!(token, Some(TokenTree::Punct(p)) if p.as_char() == wanted)
}

fn is_double_colon(tokens: &[TokenTree], at: usize) -> bool {
    is_punct(tokens.get(at), ':') && is_punct(tokens.get(at + 1), ':')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> Vec<String> {
        let code = Code::read(text).unwrap();
        code.paths.into_iter().map(|(path, _)| path).collect()
    }

    #[test]
    fn paths_in_braces_are_spelled_out() {
        let found = paths("use std::{sync::{Arc, atomic::*}, net::{self, IpAddr}};");
        let wanted = [
            "use",
            "std::sync::Arc",
            "std::sync::atomic::*",
            "std::net",
            "std::net::IpAddr",
        ];
        assert_eq!(found, wanted);
        assert_eq!(
            paths("x as std::time::Instant"),
            ["x", "as", "std::time::Instant"]
        );
    }

    #[test]
    fn what_only_tests_compile_is_left_out_and_nothing_after_it() {
        let text = "
            #[cfg(test)] use a::{b, c};
            #[cfg(test)] #[derive(Debug)] struct A { b: C }
            struct B { #[cfg(test)] c: D, e: F }
            #[cfg(test)] mod tests { fn long() {} }
            #[cfg(test)] mod table;
            mod real;
            fn after() { g::h() }";
        let code = Code::read(text).unwrap();
        let found: Vec<&str> = code.paths.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(
            found,
            [
                "struct", "B", "e", "F", "mod", "real", "fn", "after", "g::h"
            ]
        );
        assert_eq!(
            code.modules,
            [("table".to_owned(), true), ("real".to_owned(), false)]
        );
        assert_eq!(code.functions, [("after".to_owned(), 8, 1)]);
    }

    #[test]
    fn lines_of_functions_are_counted_with_their_braces() {
        let code =
            Code::read("fn a() -> B {\n    c()\n}\ntrait D { fn e(); }\nfn f() where G: H {\n}")
                .unwrap();
        assert_eq!(
            code.functions,
            [("a".to_owned(), 1, 3), ("f".to_owned(), 5, 2)]
        );
    }
}
