//! What a caller supplies: queries and the names of inputs.

use std::any::Any;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::Cx;

/// A hash naming one row or one bucket of the input. A collision only causes an extra evaluation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct InputKey(pub u64);

/// A pure function of the snapshot and of itself, whose result is remembered.
///
/// Queries that are equal share one memo. Keep them small and cheap to hash: one is kept for each memo.
pub trait Query<S>: Clone + Eq + Hash + Debug + Send + Sync + 'static {
    /// What it derives. Equality decides whether dependents are derived again.
    type Value: PartialEq + Send + Sync + 'static;

    /// Derives the value, reading through `cx` only.
    fn eval(&self, cx: &Cx<'_, S>) -> Self::Value;
}

/// A value whose type only its query knows.
pub(crate) type AnyValue = Arc<dyn Any + Send + Sync>;

/// The memo of each query of one type; a query is shared between this table and its memo.
pub(crate) type Table<Q> = FxHashMap<Arc<Q>, u32>;

/// A query without its type.
pub(crate) trait AnyQuery<S>: Send + Sync {
    fn eval_any(&self, cx: &Cx<'_, S>) -> AnyValue;
    fn same(&self, a: &AnyValue, b: &AnyValue) -> bool;
    fn label(&self) -> String;
    /// Takes this query out of the [`Table`] of its type.
    fn forget(&self, table: &mut (dyn Any + Send));
}

impl<S, Q: Query<S>> AnyQuery<S> for Q {
    fn eval_any(&self, cx: &Cx<'_, S>) -> AnyValue {
        Arc::new(self.eval(cx))
    }

    fn same(&self, a: &AnyValue, b: &AnyValue) -> bool {
        a.downcast_ref::<Q::Value>() == b.downcast_ref::<Q::Value>()
    }

    fn label(&self) -> String {
        format!("{self:?}")
    }

    fn forget(&self, table: &mut (dyn Any + Send)) {
        if let Some(table) = table.downcast_mut::<Table<Q>>() {
            table.remove(self);
            if table.capacity() > 64 && table.len() < table.capacity() / 8 {
                table.shrink_to(table.len() * 2);
            }
        }
    }
}
