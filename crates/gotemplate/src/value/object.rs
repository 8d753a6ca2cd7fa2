//! Structs, with the fields and methods that Go's type has.

use std::any::Any;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::{Type, Value};
use crate::functions::Fault;

/// A struct, or a pointer to one. Fields and methods may be made when they are asked for; `&dyn Any` gives functions of the
/// caller their own type back.
pub trait Object: Any {
    /// Go's name of the type, for instance `v1.ObjectMeta`, or `*v1alpha1.ProxyConfig` for a pointer.
    fn type_name(&self) -> &str;

    /// Whether it is a nil pointer. Its methods can be called all the same, as those of messages can.
    fn is_nil(&self) -> bool {
        false
    }

    /// The value of a field: also one that is not set, as the zero value of its type. Nothing if the type has no such field.
    fn field(&self, name: &str) -> Option<Value>;

    /// The types of the parameters of a method; nothing if the type has none of that name.
    fn method(&self, _name: &str) -> Option<&[Type]> {
        None
    }

    /// Calls a method with arguments of those types.
    fn call(&self, name: &str, _args: &[Value]) -> Result<Value, Fault> {
        Err(format!("there is no method {name}").into())
    }

    /// Names and values of its fields in order, for printing.
    fn fields(&self) -> Vec<(Cow<'static, str>, Value)>;

    /// What the method `String` returns, if the type has one that Go's `fmt` calls.
    fn text(&self) -> Option<String> {
        None
    }

    /// What Go's `encoding/json` makes of it, without spaces.
    fn json(&self) -> String;
}

type Body = Box<dyn Fn(&[Value]) -> Result<Value, Fault>>;

/// A method of a [`Struct`].
struct Method {
    params: Vec<Type>,
    body: Body,
}

/// An [`Object`] put together from values.
#[derive(Default)]
pub struct Struct {
    type_name: Cow<'static, str>,
    fields: Vec<(Cow<'static, str>, Value)>,
    methods: BTreeMap<&'static str, Method>,
    text: Option<String>,
    json: String,
    nil: bool,
}

impl Struct {
    /// A struct, or with a name that begins with `*` a pointer to one.
    pub fn new(type_name: impl Into<Cow<'static, str>>) -> Self {
        Self {
            type_name: type_name.into(),
            ..Self::default()
        }
    }

    /// Adds a field.
    pub fn field(mut self, name: impl Into<Cow<'static, str>>, value: impl Into<Value>) -> Self {
        self.fields.push((name.into(), value.into()));
        self
    }

    /// Adds a method with parameters of those types.
    pub fn method<F>(mut self, name: &'static str, params: &[Type], body: F) -> Self
    where
        F: Fn(&[Value]) -> Result<Value, Fault> + 'static,
    {
        self.methods.insert(
            name,
            Method {
                params: params.to_vec(),
                body: Box::new(body),
            },
        );
        self
    }

    /// What the method `String` returns.
    pub fn text(mut self, text: String) -> Self {
        self.text = Some(text);
        self
    }

    /// What it is as JSON.
    pub fn json(mut self, json: String) -> Self {
        self.json = json;
        self
    }

    /// Makes it a nil pointer: the fields say only which there are.
    pub fn nil(mut self) -> Self {
        self.nil = true;
        self
    }
}

impl From<Struct> for Value {
    fn from(value: Struct) -> Self {
        Self::Object(Rc::new(value))
    }
}

impl Object for Struct {
    fn type_name(&self) -> &str {
        &self.type_name
    }

    fn is_nil(&self) -> bool {
        self.nil
    }

    fn field(&self, name: &str) -> Option<Value> {
        self.fields
            .iter()
            .find(|(field, _)| field == name)
            .map(|(_, value)| value.clone())
    }

    fn method(&self, name: &str) -> Option<&[Type]> {
        self.methods
            .get(name)
            .map(|method| method.params.as_slice())
    }

    fn call(&self, name: &str, args: &[Value]) -> Result<Value, Fault> {
        match self.methods.get(name) {
            Some(method) => (method.body)(args),
            None => Err(format!("there is no method {name}").into()),
        }
    }

    fn fields(&self) -> Vec<(Cow<'static, str>, Value)> {
        self.fields.clone()
    }

    fn text(&self) -> Option<String> {
        self.text.clone()
    }

    fn json(&self) -> String {
        self.json.clone()
    }
}
