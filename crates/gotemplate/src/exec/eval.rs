//! Evaluates pipelines, commands, fields and methods.

use super::{At, State};
use crate::ast::{Command, Part, PartKind, Pipe};
use crate::error::Error;
use crate::functions::Lookup;
use crate::value::{Type, Value};

type Eval = Result<Value, Error>;

impl<'t> State<'t> {
    /// The value of a pipeline. Its variables get it too.
    pub(super) fn pipeline(&mut self, dot: &Value, pipe: &'t Pipe) -> Eval {
        self.at = At::Pipe(pipe);
        let mut value = None;
        for command in &pipe.commands {
            self.step()?;
            value = Some(match self.command(dot, command, value)? {
                Value::Nil => Value::Missing,
                other => other,
            });
        }
        let value = value.unwrap_or(Value::Missing);
        for name in &pipe.variables {
            if pipe.assigns {
                self.assign(name, value.clone())?;
            } else {
                self.variables.push((name, value.clone()));
            }
        }
        Ok(value)
    }

    /// Gives a variable another value.
    pub(super) fn assign(&mut self, name: &str, value: Value) -> Result<(), Error> {
        match self
            .variables
            .iter_mut()
            .rev()
            .find(|(known, _)| *known == name)
        {
            Some((_, slot)) => {
                *slot = value;
                Ok(())
            }
            None => Err(self.error(format!("undefined variable: {name}"))),
        }
    }

    pub(super) fn variable(&self, name: &str) -> Eval {
        match self
            .variables
            .iter()
            .rev()
            .find(|(known, _)| *known == name)
        {
            Some((_, value)) => Ok(value.clone()),
            None => Err(self.error(format!("undefined variable: {name}"))),
        }
    }

    /// A command with the result of the one before as its last argument.
    fn command(&mut self, dot: &Value, command: &'t Command, last: Option<Value>) -> Eval {
        let (first, args) = match command.parts.split_first() {
            Some(parts) => parts,
            None => return Err(self.error("empty command")),
        };
        match &first.kind {
            PartKind::Field(names) => {
                self.at = At::Part(first);
                self.chain(dot, dot.clone(), names, args, last)
            }
            PartKind::Chain(inner, names) => self.chained(dot, first, inner, names, args, last),
            PartKind::Function(name) => {
                self.function(dot, first, At::Command(command), name, args, last)
            }
            PartKind::Variable(name, names) => {
                self.at = At::Part(first);
                let value = self.variable(name)?;
                if names.is_empty() {
                    self.no_arguments(first, args, last.as_ref())?;
                    return Ok(value);
                }
                self.chain(dot, value, names, args, last)
            }
            PartKind::Pipe(pipe) => {
                self.no_arguments(first, args, last.as_ref())?;
                self.nested(|state| state.pipeline(dot, pipe))
            }
            PartKind::Dot
            | PartKind::Nil
            | PartKind::Bool(_)
            | PartKind::Number(_)
            | PartKind::String { .. } => {
                self.at = At::Part(first);
                self.no_arguments(first, args, last.as_ref())?;
                self.constant(dot, first)
            }
        }
    }

    /// A part that stands for itself.
    fn constant(&mut self, dot: &Value, part: &'t Part) -> Eval {
        match &part.kind {
            PartKind::Dot => Ok(dot.clone()),
            PartKind::Bool(value) => Ok(Value::Bool(*value)),
            PartKind::Number(number) => self.ideal(number),
            PartKind::String { text, .. } => Ok(Value::str(text)),
            PartKind::Nil => Err(self.error("nil is not a command")),
            _ => Err(self.error(format!("can't evaluate command {part}"))),
        }
    }

    fn no_arguments(&self, part: &Part, args: &[Part], last: Option<&Value>) -> Result<(), Error> {
        if args.is_empty() && last.is_none() {
            return Ok(());
        }
        Err(self.error(format!("can't give argument to non-function {part}")))
    }

    /// Fields of a parenthesised pipeline or of a function's result.
    pub(super) fn chained(
        &mut self,
        dot: &Value,
        part: &'t Part,
        inner: &'t Part,
        names: &'t [Box<str>],
        args: &'t [Part],
        last: Option<Value>,
    ) -> Eval {
        self.at = At::Part(part);
        let value = match &inner.kind {
            PartKind::Pipe(pipe) => self.nested(|state| state.pipeline(dot, pipe))?,
            PartKind::Function(name) => {
                self.function(dot, inner, At::Part(inner), name, &[], None)?
            }
            _ => return Err(self.error(format!("can't evaluate fields of {inner}"))),
        };
        self.chain(dot, value, names, args, last)
    }

    /// Goes along fields; the last may be a method, which gets the arguments.
    pub(super) fn chain(
        &mut self,
        dot: &Value,
        mut value: Value,
        names: &'t [Box<str>],
        args: &'t [Part],
        last: Option<Value>,
    ) -> Eval {
        let Some((end, before)) = names.split_last() else {
            return Ok(value);
        };
        for name in before {
            self.step()?;
            value = self.field(dot, name, &[], None, &value)?;
        }
        self.field(dot, end, args, last, &value)
    }

