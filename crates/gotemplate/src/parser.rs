//! From tokens to trees.

mod pipeline;

use std::collections::BTreeMap;

use crate::ast::{Branch, Call, Node, Tree};
use crate::error::{Error, place};
use crate::functions::Functions;
use crate::lexer::{Kind, Token, tokens};
use crate::literal::unquote;

/// How deep blocks and parentheses may be nested.
const MAX_DEPTH: usize = 100;

/// Parses a template and those that it defines. Every function that is named has to be known.
pub(crate) fn parse(
    name: &str,
    text: &str,
    functions: &Functions,
) -> Result<BTreeMap<String, Tree>, Error> {
    let mut parser = Parser {
        tokens: tokens(text),
        next: 0,
        action: None,
        scope: Scope::default(),
        depth: 0,
        functions,
        trees: BTreeMap::new(),
    };
    parser.document(name).map_err(|fault| {
        let (line, column) = place(text, fault.at);
        let started = fault
            .action
            .map(|at| place(text, at).0)
            .filter(|started| *started != line);
        let message = match started {
            Some(started) if fault.message.ends_with(" action") => {
                format!("{} started at {name}:{started}", fault.message)
            }
            Some(started) => format!("{} in action started at {name}:{started}", fault.message),
            None => fault.message,
        };
        Error {
            template: name.to_owned(),
            line,
            column,
            executing: None,
            message,
        }
    })?;
    Ok(parser.trees)
}

struct Parser<'t> {
    tokens: Vec<Token<'t>>,
    next: usize,
    /// Where the current action begins.
    action: Option<usize>,
    scope: Scope<'t>,
    depth: usize,
    functions: &'t Functions,
    trees: BTreeMap<String, Tree>,
}

/// What a template that is being parsed can name.
struct Scope<'t> {
    variables: Vec<&'t str>,
    ranges: usize,
}

impl Default for Scope<'_> {
    fn default() -> Self {
        Self {
            variables: vec!["$"],
            ranges: 0,
        }
    }
}

/// What is wrong, and where.
struct Fault {
    at: usize,
    message: String,
    /// Where the action begins, for faults of the lexer.
    action: Option<usize>,
}

type Parsed<T> = Result<T, Fault>;

/// What ends a list of nodes.
enum End {
    End,
    /// `else`, and whether `if` or `with` follows in the same action.
    Else,
}

