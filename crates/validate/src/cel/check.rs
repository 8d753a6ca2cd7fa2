//! What an expression is before it is evaluated: the kind of its value, and the most that it may cost.
//!
//! Costs are counted in the units of CEL's own estimates, a unit being about one step, with sizes as the kinds of the
//! variables state them. Where nothing is known of a value it may be anything, and nothing is refused for it.
//!
//! cel-go: checker/cost.go; Kubernetes: staging/src/k8s.io/apiserver/pkg/cel/library/cost.go, 1.36.

mod calls;
mod signatures;

use std::sync::Arc;

use ::cel::IdedExpr;
use ::cel::common::ast::{ComprehensionExpr, EntryExpr, Expr, LiteralValue, SelectExpr};
use ::cel::parser::Expression;

use super::kind::{Kind, Shape};

/// How deep expressions are looked at; what is deeper is of any kind and costs nothing.
const DEEPEST: usize = 120;

/// What is known of an expression.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) kind: Kind,
    pub(super) cost: u64,
}

impl Known {
    fn free(kind: Kind) -> Self {
        Self { kind, cost: 0 }
    }
}

/// What is known of an expression over variables, or what cannot be right about it.
pub(super) fn check(expression: &Expression, variables: &[(&str, Kind)]) -> Result<Known, String> {
    let variables = variables.iter().cloned();
    let mut walk = Walk {
        variables: variables
            .map(|(name, kind)| (name.to_owned(), kind))
            .collect(),
        depth: 0,
    };
    walk.of(expression)
}

/// A walk through an expression.
struct Walk {
    /// The innermost last.
    variables: Vec<(String, Kind)>,
    depth: usize,
}

type Found = Result<Known, String>;

/// A size at a share of a unit for each element.
fn tenth(size: u64) -> u64 {
    size.div_ceil(10)
}

fn quarter(size: u64) -> u64 {
    size.div_ceil(4)
}

impl Walk {
    fn of(&mut self, expression: &IdedExpr) -> Found {
        if self.depth > DEEPEST {
            return Ok(Known::free(Kind::any()));
        }
        self.depth += 1;
        let found = self.within(expression);
        self.depth -= 1;
        found
    }