    /// A field, method or entry of a value.
    fn field(
        &mut self,
        dot: &Value,
        name: &'t str,
        args: &'t [Part],
        last: Option<Value>,
        of: &Value,
    ) -> Eval {
        let has_arguments = !args.is_empty() || last.is_some();
        let unknown = |state: &Self| {
            Err(state.error(format!(
                "can't evaluate field {name} in type {}",
                of.type_name()
            )))
        };
        match of {
            Value::Missing => Ok(Value::Missing),
            Value::Nil => Err(self.error(format!("nil pointer evaluating interface {{}}.{name}"))),
            Value::Pointer(ty, None) => {
                Err(self.error(format!("nil pointer evaluating *{ty}.{name}")))
            }
            Value::Map(map) => {
                if has_arguments {
                    return Err(self.error(format!("{name} is not a method but has arguments")));
                }
                Ok(map.get(name).unwrap_or(Value::Missing))
            }
            Value::Named(named) => match &named.text {
                Some(text) if name == "String" && !has_arguments => Ok(Value::String(text.clone())),
                Some(_) if name == "String" => {
                    self.count(name, 0, None, args, last.as_ref())?;
                    unknown(self)
                }
                _ => unknown(self),
            },
            Value::Object(object) => {
                if let Some(params) = object.method(name) {
                    let at = self.at;
                    self.count(name, params.len(), None, args, last.as_ref())?;
                    let values = self.arguments(dot, params, None, args, last)?;
                    self.at = at;
                    return object
                        .call(name, &values)
                        .map_err(|fault| self.failed(name, &fault));
                }
                match object.field(name) {
                    None => unknown(self),
                    Some(_) if object.is_nil() => Err(self.error(format!(
                        "nil pointer evaluating {}.{name}",
                        object.type_name()
                    ))),
                    Some(_) if has_arguments => Err(self.error(format!(
                        "{name} has arguments but cannot be invoked as function"
                    ))),
                    Some(value) => Ok(value),
                }
            }
            _ => unknown(self),
        }
    }

    /// Calls a function. Errors of the function itself are at the whole command.
    pub(super) fn function(
        &mut self,
        dot: &Value,
        part: &'t Part,
        whole: At<'t>,
        name: &'t str,
        args: &'t [Part],
        last: Option<Value>,
    ) -> Eval {
        self.at = At::Part(part);
        let functions = self.functions;
        let Lookup::Function(function) = functions.lookup(name) else {
            return Err(self.error(format!(
                "{} is not a defined function",
                crate::print::quote(name)
            )));
        };
        self.count(
            name,
            function.params.len(),
            function.rest.as_ref(),
            args,
            last.as_ref(),
        )?;
        if let Some(until) = function.until {
            return self.short_circuit(dot, until, args, last);
        }
        let values = self.arguments(dot, &function.params, function.rest.as_ref(), args, last)?;
        let result = (function.body)(&self.meter, crate::functions::Args(&values));
        result.map_err(|fault| {
            self.at = whole;
            self.failed(name, &fault)
        })
    }

    /// Whether a function gets as many arguments as it takes.
    fn count(
        &self,
        name: &str,
        fixed: usize,
        rest: Option<&Type>,
        args: &[Part],
        last: Option<&Value>,
    ) -> Result<(), Error> {
        let count = args.len() + usize::from(last.is_some());
        match rest {
            Some(_) if count < fixed => Err(self.error(format!(
                "wrong number of args for {name}: want at least {fixed} got {}",
                args.len()
            ))),
            None if count != fixed => Err(self.error(format!(
                "wrong number of args for {name}: want {fixed} got {count}"
            ))),
            _ => Ok(()),
        }
    }

    fn arguments(
        &mut self,
        dot: &Value,
        params: &[Type],
        rest: Option<&Type>,
        args: &'t [Part],
        last: Option<Value>,
    ) -> Result<Vec<Value>, Error> {
        let mut values = Vec::with_capacity(args.len() + 1);
        let types = params.iter().chain(rest.into_iter().cycle());
        let mut types = types.take(args.len() + 1);
        for (arg, ty) in args.iter().zip(types.by_ref()) {
            values.push(self.arg(dot, ty, arg)?);
        }
        if let (Some(last), Some(ty)) = (last, types.next()) {
            values.push(self.checked(last, ty)?);
        }
        Ok(values)
    }

    /// `and` and `or`: the first argument that decides, or the last one.
    fn short_circuit(
        &mut self,
        dot: &Value,
        until: bool,
        args: &'t [Part],
        last: Option<Value>,
    ) -> Eval {
        let mut value = Value::Missing;
        for arg in args {
            value = self.arg(dot, &Type::Reflect, arg)?;
            if value.truth() == until {
                return Ok(value);
            }
        }
        Ok(last.unwrap_or(value))
    }
}
