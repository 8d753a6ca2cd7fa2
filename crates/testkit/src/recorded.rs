//! Tables recorded from Istio's own tests.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// The folder of recordings; `None`, with a line saying so, where it is absent.
pub fn recordings() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/conformance");
    // Work trees stand one folder deeper than the repository itself.
    let deeper = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../shared/conformance");
    let found = [folder, deeper].into_iter().find(|f| f.is_dir());
    if found.is_none() {
        eprintln!("Skipped: there are no recordings beside the repository.");
    }
    found
}

/// A recorded table.
pub struct Table {
    /// One call or one run each.
    pub cases: Vec<Value>,
}

impl Table {
    /// Reads `istio-tables/NAME.json`; `None` where there are no recordings.
    ///
    /// # Panics
    ///
    /// When the table is not there or is none.
    pub fn load(name: &str) -> Option<Self> {
        let path = recordings()?.join(format!("istio-tables/{name}.json"));
        let text =
            std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let mut table: Value =
            serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let Value::Array(cases) = table["cases"].take() else {
            panic!("{} has no cases", path.display());
        };
        Some(Self { cases })
    }

    /// The recorded calls of a function.
    pub fn of<'a>(&'a self, function: &'a str) -> impl Iterator<Item = &'a Value> {
        self.cases.iter().filter(move |c| c["fn"] == function)
    }
}

/// Counts cases that came out as recorded.
#[derive(Default)]
pub struct Score {
    equal: usize,
    different: Vec<String>,
}

impl Score {
    /// Counts a case; `differences` is empty where it came out as recorded.
    pub fn count(&mut self, case: &str, differences: &[String]) {
        if differences.is_empty() {
            self.equal += 1;
        } else {
            let shown: Vec<&str> = differences.iter().take(5).map(String::as_str).collect();
            self.different.push(format!("{case}: {}", shown.join("; ")));
        }
    }

    /// Asserts that at least this share, in per cent, came out as recorded, and that anything was counted at all.
    ///
    /// # Panics
    ///
    /// When it did not, with the cases that differ.
    pub fn at_least(&self, percent: f64) {
        let all = self.equal + self.different.len();
        let share = 100.0 * self.equal as f64 / all.max(1) as f64;
        eprintln!("{} of {all} as recorded ({share:.1} %)", self.equal);
        assert!(
            all > 0 && share >= percent,
            "{} of {all} as recorded ({share:.1} %), wanted {percent} %:\n{}",
            self.equal,
            self.different.join("\n")
        );
    }
}
