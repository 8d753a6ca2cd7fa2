//! What stands within actions: pipelines, commands and operands.

use super::{Fault, MAX_DEPTH, Parsed, Parser};
use crate::ast::{Command, Part, PartKind, Pipe};
use crate::functions::Lookup;
use crate::lexer::{Kind, Token};
use crate::literal::{number, unquote};
use crate::print::quote;

impl<'t> Parser<'t> {
    /// Commands up to a token of that kind, which is taken.
    pub(super) fn pipeline(&mut self, context: &str, end: Kind) -> Parsed<Pipe> {
        let at = self.peek_solid().at;
        let mut pipe = Pipe {
            at,
            assigns: false,
            variables: Vec::new(),
            commands: Vec::new(),
        };
        self.declarations(context, &mut pipe)?;
        loop {
            let token = self.peek_solid().clone();
            match token.kind {
                kind if kind == end => {
                    self.take();
                    self.check(&pipe, context)?;
                    return Ok(pipe);
                }
                Kind::Bool
                | Kind::CharConstant
                | Kind::Dot
                | Kind::Field
                | Kind::Identifier
                | Kind::Number
                | Kind::Nil
                | Kind::String
                | Kind::Variable
                | Kind::LeftParen => pipe.commands.push(self.command()?),
                _ => return self.unexpected(&token, context),
            }
        }
    }

    /// `$x :=`, `$x =`, and for `range` also `$i, $x :=`.
    fn declarations(&mut self, context: &str, pipe: &mut Pipe) -> Parsed<()> {
        while self.peek_solid().kind == Kind::Variable {
            let start = self.next;
            let variable = self.take();
            let next = self.peek_solid().clone();
            match next.kind {
                Kind::Assign | Kind::Declare => {
                    pipe.assigns = next.kind == Kind::Assign;
                    self.take();
                    pipe.variables.push(variable.text.into());
                    self.scope.variables.push(variable.text);
                    return Ok(());
                }
                Kind::Char if next.text == "," => {
                    self.take();
                    pipe.variables.push(variable.text.into());
                    self.scope.variables.push(variable.text);
                    if context != "range" || pipe.variables.len() > 1 {
                        return self.fault(format!("too many declarations in {context}"));
                    }
                    if !matches!(
                        self.peek_solid().kind,
                        Kind::Variable | Kind::RightDelim | Kind::RightParen
                    ) {
                        return self.fault("range can only initialize variables");
                    }
                }
                _ => {
                    self.next = start;
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn check(&self, pipe: &Pipe, context: &str) -> Parsed<()> {
        if pipe.commands.is_empty() {
            return self.fault(format!("missing value for {context}"));
        }
        for (i, command) in pipe.commands.iter().enumerate().skip(1) {
            let constant = command.parts.first().is_some_and(|part| {
                use PartKind::{Bool, Dot, Nil, Number, String};
                matches!(part.kind, Bool(_) | Dot | Nil | Number(_) | String { .. })
            });
            if constant {
                return self.fault(format!(
                    "non executable command in pipeline stage {}",
                    i + 1
                ));
            }
        }
        Ok(())
    }

    fn command(&mut self) -> Parsed<Command> {
        let mut command = Command {
            at: self.peek_solid().at,
            parts: Vec::new(),
        };
        loop {
            self.peek_solid();
            command.parts.extend(self.operand()?);
            let token = self.peek().clone();
            match token.kind {
                Kind::Space => {
                    self.take();
                }
                Kind::RightDelim | Kind::RightParen => break,
                Kind::Pipe => {
                    self.take();
                    break;
                }
                _ => return self.unexpected(&token, "operand"),
            }
        }
        if command.parts.is_empty() {
            return self.fault("empty command");
        }
        Ok(command)
    }

    /// A term with the fields after it; nothing if none follows.
    fn operand(&mut self) -> Parsed<Option<Part>> {
        let Some(mut part) = self.term()? else {
            return Ok(None);
        };
        if self.peek().kind != Kind::Field {
            return Ok(Some(part));
        }
        let at = self.peek().at;
        let mut names = Vec::new();
        while self.peek().kind == Kind::Field {
            names.push(Box::from(&self.take().text[1..]));
        }
        match &mut part.kind {
            PartKind::Field(fields) | PartKind::Variable(_, fields) => {
                fields.append(&mut names);
                part.at = at;
                Ok(Some(part))
            }
            PartKind::Function(_) | PartKind::Pipe(_) => Ok(Some(Part {
                at,
                kind: PartKind::Chain(Box::new(part), names),
            })),
            _ => self.fault(format!(
                "unexpected . after term {}",
                quote(&part.to_string())
            )),
        }
    }

    fn term(&mut self) -> Parsed<Option<Part>> {
        let token = self.peek_solid().clone();
        let kind = match token.kind {
            Kind::Identifier => self.function(&token)?,
            Kind::Dot => PartKind::Dot,
            Kind::Nil => PartKind::Nil,
            Kind::Bool => PartKind::Bool(token.text == "true"),
            Kind::Variable => {
                if !self.scope.variables.contains(&token.text) {
                    return fault_at(&token, format!("undefined variable {}", quote(token.text)));
                }
                PartKind::Variable(token.text.into(), Vec::new())
            }
            Kind::Field => PartKind::Field(vec![token.text[1..].into()]),
            Kind::CharConstant | Kind::Number => {
                PartKind::Number(number(token.text).or_else(|fault| fault_at(&token, fault))?)
            }
            Kind::String => PartKind::String {
                written: token.text.into(),
                text: unquote(token.text)
                    .or_else(|fault| fault_at(&token, fault))?
                    .into(),
            },
            Kind::LeftParen => {
                self.take();
                if self.depth >= MAX_DEPTH {
                    return fault_at(&token, "max expression depth exceeded".to_owned());
                }
                self.depth += 1;
                let pipe = self.pipeline("parenthesized pipeline", Kind::RightParen)?;
                self.depth -= 1;
                // The place of a parenthesised pipeline is that of what it holds.
                return Ok(Some(Part {
                    at: pipe.at,
                    kind: PartKind::Pipe(Box::new(pipe)),
                }));
            }
            _ => return Ok(None),
        };
        self.take();
        Ok(Some(Part { at: token.at, kind }))
    }

    fn function(&self, token: &Token<'t>) -> Parsed<PartKind> {
        match self.functions.lookup(token.text) {
            Lookup::Function(_) => Ok(PartKind::Function(token.text.into())),
            Lookup::Refused(why) => fault_at(
                token,
                format!("function {} is not available: {why}", quote(token.text)),
            ),
            Lookup::Unknown => {
                fault_at(token, format!("function {} not defined", quote(token.text)))
            }
        }
    }
}

fn fault_at<T>(token: &Token<'_>, message: String) -> Parsed<T> {
    Err(Fault {
        at: token.at,
        message,
        action: None,
    })
}
