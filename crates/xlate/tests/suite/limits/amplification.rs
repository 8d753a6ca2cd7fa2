//! Whatever is written, what is made of it stays in proportion, until a limit holds it.

use proptest::prelude::*;

use crate::limits::hostile::{NAMES, yaml};
use crate::limits::measured::Measured;

/// Bytes for a sidecar and a gateway together that are there without any object, and for each byte of input.
const BASE: usize = 256 << 10;
const EACH: usize = 1000;
/// Evaluations, in the same way.
const EVALUATIONS: u64 = 200;
const EVALUATIONS_EACH: u64 = 2;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn output_and_work_are_in_proportion_to_input(
        parts in prop::collection::vec((prop::sample::select(&NAMES[..]), 0..24_usize, 1..200_usize), 1..4),
    ) {
        let mut text = String::new();
        for (name, n, bytes) in &parts {
            text += &yaml(name, *n, *bytes).unwrap_or_default();
        }
        let measured = Measured::new(&text);
        prop_assert!(
            measured.bytes <= BASE + EACH * text.len(),
            "{parts:?}: {} bytes of {}", measured.bytes, text.len()
        );
        let input = text.len() as u64;
        prop_assert!(
            measured.evaluations <= EVALUATIONS + EVALUATIONS_EACH * input,
            "{parts:?}: {} evaluations of {input} bytes", measured.evaluations
        );
    }
}
