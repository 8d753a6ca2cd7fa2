//! Sets of types, and a value for each type.

use std::fmt;
use std::ops::{Index, IndexMut};

use crate::TypeUrl;

/// How many types there are.
const COUNT: usize = TypeUrl::ALL.len();

/// Some of the types, in one word.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Types(u32);

const _: () = assert!(
    COUNT <= u32::BITS as usize,
    "`Types` has a bit for each type"
);

impl Types {
    /// None of them.
    pub const NONE: Types = Types(0);

    /// Whether the type is one of them.
    pub fn contains(self, ty: TypeUrl) -> bool {
        self.0 >> ty as u32 & 1 == 1
    }

    /// Adds a type. Returns whether it was not one of them.
    pub fn insert(&mut self, ty: TypeUrl) -> bool {
        let new = !self.contains(ty);
        self.0 |= 1 << ty as u32;
        new
    }

    /// Takes a type away.
    pub fn remove(&mut self, ty: TypeUrl) {
        self.0 &= !(1 << ty as u32);
    }

    /// How many they are.
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether they are none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// They, in the order of pushing.
    pub fn iter(self) -> impl Iterator<Item = TypeUrl> {
        let all = TypeUrl::ALL.into_iter();
        all.filter(move |ty| self.contains(*ty))
    }
}

impl FromIterator<TypeUrl> for Types {
    fn from_iter<I: IntoIterator<Item = TypeUrl>>(types: I) -> Self {
        let mut some = Self::NONE;
        for ty in types {
            some.insert(ty);
        }
        some
    }
}

impl fmt::Debug for Types {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// A value for each type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ByType<T>([T; COUNT]);

impl<T> ByType<T> {
    /// Makes the value of each type, in the order of pushing.
    pub fn new(make: impl FnMut(TypeUrl) -> T) -> Self {
        Self(TypeUrl::ALL.map(make))
    }

    /// Each type with its value, in the order of pushing.
    pub fn iter(&self) -> impl Iterator<Item = (TypeUrl, &T)> {
        TypeUrl::ALL.into_iter().zip(&self.0)
    }

    /// The values, in the order of pushing.
    pub fn values(&self) -> std::slice::Iter<'_, T> {
        self.0.iter()
    }
}

impl<T: Default> Default for ByType<T> {
    fn default() -> Self {
        Self::new(|_| T::default())
    }
}

impl<T> Index<TypeUrl> for ByType<T> {
    type Output = T;

    fn index(&self, ty: TypeUrl) -> &T {
        &self.0[ty as usize]
    }
}

impl<T> IndexMut<TypeUrl> for ByType<T> {
    fn index_mut(&mut self, ty: TypeUrl) -> &mut T {
        &mut self.0[ty as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_each_type_by_itself() {
        for ty in TypeUrl::ALL {
            let mut one = Types::NONE;
            assert!(one.insert(ty) && !one.insert(ty));
            assert_eq!(one.iter().collect::<Vec<_>>(), [ty]);
            let mut others: Types = TypeUrl::ALL.into_iter().collect();
            assert_eq!(others.len(), COUNT);
            others.remove(ty);
            assert_eq!(others.len(), COUNT - 1);
            assert!(!others.contains(ty));
            one.remove(ty);
            assert!(one.is_empty());
        }
    }

    #[test]
    fn each_type_has_the_value_that_was_made_for_it() {
        let mut names = ByType::new(TypeUrl::short);
        assert!(names.iter().all(|(ty, name)| ty.short() == *name));
        names[TypeUrl::Route] = "other";
        assert_eq!(names[TypeUrl::Route], "other");
    }
}
