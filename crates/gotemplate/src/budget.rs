//! What a template may use.

use std::cell::Cell;

use crate::functions::Fault;

/// What one rendering may use.
#[derive(Clone, Debug)]
pub struct Budget {
    /// Steps: nodes and operands that are evaluated, and what functions go through.
    pub steps: u64,
    /// Bytes of output.
    pub output: usize,
    /// Bytes that functions make, all together.
    pub made: usize,
    /// How deep templates, blocks and pipelines may be nested while they run.
    pub depth: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            steps: 2_000_000,
            output: 4 << 20,
            made: 64 << 20,
            depth: 150,
        }
    }
}

/// What is left of a budget.
pub struct Meter {
    steps: Cell<u64>,
    made: Cell<usize>,
}

impl Meter {
    pub(crate) fn new(budget: &Budget) -> Self {
        Self {
            steps: Cell::new(budget.steps),
            made: Cell::new(budget.made),
        }
    }

    /// Takes steps off; fails when there are none left.
    pub fn step(&self, count: usize) -> Result<(), Fault> {
        let left = self.steps.get().checked_sub(count as u64);
        self.steps.set(left.unwrap_or(0));
        left.map(|_| ())
            .ok_or_else(|| Fault::limit("the template takes too many steps"))
    }

    /// Takes bytes off that a function is about to make; fails when there are too few left.
    pub fn make(&self, bytes: usize) -> Result<(), Fault> {
        let left = self.made.get().checked_sub(bytes);
        self.made.set(left.unwrap_or(0));
        left.map(|_| ())
            .ok_or_else(|| Fault::limit("the template makes too much text"))
    }
}