    fn within(&mut self, expression: &IdedExpr) -> Found {
        match &expression.expr {
            Expr::Literal(literal) => Ok(Known::free(literal_kind(literal))),
            Expr::Ident(name) => self.variable(name),
            Expr::Select(select) => self.select(select),
            Expr::Call(call) => self.call(call),
            Expr::List(list) => {
                let mut cost = 10;
                let mut of = Kind::of(Shape::Nothing, 0);
                for (index, item) in list.elements.iter().enumerate() {
                    let mut item = self.of(item)?;
                    cost = add(cost, item.cost);
                    if list.optional_indices.contains(&index)
                        && let Shape::Optional(inner) = item.kind.shape
                    {
                        item.kind = Arc::unwrap_or_clone(inner);
                    }
                    of = of.join(item.kind);
                }
                let kind = Kind::of(Shape::List(Arc::new(of)), list.elements.len() as u64);
                Ok(Known { kind, cost })
            }
            Expr::Map(map) => {
                let mut cost = 30;
                let mut of = Kind::of(Shape::Nothing, 0);
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        let (key, value) = (self.of(&entry.key)?, self.of(&entry.value)?);
                        cost = add(cost, add(key.cost, value.cost));
                        of = of.join(value.kind);
                    }
                }
                let kind = Kind::of(Shape::Map(Arc::new(of)), map.entries.len() as u64);
                Ok(Known { kind, cost })
            }
            Expr::Comprehension(loops) => self.comprehension(loops),
            // Messages are not made in rules.
            Expr::Struct(_) | Expr::Unspecified => Ok(Known::free(Kind::any())),
        }
    }

    fn find(&self, name: &str) -> Option<&Kind> {
        let mut all = self.variables.iter().rev();
        all.find(|(known, _)| known == name).map(|(_, kind)| kind)
    }

    fn variable(&self, name: &str) -> Found {
        const TYPES: [&str; 11] = [
            "bool",
            "bytes",
            "double",
            "dyn",
            "int",
            "list",
            "map",
            "null_type",
            "string",
            "type",
            "uint",
        ];
        match self.find(name) {
            Some(kind) => Ok(Known {
                kind: kind.clone(),
                cost: 1,
            }),
            None if TYPES.contains(&name) => Ok(Known {
                kind: Kind::plain(Shape::Type),
                cost: 1,
            }),
            None => Err(format!("undeclared reference to '{name}'")),
        }
    }

    fn select(&mut self, select: &SelectExpr) -> Found {
        if is_type_name(select) {
            return Ok(Known {
                kind: Kind::plain(Shape::Type),
                cost: 1,
            });
        }
        let of = self.of(&select.operand)?;
        let (kind, optional) = match &of.kind.shape {
            Shape::Optional(inner) => ((**inner).clone(), true),
            _ => (of.kind, false),
        };
        let found = match &kind.shape {
            Shape::Object(fields) => match fields.get(&select.field) {
                Some(kind) => kind.clone(),
                None => return Err(format!("undefined field '{}'", select.field)),
            },
            Shape::Map(of) => (**of).clone(),
            Shape::Any => Kind::any(),
            _ => return Err(format!("type '{kind}' does not support field selection")),
        };
        Ok(match (select.test, optional) {
            (true, _) => Known {
                kind: Kind::plain(Shape::Bool),
                cost: of.cost,
            },
            (false, true) => Known {
                kind: found.optional(),
                cost: add(of.cost, 1),
            },
            (false, false) => Known {
                kind: found,
                cost: add(of.cost, 1),
            },
        })
    }

    fn comprehension(&mut self, loops: &ComprehensionExpr) -> Found {
        let range = self.of(&loops.iter_range)?;
        let (key, value, is_list) = match &range.kind.shape {
            Shape::List(item) => (Kind::plain(Shape::Int), (**item).clone(), true),
            Shape::Map(value) => {
                let longest = Kind::of(Shape::Text, LONGEST_KEY);
                (longest, (**value).clone(), false)
            }
            Shape::Any | Shape::Object(_) => (Kind::any(), Kind::any(), false),
            _ => {
                return Err(format!(
                    "expression of type '{}' cannot be range of a comprehension (must be list, map, or dynamic)",
                    range.kind
                ));
            }
        };
        let start = self.of(&loops.accu_init)?;
        let before = self.variables.len();
        self.variables
            .push((loops.accu_var.clone(), start.kind.clone()));
        match &loops.iter_var2 {
            Some(second) => {
                self.variables.push((loops.iter_var.clone(), key));
                self.variables.push((second.clone(), value));
            }
            None => {
                let one = if is_list { value } else { key };
                self.variables.push((loops.iter_var.clone(), one));
            }
        }
        let condition = self.of(&loops.loop_cond)?;
        let step = self.of(&loops.loop_step)?;
        self.variables.truncate(before + 1);
        let mut gathered = start.kind.join(step.kind);
        let is_gathered = matches!(loops.accu_init.expr, Expr::List(_) | Expr::Map(_));
        if is_gathered {
            gathered.most = range.kind.most;
        }
        if let Some(last) = self.variables.last_mut() {
            last.1 = gathered;
        }
        let result = self.of(&loops.result)?;
        self.variables.truncate(before);
        let each = add(condition.cost, step.cost);
        let rounds = range.kind.most.saturating_mul(each);
        let cost = [range.cost, start.cost, rounds, result.cost];
        Ok(Known {
            kind: result.kind,
            cost: cost.into_iter().fold(0, add),
        })
    }
}

/// The length of keys of maps, which no schema states: they are counted with as if they had none, as in Kubernetes.
const LONGEST_KEY: u64 = 0;

fn add(a: u64, b: u64) -> u64 {
    a.saturating_add(b)
}

/// `google.protobuf.Timestamp` and such.
fn is_type_name(select: &SelectExpr) -> bool {
    match &select.operand.expr {
        Expr::Select(inner) if inner.field == "protobuf" => {
            matches!(&inner.operand.expr, Expr::Ident(name) if name == "google")
        }
        _ => false,
    }
}

fn literal_kind(literal: &LiteralValue) -> Kind {
    match literal {
        LiteralValue::Boolean(_) => Kind::plain(Shape::Bool),
        LiteralValue::Bytes(bytes) => Kind::of(Shape::Bytes, bytes.inner().len() as u64),
        LiteralValue::Double(_) => Kind::plain(Shape::Double),
        LiteralValue::Int(_) => Kind::plain(Shape::Int),
        LiteralValue::Null => Kind::plain(Shape::Null),
        LiteralValue::String(text) => Kind::of(Shape::Text, text.inner().chars().count() as u64),
        LiteralValue::UInt(_) => Kind::plain(Shape::Uint),
    }
}
