//! The tree of a template. It prints as Go prints it, for messages.

use std::fmt;

/// A template, or one that is defined in it.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(crate) name: String,
    pub(crate) nodes: Vec<Node>,
}

impl Tree {
    /// Whether it holds nothing but space.
    pub(crate) fn is_empty(&self) -> bool {
        self.nodes
            .iter()
            .all(|node| matches!(node, Node::Text(text) if text.trim().is_empty()))
    }
}

/// Text or an action.
#[derive(Debug)]
pub(crate) enum Node {
    Text(Box<str>),
    Action(Pipe),
    If(Branch),
    With(Branch),
    Range(Branch),
    Template(Call),
    Break,
    Continue,
}

/// An action with a body, and what stands after `else`.
#[derive(Debug)]
pub(crate) struct Branch {
    pub(crate) pipe: Pipe,
    pub(crate) body: Vec<Node>,
    pub(crate) otherwise: Vec<Node>,
}

/// `{{template "name" pipeline}}`.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) at: usize,
    pub(crate) name: Box<str>,
    pub(crate) pipe: Option<Pipe>,
}

/// Commands, each with the result of the one before, and the variables that get the last result.
#[derive(Debug)]
pub(crate) struct Pipe {
    pub(crate) at: usize,
    pub(crate) assigns: bool,
    pub(crate) variables: Vec<Box<str>>,
    pub(crate) commands: Vec<Command>,
}

/// An operand, or a function or method with its arguments. There is at least one part.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) at: usize,
    pub(crate) parts: Vec<Part>,
}

/// An operand.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) at: usize,
    pub(crate) kind: PartKind,
}

/// What an operand is.
#[derive(Debug)]
pub(crate) enum PartKind {
    Dot,
    Nil,
    Bool(bool),
    Number(Number),
    String {
        written: Box<str>,
        text: Box<str>,
    },
    Function(Box<str>),
    Field(Vec<Box<str>>),
    /// The name with its `$`, and the fields after it.
    Variable(Box<str>, Vec<Box<str>>),
    /// Fields of a parenthesised pipeline or a function without arguments.
    Chain(Box<Part>, Vec<Box<str>>),
    Pipe(Box<Pipe>),
}

/// A constant: which types it can have depends on how it is written.
#[derive(Debug)]
pub(crate) struct Number {
    pub(crate) written: Box<str>,
    pub(crate) int: Option<i64>,
    pub(crate) uint: Option<u64>,
    pub(crate) float: Option<f64>,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{{template {}", crate::print::quote(&self.name))?;
        if let Some(pipe) = &self.pipe {
            write!(f, " {pipe}")?;
        }
        f.write_str("}}")
    }
}

impl fmt::Display for Pipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.variables.is_empty() {
            let sign = if self.assigns { "=" } else { ":=" };
            write!(f, "{} {sign} ", self.variables.join(", "))?;
        }
        for (i, command) in self.commands.iter().enumerate() {
            if i > 0 {
                f.write_str(" | ")?;
            }
            write!(f, "{command}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, part) in self.parts.iter().enumerate() {
            if i > 0 {
                f.write_str(" ")?;
            }
            match &part.kind {
                PartKind::Pipe(pipe) => write!(f, "({pipe})")?,
                _ => write!(f, "{part}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = |f: &mut fmt::Formatter<'_>, names: &[Box<str>]| {
            names.iter().try_for_each(|name| write!(f, ".{name}"))
        };
        match &self.kind {
            PartKind::Dot => f.write_str("."),
            PartKind::Nil => f.write_str("nil"),
            PartKind::Bool(value) => write!(f, "{value}"),
            PartKind::Number(number) => f.write_str(&number.written),
            PartKind::String { written, .. } => f.write_str(written),
            PartKind::Function(name) => f.write_str(name),
            PartKind::Field(names) => fields(f, names),
            PartKind::Variable(name, names) => {
                f.write_str(name)?;
                fields(f, names)
            }
            PartKind::Chain(part, names) => {
                match &part.kind {
                    PartKind::Pipe(pipe) => write!(f, "({pipe})")?,
                    _ => write!(f, "{part}")?,
                }
                fields(f, names)
            }
            PartKind::Pipe(pipe) => write!(f, "{pipe}"),
        }
    }
}
