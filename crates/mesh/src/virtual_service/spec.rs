//! What a rule says once short names are written out.

use std::ops::Deref;
use std::sync::Arc;

use model::kinds::istio::VirtualService;
use model::object::Object;

/// What a rule says. Where its object says the same, as most do, there is no second copy of it.
#[derive(Clone, Debug)]
pub enum RuleSpec {
    /// As its object says it.
    Written(Arc<Object<VirtualService>>),
    /// Resolved, merged with others, or cut.
    Made(Box<VirtualService>),
}

impl RuleSpec {
    /// What is made of an object.
    pub(super) fn of(object: &Arc<Object<VirtualService>>, made: VirtualService) -> Self {
        match made == object.spec {
            true => Self::Written(object.clone()),
            false => Self::Made(Box::new(made)),
        }
    }
}

impl Deref for RuleSpec {
    type Target = VirtualService;

    fn deref(&self) -> &VirtualService {
        match self {
            Self::Written(object) => &object.spec,
            Self::Made(spec) => spec,
        }
    }
}

impl PartialEq for RuleSpec {
    fn eq(&self, other: &Self) -> bool {
        let (one, two) = (&**self, &**other);
        std::ptr::eq(one, two) || one == two
    }
}
