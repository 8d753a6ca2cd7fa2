//! Functions that templates can call, with the types of their parameters.

use std::collections::BTreeMap;
use std::fmt;

use crate::budget::Meter;
use crate::value::{List, Map, Type, Value};

/// Why a function failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    message: String,
    limit: bool,
}

impl Fault {
    /// A budget is used up.
    pub(crate) fn limit(message: &str) -> Self {
        Self {
            message: message.to_owned(),
            limit: true,
        }
    }

    /// Whether a budget is used up: no function may go on as if nothing had happened.
    pub fn is_limit(&self) -> bool {
        self.limit
    }
}

impl From<String> for Fault {
    fn from(message: String) -> Self {
        Self {
            message,
            limit: false,
        }
    }
}

impl From<&str> for Fault {
    fn from(message: &str) -> Self {
        Self::from(message.to_owned())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// What a function is called with. The types are those of its parameters.
pub struct Args<'a>(pub(crate) &'a [Value]);

impl<'a> Args<'a> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// An argument as it is, nil where there is none.
    pub fn value(&self, i: usize) -> &'a Value {
        self.0.get(i).unwrap_or(&Value::Nil)
    }

    /// A string.
    pub fn str(&self, i: usize) -> &'a str {
        self.value(i).as_str().unwrap_or_default()
    }

    /// An integer.
    pub fn int(&self, i: usize) -> i64 {
        self.value(i)
            .as_int()
            .and_then(|n| i64::try_from(n).ok())
            .unwrap_or_default()
    }

    /// A boolean.
    pub fn bool(&self, i: usize) -> bool {
        matches!(self.value(i), Value::Bool(true))
    }

    /// A float.
    pub fn float(&self, i: usize) -> f64 {
        match self.value(i) {
            Value::Float(value) => *value,
            _ => 0.0,
        }
    }

    /// A map.
    pub fn map(&self, i: usize) -> Map {
        self.value(i)
            .as_map()
            .cloned()
            .unwrap_or_else(|| Map::nil(Type::Any))
    }

    /// A list.
    pub fn list(&self, i: usize) -> List {
        self.value(i)
            .as_list()
            .cloned()
            .unwrap_or_else(|| List::nil(Type::Any))
    }

    /// The arguments from one on.
    pub fn rest(&self, from: usize) -> &'a [Value] {
        self.0.get(from..).unwrap_or_default()
    }
}

type Body = Box<dyn Fn(&Meter, Args<'_>) -> Result<Value, Fault> + Send + Sync>;

/// A function: the types of its parameters, that of any more, and what it does.
pub(crate) struct Function {
    pub(crate) params: Vec<Type>,
    pub(crate) rest: Option<Type>,
    /// For `and` and `or`: the truth of the argument that ends the evaluation of the others.
    pub(crate) until: Option<bool>,
    pub(crate) body: Body,
}

enum Entry {
    Function(Function),
    Refused(String),
}

/// What a name stands for.
pub(crate) enum Lookup<'a> {
    Function(&'a Function),
    Refused(&'a str),
    Unknown,
}

/// Functions by name.
#[derive(Default)]
pub struct Functions(BTreeMap<String, Entry>);

impl Functions {
    /// The functions of `text/template` itself.
    pub fn builtin() -> Self {
        let mut functions = Self::default();
        crate::builtin::add(&mut functions);
        functions
    }

    /// The functions of `text/template` and those of Sprig that compute something from their arguments alone. The
    /// others are known by name, and why they are left out.
    pub fn sprig() -> Self {
        let mut functions = Self::builtin();
        crate::sprig::add(&mut functions);
        functions
    }

    /// Adds a function, in place of one that has its name.
    pub fn add<F>(&mut self, name: &str, params: &[Type], body: F)
    where
        F: Fn(&Meter, Args<'_>) -> Result<Value, Fault> + Send + Sync + 'static,
    {
        let function = Function {
            params: params.to_vec(),
            rest: None,
            until: None,
            body: Box::new(body),
        };
        self.0.insert(name.to_owned(), Entry::Function(function));
    }

    /// Adds a function that takes any number of further arguments of one type.
    pub fn add_variadic<F>(&mut self, name: &str, params: &[Type], rest: Type, body: F)
    where
        F: Fn(&Meter, Args<'_>) -> Result<Value, Fault> + Send + Sync + 'static,
    {
        let function = Function {
            params: params.to_vec(),
            rest: Some(rest),
            until: None,
            body: Box::new(body),
        };
        self.0.insert(name.to_owned(), Entry::Function(function));
    }

    /// Adds `and` or `or`: the arguments are evaluated up to the first whose truth is this.
    pub(crate) fn add_short_circuit(&mut self, name: &str, until: bool) {
        let body: Body = Box::new(|_, args| Ok(args.value(0).clone()));
        let function = Function {
            params: vec![Type::Reflect],
            rest: Some(Type::Reflect),
            until: Some(until),
            body,
        };
        self.0.insert(name.to_owned(), Entry::Function(function));
    }

    /// Leaves a function out that authors may look for: templates that name it are refused with the reason.
    pub fn refuse(&mut self, name: &str, why: &str) {
        self.0
            .insert(name.to_owned(), Entry::Refused(why.to_owned()));
    }

    /// The names of all functions that can be called.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0
            .iter()
            .filter(|(_, entry)| matches!(entry, Entry::Function(_)))
            .map(|(name, _)| name.as_str())
    }

    pub(crate) fn lookup(&self, name: &str) -> Lookup<'_> {
        match self.0.get(name) {
            Some(Entry::Function(function)) => Lookup::Function(function),
            Some(Entry::Refused(why)) => Lookup::Refused(why),
            None => Lookup::Unknown,
        }
    }
}
