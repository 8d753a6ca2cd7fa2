//! Renders a template: walks its nodes and prints what its pipelines give.

mod args;
mod eval;

use std::borrow::Cow;

use crate::ast::{Branch, Call, Command, Node, Part, Pipe, Tree};
use crate::budget::{Budget, Meter};
use crate::error::{Error, Executing, place};
use crate::functions::{Fault, Functions};
use crate::value::{IntType, Value};
use crate::{Template, print};

/// How many characters of an expression an error shows.
const MAX_EXPRESSION: usize = 300;

/// Renders a template over data.
pub(crate) fn render(
    template: &Template,
    data: &Value,
    functions: &Functions,
    budget: &Budget,
) -> Result<String, Error> {
    let empty = Tree {
        name: template.name.clone(),
        nodes: Vec::new(),
    };
    let tree = template.trees.get(&template.name).unwrap_or(&empty);
    let data = match data {
        Value::Nil => &Value::Missing,
        other => other,
    };
    let mut state = State {
        template,
        functions,
        meter: Meter::new(budget),
        budget,
        out: String::new(),
        depth: 0,
        tree: &tree.name,
        variables: vec![("$", data.clone())],
        at: At::Start,
    };
    state.walk(data, &tree.nodes)?;
    Ok(state.out)
}