impl<'t> Parser<'t> {
    fn peek(&self) -> &Token<'t> {
        // The last token is the end or an error, and is never gone past.
        &self.tokens[self.next.min(self.tokens.len() - 1)]
    }

    fn take(&mut self) -> Token<'t> {
        let token = self.peek().clone();
        self.next = (self.next + 1).min(self.tokens.len());
        token
    }

    fn peek_solid(&mut self) -> &Token<'t> {
        while self.peek().kind == Kind::Space {
            self.next += 1;
        }
        self.peek()
    }

    fn take_solid(&mut self) -> Token<'t> {
        self.peek_solid();
        self.take()
    }

    fn fault<T>(&self, message: impl Into<String>) -> Parsed<T> {
        let at = self.tokens[self.next.clamp(1, self.tokens.len()) - 1].at;
        Err(Fault {
            at,
            message: message.into(),
            action: None,
        })
    }

    fn unexpected<T>(&self, token: &Token<'_>, context: &str) -> Parsed<T> {
        let message = match token.kind {
            Kind::Error => token.shown(),
            _ => format!("unexpected {} in {context}", token.shown()),
        };
        let action = self.action.filter(|_| token.kind == Kind::Error);
        Err(Fault {
            at: token.at,
            message,
            action,
        })
    }

    fn expect(&mut self, kind: Kind, context: &str) -> Parsed<Token<'t>> {
        let token = self.take_solid();
        if token.kind == kind {
            Ok(token)
        } else {
            self.unexpected(&token, context)
        }
    }

    /// The whole text: templates may be defined at this level only.
    fn document(&mut self, name: &str) -> Parsed<()> {
        let mut nodes = Vec::new();
        while self.peek().kind != Kind::Eof {
            if self.peek().kind == Kind::LeftDelim {
                let start = self.next;
                self.take();
                if self.take_solid().kind == Kind::Define {
                    self.definition()?;
                    continue;
                }
                self.next = start;
            }
            match self.node()? {
                Item::Node(node) => nodes.push(node),
                Item::End(_, shown) => return self.fault(format!("unexpected {shown}")),
            }
        }
        self.add(Tree {
            name: name.to_owned(),
            nodes,
        })
    }

    fn definition(&mut self) -> Parsed<()> {
        let context = "define clause";
        let name = self.expect(Kind::String, context)?;
        let name = unquote(name.text).or_else(|fault| self.fault(fault))?;
        self.expect(Kind::RightDelim, context)?;
        let outer = std::mem::take(&mut self.scope);
        let nodes = self.body_to_end(context)?;
        self.scope = outer;
        self.add(Tree { name, nodes })
    }

    /// A body that ends with `end`.
    fn body_to_end(&mut self, context: &str) -> Parsed<Vec<Node>> {
        match self.body()? {
            (nodes, End::End, _) => Ok(nodes),
            (_, End::Else, shown) => self.fault(format!("unexpected {shown} in {context}")),
        }
    }

    /// Adds a template; one that holds only space gives way to another of its name.
    fn add(&mut self, tree: Tree) -> Parsed<()> {
        match self.trees.get(&tree.name) {
            Some(old) if !old.is_empty() => {
                if tree.is_empty() {
                    return Ok(());
                }
                let name = crate::print::quote(&tree.name);
                self.fault(format!("template: multiple definition of template {name}"))
            }
            _ => {
                self.trees.insert(tree.name.clone(), tree);
                Ok(())
            }
        }
    }

    /// Nodes up to `end` or `else`.
    fn body(&mut self) -> Parsed<(Vec<Node>, End, &'static str)> {
        if self.depth >= MAX_DEPTH {
            return self.fault("blocks are nested too deeply");
        }
        self.depth += 1;
        let mut nodes = Vec::new();
        while self.peek_solid().kind != Kind::Eof {
            match self.node()? {
                Item::Node(node) => nodes.push(node),
                Item::End(end, shown) => {
                    self.depth -= 1;
                    return Ok((nodes, end, shown));
                }
            }
        }
        self.take();
        self.fault("unexpected EOF")
    }

    /// Text or an action.
    fn node(&mut self) -> Parsed<Item> {
        let token = self.take_solid();
        match token.kind {
            Kind::Text => Ok(Item::Node(Node::Text(token.text.into()))),
            Kind::LeftDelim => {
                self.action = Some(token.at);
                let item = self.action()?;
                self.action = None;
                Ok(item)
            }
            _ => self.unexpected(&token, "input"),
        }
    }

    fn action(&mut self) -> Parsed<Item> {
        let token = self.take_solid();
        Ok(Item::Node(match token.kind {
            Kind::Block => self.block()?,
            Kind::Break => self.jump("{{break}}", Node::Break)?,
            Kind::Continue => self.jump("{{continue}}", Node::Continue)?,
            Kind::Else => {
                if !matches!(self.peek_solid().kind, Kind::If | Kind::With) {
                    self.expect(Kind::RightDelim, "else")?;
                }
                return Ok(Item::End(End::Else, "{{else}}"));
            }
            Kind::End => {
                self.expect(Kind::RightDelim, "end")?;
                return Ok(Item::End(End::End, "{{end}}"));
            }
            Kind::If => Node::If(self.branch(Kind::If, "if")?),
            Kind::Range => Node::Range(self.branch(Kind::Range, "range")?),
            Kind::With => Node::With(self.branch(Kind::With, "with")?),
            Kind::Template => self.call()?,
            _ => {
                self.next -= 1;
                Node::Action(self.pipeline("command", Kind::RightDelim)?)
            }
        }))
    }

    fn jump(&mut self, shown: &str, node: Node) -> Parsed<Node> {
        self.expect(Kind::RightDelim, shown)?;
        if self.scope.ranges == 0 {
            return self.fault(format!("{shown} outside {{{{range}}}}"));
        }
        Ok(node)
    }

    fn branch(&mut self, kind: Kind, context: &'static str) -> Parsed<Branch> {
        let variables = self.scope.variables.len();
        let pipe = self.pipeline(context, Kind::RightDelim)?;
        self.scope.ranges += usize::from(kind == Kind::Range);
        let (body, end, _) = self.body()?;
        self.scope.ranges -= usize::from(kind == Kind::Range);
        let mut otherwise = Vec::new();
        if let End::Else = end {
            let next = self.peek().kind;
            if next == kind && matches!(kind, Kind::If | Kind::With) {
                self.take();
                if self.depth >= MAX_DEPTH {
                    return self.fault("blocks are nested too deeply");
                }
                self.depth += 1;
                let inner = self.branch(kind, context)?;
                self.depth -= 1;
                otherwise.push(if kind == Kind::If {
                    Node::If(inner)
                } else {
                    Node::With(inner)
                });
            } else {
                match self.body()? {
                    (nodes, End::End, _) => otherwise = nodes,
                    (_, End::Else, shown) => {
                        return self.fault(format!("expected end; found {shown}"));
                    }
                }
            }
        }
        self.scope.variables.truncate(variables);
        Ok(Branch {
            pipe,
            body,
            otherwise,
        })
    }

    fn template_name(&mut self, context: &str) -> Parsed<(usize, Box<str>)> {
        let token = self.expect(Kind::String, context)?;
        let name = unquote(token.text).or_else(|fault| self.fault(fault))?;
        Ok((token.at, name.into()))
    }

    /// `{{block "name" pipeline}}`: defines a template and renders it.
    fn block(&mut self) -> Parsed<Node> {
        let context = "block clause";
        let (at, name) = self.template_name(context)?;
        let pipe = self.pipeline(context, Kind::RightDelim)?;
        let outer = std::mem::take(&mut self.scope);
        let nodes = self.body_to_end(context)?;
        self.scope = outer;
        self.add(Tree {
            name: name.to_string(),
            nodes,
        })?;
        Ok(Node::Template(Call {
            at,
            name,
            pipe: Some(pipe),
        }))
    }

    fn call(&mut self) -> Parsed<Node> {
        let context = "template clause";
        let (at, name) = self.template_name(context)?;
        let pipe = if self.peek_solid().kind == Kind::RightDelim {
            self.take();
            None
        } else {
            Some(self.pipeline(context, Kind::RightDelim)?)
        };
        Ok(Node::Template(Call { at, name, pipe }))
    }
}

/// A node, or what ends a list of them.
enum Item {
    Node(Node),
    End(End, &'static str),
}
