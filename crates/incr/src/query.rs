//! What a caller supplies: queries and the names of inputs.

use std::any::{Any, TypeId};
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

use crate::{Cx, KeyedMap};

/// A hash naming one row or one bucket of the input. A collision only causes an extra evaluation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct InputKey(pub u64);

/// A snapshot that evaluations read only through whoever can make a [`Token`](Self::Token): one crate, which looks up what
/// it has recorded and nothing else. With a token that everybody can make, everybody may read.
pub trait Guarded {
    /// Proof that the reader belongs to the crate of the snapshot.
    type Token;
}

/// A pure function of the snapshot and of itself, whose result is remembered.
///
/// Queries that are equal share one memo. Keep them small and cheap to hash: one is kept for each memo.
pub trait Query<S>: Clone + Eq + Hash + Debug + Send + Sync + 'static {
    /// What it derives. Equality decides whether dependents are derived again.
    type Value: PartialEq + Send + Sync + 'static;

    /// Derives the value, reading through `cx` only.
    fn eval(&self, cx: &Cx<'_, S>) -> Self::Value;

    /// Whether changes of queries of that type are such that [`update`](Self::update) can take them in.
    fn has_members(ty: TypeId) -> bool {
        let _ = ty;
        false
    }

    /// Brings a former value up to date when nothing changed but the values of members. It must give what
    /// [`eval`](Self::eval) would, or `None` to have that called.
    ///
    /// Which members are asked for must not depend on the value of another member: all that changed are derived again
    /// before this is called.
    fn update(&self, former: &Self::Value, changed: &Changed<'_, S>) -> Option<Self::Value> {
        let _ = (former, changed);
        None
    }
}

/// The members that changed since a value was derived, in the order in which they were asked for.
pub struct Changed<'a, S>(pub(crate) &'a [ChangedMember<S>]);

/// A member whose value differs from that which the other value was derived with.
pub(crate) struct ChangedMember<S> {
    pub(crate) query: Arc<dyn AnyQuery<S>>,
    pub(crate) before: AnyValue,
    pub(crate) after: AnyValue,
}

impl<S: 'static> Changed<'_, S> {
    /// Those of one type, each with its value before and after.
    pub fn members<M: Query<S>>(&self) -> impl Iterator<Item = (&M, &M::Value, &M::Value)> {
        self.0.iter().filter_map(|changed| {
            Some((
                changed.query.as_any().downcast_ref()?,
                changed.before.downcast_ref()?,
                changed.after.downcast_ref()?,
            ))
        })
    }
}

/// A value whose type only its query knows.
pub(crate) type AnyValue = Arc<dyn Any + Send + Sync>;

/// The memo of each query of one type; a query is shared between this table and its memo.
pub(crate) type Table<Q> = KeyedMap<Arc<Q>, u32>;

/// A query without its type.
pub(crate) trait AnyQuery<S>: Send + Sync {
    fn eval_any(&self, cx: &Cx<'_, S>) -> AnyValue;
    fn same(&self, a: &AnyValue, b: &AnyValue) -> bool;
    fn as_any(&self) -> &dyn Any;
    fn has_member(&self, other: &dyn AnyQuery<S>) -> bool;
    fn update_any(&self, former: &AnyValue, changed: &Changed<'_, S>) -> Option<AnyValue>;
    fn label(&self) -> String;
    /// Takes this query out of the [`Table`] of its type.
    fn forget(&self, table: &mut (dyn Any + Send));
}

impl<S: 'static, Q: Query<S>> AnyQuery<S> for Q {
    fn eval_any(&self, cx: &Cx<'_, S>) -> AnyValue {
        Arc::new(self.eval(cx))
    }

    fn same(&self, a: &AnyValue, b: &AnyValue) -> bool {
        a.downcast_ref::<Q::Value>() == b.downcast_ref::<Q::Value>()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn has_member(&self, other: &dyn AnyQuery<S>) -> bool {
        Q::has_members(other.as_any().type_id())
    }

    fn update_any(&self, former: &AnyValue, changed: &Changed<'_, S>) -> Option<AnyValue> {
        let value = self.update(former.downcast_ref()?, changed)?;
        Some(Arc::new(value))
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