/// What is being evaluated, for messages.
#[derive(Clone, Copy)]
enum At<'t> {
    Start,
    Pipe(&'t Pipe),
    Command(&'t Command),
    Part(&'t Part),
    Call(&'t Call),
}

/// How a list of nodes ended.
#[derive(PartialEq, Eq)]
enum Flow {
    Next,
    Break,
    Continue,
}

struct State<'t> {
    template: &'t Template,
    functions: &'t Functions,
    meter: Meter,
    budget: &'t Budget,
    out: String,
    depth: usize,
    /// The name of the template that is being rendered.
    tree: &'t str,
    variables: Vec<(&'t str, Value)>,
    at: At<'t>,
}

impl<'t> State<'t> {
    /// An error where the evaluation is.
    fn error(&self, message: impl Into<String>) -> Error {
        let (at, expression) = match self.at {
            At::Start => (0, String::new()),
            At::Pipe(pipe) => (pipe.at, pipe.to_string()),
            At::Command(command) => (command.at, command.to_string()),
            At::Part(part) => (part.at, part.to_string()),
            At::Call(call) => (call.at, call.to_string()),
        };
        let (line, column) = place(&self.template.text, at);
        let expression = match expression.char_indices().nth(MAX_EXPRESSION) {
            Some((end, _)) => format!("{}...", &expression[..end]),
            None => expression,
        };
        Error {
            template: self.template.name.clone(),
            line,
            column,
            executing: Some(Executing {
                template: self.tree.to_owned(),
                expression,
            }),
            message: message.into(),
        }
    }

    fn step(&self) -> Result<(), Error> {
        self.meter
            .step(1)
            .map_err(|fault| self.error(fault.to_string()))
    }

    /// Runs what is nested one deeper.
    fn nested<T>(&mut self, run: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        if self.depth >= self.budget.depth {
            return Err(self.error("templates, blocks and pipelines are nested too deeply"));
        }
        self.depth += 1;
        let result = run(self);
        self.depth -= 1;
        result
    }

    fn write(&mut self, text: &str) -> Result<(), Error> {
        if self.out.len() + text.len() > self.budget.output {
            return Err(self.error(format!(
                "the output has more than {} bytes",
                self.budget.output
            )));
        }
        self.out.push_str(text);
        Ok(())
    }

    fn walk(&mut self, dot: &Value, nodes: &'t [Node]) -> Result<Flow, Error> {
        for node in nodes {
            self.step()?;
            match node {
                Node::Text(text) => self.write(text)?,
                Node::Action(pipe) => {
                    let value = self.pipeline(dot, pipe)?;
                    if pipe.variables.is_empty() {
                        self.at = At::Pipe(pipe);
                        self.print(&value)?;
                    }
                }
                Node::If(branch) | Node::With(branch) => {
                    let flow = self
                        .nested(|state| state.branch(dot, branch, matches!(node, Node::With(_))))?;
                    if flow != Flow::Next {
                        return Ok(flow);
                    }
                }
                Node::Range(branch) => {
                    let flow = self.nested(|state| state.range(dot, branch))?;
                    if flow != Flow::Next {
                        return Ok(flow);
                    }
                }
                Node::Template(call) => self.nested(|state| state.call_template(dot, call))?,
                Node::Break => return Ok(Flow::Break),
                Node::Continue => return Ok(Flow::Continue),
            }
        }
        Ok(Flow::Next)
    }

    fn print(&mut self, value: &Value) -> Result<(), Error> {
        let text: Cow<'_, str> = match value {
            Value::Missing => Cow::Borrowed("<no value>"),
            Value::String(text) => Cow::Borrowed(text),
            other => {
                let other = other.indirect().unwrap_or(other);
                Cow::Owned(
                    print::value(&self.meter, other)
                        .map_err(|fault| self.error(fault.to_string()))?,
                )
            }
        };
        self.write(&text)
    }

    /// `if` and `with`.
    fn branch(&mut self, dot: &Value, branch: &'t Branch, with: bool) -> Result<Flow, Error> {
        let mark = self.variables.len();
        let value = self.pipeline(dot, &branch.pipe)?;
        let flow = match value.truth() {
            true if with => self.walk(&value, &branch.body),
            true => self.walk(dot, &branch.body),
            false => self.walk(dot, &branch.otherwise),
        };
        self.variables.truncate(mark);
        flow
    }

    fn range(&mut self, dot: &Value, branch: &'t Branch) -> Result<Flow, Error> {
        let mark = self.variables.len();
        let value = self.pipeline(dot, &branch.pipe)?;
        let flow = match value.indirect() {
            Some(Value::Int(count, ty)) => self.range_numbers(branch, i128::from(*count), *ty)?,
            Some(Value::Uint(count, ty)) => self.range_numbers(branch, i128::from(*count), *ty)?,
            Some(Value::List(list)) => {
                let items = list.items().iter().enumerate();
                self.iterate(
                    branch,
                    items.map(|(i, item)| (Value::int(i as i64), item.clone())),
                )?
            }
            Some(Value::Map(map)) => {
                let entries = map.entries();
                self.meter
                    .step(entries.len())
                    .map_err(|fault| self.error(fault.to_string()))?;
                self.iterate(
                    branch,
                    entries
                        .into_iter()
                        .map(|(key, value)| (Value::String(key), value)),
                )?
            }
            Some(Value::Missing) => None,
            other => {
                let shown = print::value(&self.meter, other.unwrap_or(&Value::Nil))
                    .map_err(|fault| self.error(fault.to_string()))?;
                return Err(self.error(format!("range can't iterate over {shown}")));
            }
        };
        let flow = match flow {
            Some(()) => Ok(Flow::Next),
            None => self.walk(dot, &branch.otherwise),
        };
        self.variables.truncate(mark);
        flow
    }

    fn range_numbers(
        &mut self,
        branch: &'t Branch,
        count: i128,
        ty: IntType,
    ) -> Result<Option<()>, Error> {
        if branch.pipe.variables.len() > 1 {
            return Err(self.error(format!(
                "can't use {count} to iterate over more than one variable"
            )));
        }
        let number = |n: i128| match ty.is_signed() {
            true => Value::Int(n as i64, ty),
            false => Value::Uint(n as u64, ty),
        };
        self.iterate(branch, (0..count).map(|n| (Value::Missing, number(n))))
    }

    /// Runs the body for each pair of index and item; nothing if there is none.
    fn iterate(
        &mut self,
        branch: &'t Branch,
        pairs: impl Iterator<Item = (Value, Value)>,
    ) -> Result<Option<()>, Error> {
        let mark = self.variables.len();
        let pipe = &branch.pipe;
        let mut any = None;
        for (index, item) in pairs {
            any = Some(());
            self.step()?;
            match (pipe.variables.as_slice(), pipe.assigns) {
                ([], _) => {}
                ([one], true) => self.assign(one, item.clone())?,
                ([one, two, ..], true) => {
                    self.assign(one, index)?;
                    self.assign(two, item.clone())?;
                }
                ([_], false) => self.set_top(1, item.clone()),
                ([_, _, ..], false) => {
                    self.set_top(1, item.clone());
                    self.set_top(2, index);
                }
            }
            let flow = self.walk(&item, &branch.body)?;
            self.variables.truncate(mark);
            if flow == Flow::Break {
                break;
            }
        }
        Ok(any)
    }

    /// Sets the variable that many from the top.
    fn set_top(&mut self, from_top: usize, value: Value) {
        let at = self.variables.len() - from_top;
        self.variables[at].1 = value;
    }

    fn call_template(&mut self, dot: &Value, call: &'t Call) -> Result<(), Error> {
        self.at = At::Call(call);
        let Some(tree) = self.template.trees.get(&*call.name) else {
            return Err(self.error(format!("template {} not defined", print::quote(&call.name))));
        };
        let dot = match &call.pipe {
            Some(pipe) => self.pipeline(dot, pipe)?,
            None => Value::Missing,
        };
        let variables = std::mem::replace(&mut self.variables, vec![("$", dot.clone())]);
        let outer = std::mem::replace(&mut self.tree, &tree.name);
        let result = self.walk(&dot, &tree.nodes);
        self.variables = variables;
        if result.is_ok() {
            self.tree = outer;
        }
        result.map(|_| ())
    }

    /// An error of a function, as Go words it.
    fn failed(&self, name: &str, fault: &Fault) -> Error {
        self.error(format!("error calling {name}: {fault}"))
    }
}
