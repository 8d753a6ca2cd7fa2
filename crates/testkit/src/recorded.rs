//! What was recorded from Istio, its tests and the real istiod, and how much of it comes out the same here.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

use known_differences::Known;
use serde_json::Value;

/// Names the folder of recordings, where it is not `../shared/conformance` beside the repository.
const VARIABLE: &str = "PILOTHOUSE_RECORDINGS";

/// The folder of recordings; `None` where there is none, and then the test that asks is reported as skipped.
///
/// # Panics
///
/// When `PILOTHOUSE_RECORDINGS` names something that is not a folder.
pub fn recordings() -> Option<PathBuf> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let found = folder(std::env::var_os(VARIABLE), &repository);
    if found.is_none() {
        skipped();
    }
    found
}

/// A file or folder of the recordings; `None` where there are none.
///
/// # Panics
///
/// When there are recordings without it.
pub fn recording(below: &str) -> Option<PathBuf> {
    let path = recordings()?.join(below);
    assert!(path.exists(), "{} is not there", path.display());
    Some(path)
}

fn folder(stated: Option<OsString>, repository: &Path) -> Option<PathBuf> {
    match stated.filter(|s| !s.is_empty()) {
        Some(stated) => {
            let folder = PathBuf::from(stated);
            assert!(
                folder.is_dir(),
                "{VARIABLE}: {} is no folder",
                folder.display()
            );
            Some(folder)
        }
        None => Some(repository.join("../shared/conformance")).filter(|f| f.is_dir()),
    }
}

/// Says once per test, past the capture of its output, that nothing was tested. `.ci/newcomer` reads these lines.
fn skipped() {
    thread_local!(static SAID: RefCell<BTreeSet<String>> = RefCell::default());
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test").to_owned();
    if SAID.with_borrow_mut(|said| said.insert(test.clone())) {
        let line = format!("skipped: {test}: no recordings, see {VARIABLE}\n");
        // Without a standard error there is nobody to tell.
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
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
    /// When the table is not there, is none, or has no cases.
    pub fn load(name: &str) -> Option<Self> {
        let path = recording(&format!("istio-tables/{name}.json"))?;
        let text =
            std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let mut table: Value =
            serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        match table["cases"].take() {
            Value::Array(cases) if !cases.is_empty() => Some(Self { cases }),
            _ => panic!("{} has no cases", path.display()),
        }
    }

    /// The recorded calls of a function.
    pub fn of<'a>(&'a self, function: &'a str) -> impl Iterator<Item = &'a Value> {
        self.cases.iter().filter(move |c| c["fn"] == function)
    }
}

/// The recorded calls of a function in `istio-tables/NAME.json`; none where there are no recordings.
///
/// # Panics
///
/// When there are recordings without such a call.
pub fn cases(name: &str, function: &str) -> Vec<Value> {
    let Some(table) = Table::load(name) else {
        return Vec::new();
    };
    let calls: Vec<Value> = table.of(function).cloned().collect();
    assert!(!calls.is_empty(), "{name} has no call of {function}");
    calls
}

/// The cases that were compared, and those that did not come out as recorded.
#[derive(Default)]
pub struct Score {
    compared: BTreeSet<String>,
    /// How each differs, by case.
    different: BTreeMap<String, String>,
}

impl Score {
    /// Counts a case; `differences` is empty where it came out as recorded. A name that comes again is numbered.
    pub fn count(&mut self, case: &str, differences: &[String]) {
        // A name is one line of a list.
        let case: Vec<&str> = case.split_whitespace().collect();
        let case = case.join(" ");
        let mut name = case.clone();
        for number in 2.. {
            if self.compared.insert(name.clone()) {
                break;
            }
            name = format!("{case} #{number}");
        }
        if !differences.is_empty() {
            let shown: Vec<&str> = differences.iter().take(5).map(String::as_str).collect();
            self.different.insert(name, shown.join("; "));
        }
    }

    /// Asserts that every case came out as recorded.
    ///
    /// # Panics
    ///
    /// When one did not, or nothing was compared though there are recordings.
    pub fn all_as_recorded(&self) {
        self.as_listed("");
    }

    /// Asserts that the cases of a list differ, and no others. Nothing compared is a failure, except where there are no
    /// recordings. See [`known_differences`] for how a list is written.
    ///
    /// # Panics
    ///
    /// When another case differs, or a listed one does not, with how they differ.
    pub fn as_listed(&self, list: &str) {
        self.judge(list, || recordings().is_some());
    }

    fn judge(&self, list: &str, there_are_recordings: impl Fn() -> bool) {
        if self.compared.is_empty() && !there_are_recordings() {
            return;
        }
        assert!(!self.compared.is_empty(), "nothing was compared");
        let known = Known::parse(list).unwrap_or_else(|e| panic!("list of differences: {e}"));
        let found = self.different.keys().cloned().collect();
        let wrong = known.judge(&found, |_| true);
        let (all, equal) = (
            self.compared.len(),
            self.compared.len() - self.different.len(),
        );
        eprintln!(
            "{equal} of {all} as recorded, {} listed",
            known.cases().count()
        );
        let how = self.different.iter();
        let how = how.filter(|(case, _)| known.reason(case).is_none());
        let how: Vec<String> = how.map(|(case, how)| format!("{case}: {how}")).collect();
        assert!(
            wrong.is_empty(),
            "{equal} of {all} as recorded:\n{}\n\n{}",
            wrong.join("\n"),
            how.join("\n")
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(score: &Score, list: &str, there: bool) -> bool {
        let judge = std::panic::AssertUnwindSafe(|| score.judge(list, || there));
        std::panic::catch_unwind(judge).is_ok()
    }

    #[test]
    fn nothing_compared_fails_unless_there_are_no_recordings() {
        let mut score = Score::default();
        assert!(judged(&score, "", false));
        assert!(!judged(&score, "", true));
        score.count("a", &[]);
        assert!(judged(&score, "", true));
        // What was counted is judged whether or not the folder is still there.
        score.count("b", &["differs".to_owned()]);
        assert!(!judged(&score, "", false));
    }

    #[test]
    fn exactly_the_listed_cases_differ() {
        let mut score = Score::default();
        score.count("a", &[]);
        score.count("b", &["differs".to_owned()]);
        score.count("b", &["differs too".to_owned()]);
        assert!(judged(&score, "reason\n  b\n  b #2\n", true));
        assert!(!judged(&score, "reason\n  b\n", true));
        assert!(!judged(&score, "reason\n  a\n  b\n  b #2\n", true));
        assert!(!judged(&score, "  b\n  b #2\n", true), "no reason");
    }

    #[test]
    fn recordings_are_beside_the_repository_or_where_the_variable_says() {
        let place = tempfile::tempdir().unwrap();
        let repository = place.path().join("pilothouse");
        let beside = place.path().join("shared/conformance");
        std::fs::create_dir(&repository).unwrap();
        assert_eq!(folder(None, &repository), None);
        assert_eq!(folder(Some(OsString::new()), &repository), None);
        std::fs::create_dir_all(&beside).unwrap();
        assert_eq!(
            folder(None, &repository).unwrap().canonicalize().unwrap(),
            beside.canonicalize().unwrap()
        );
        let elsewhere = tempfile::tempdir().unwrap();
        let stated = elsewhere.path().to_owned();
        assert_eq!(
            folder(Some(stated.clone().into()), &repository),
            Some(stated.clone())
        );
        let gone = stated.join("gone").into_os_string();
        assert!(std::panic::catch_unwind(|| folder(Some(gone), &repository)).is_err());
    }
}
