//! Modules that import each other in a circle.
//!
//! The modules directly below a crate's root are its concepts. Where two of them import each other, by however many
//! others, neither can be read, moved or tested alone. Seen is every path that starts with `crate::`, in `use` or in code,
//! outside of comments; `super::` that leaves a module below the root is `crate::` by another name and counts too.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Context;

/// Imports between the modules below a crate's root: who, whom, and a file that says so.
type Imports = BTreeMap<String, BTreeMap<String, PathBuf>>;

/// A fault for each circle of modules in the crates.
pub(crate) fn of_modules(root: &Path, crates: &[&str]) -> anyhow::Result<Vec<String>> {
    let mut faults = Vec::new();
    for name in crates {
        let src = root.join("crates").join(name).join("src");
        let imports = imports(&src)?;
        for circle in circles(&imports) {
            let mut shown = format!("crate {name}: modules import each other:");
            for (from, to) in circle.iter().zip(circle.iter().cycle().skip(1)) {
                let file = imports.get(from).and_then(|to_file| to_file.get(to));
                let file = file.map(|f| f.strip_prefix(root).unwrap_or(f).display().to_string());
                shown.push_str(&format!(" {from} → {to} ({});", file.unwrap_or_default()));
            }
            faults.push(shown);
        }
    }
    Ok(faults)
}

fn imports(src: &Path) -> anyhow::Result<Imports> {
    let mut files = Vec::new();
    let mut todo = vec![src.to_owned()];
    while let Some(dir) = todo.pop() {
        let entries = std::fs::read_dir(&dir).with_context(|| dir.display().to_string())?;
        for path in entries.flatten().map(|e| e.path()) {
            if path.is_dir() {
                todo.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    let place = |path: &Path| -> Vec<String> {
        let below = path.strip_prefix(src).unwrap_or(path).with_extension("");
        below
            .iter()
            .map(|part| part.to_string_lossy().into_owned())
            .collect()
    };
    let modules: BTreeSet<String> = files
        .iter()
        .filter_map(|f| place(f).into_iter().next())
        .collect();
    let mut found = Imports::new();
    for file in files {
        let place = place(&file);
        let Some(own) = place.first().filter(|name| *name != "lib") else {
            continue;
        };
        let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        for named in named_modules(&text, place.len()) {
            if modules.contains(&named) && named != *own {
                let of_own = found.entry(own.clone()).or_default();
                of_own.entry(named).or_insert_with(|| file.clone());
            }
        }
    }
    Ok(found)
}

/// The modules below the root that the text names. `depth` is how far its file lies below the root: so many `super`
/// lead to the root, one more inside of each inline module.
fn named_modules(text: &str, depth: usize) -> BTreeSet<String> {
    let code: String = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .flat_map(|line| [line, "\n"])
        .collect();
    let to_root = "super::".repeat(depth);
    let mut found = BTreeSet::new();
    for (root, further) in [("crate::", None), (to_root.as_str(), Some("super::"))] {
        for (at, _) in code.match_indices(root) {
            let (before, after) = (&code[..at], &code[at + root.len()..]);
            let part_of_more = before.ends_with(|c: char| c.is_alphanumeric() || "_:".contains(c));
            // Inside of an inline module, of tests as a rule, this leads to the file's own module.
            if part_of_more || further.is_some_and(|more| after.starts_with(more)) {
                continue;
            }
            match after.strip_prefix('{') {
                Some(group) => found.extend(heads(group)),
                None => found.extend(identifier(after)),
            }
        }
    }
    found
}

/// The first segments of the paths in a group, up to its closing brace.
fn heads(group: &str) -> Vec<String> {
    let (mut found, mut depth, mut fresh) = (Vec::new(), 0, true);
    for (at, c) in group.char_indices() {
        match c {
            '}' if depth == 0 => break,
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => fresh = true,
            _ if fresh && !c.is_whitespace() => {
                fresh = false;
                found.extend(identifier(&group[at..]));
            }
            _ => {}
        }
    }
    found
}

fn identifier(text: &str) -> Option<String> {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_');
    let name = &text[..end.unwrap_or(text.len())];
    (!name.is_empty()).then(|| name.to_owned())
}

/// A shortest circle through each module that is in one, each circle once.
fn circles(imports: &Imports) -> Vec<Vec<String>> {
    let mut told = BTreeSet::new();
    let mut found = Vec::new();
    for start in imports.keys() {
        if told.contains(start) {
            continue;
        }
        // Breadth first: who was reached from whom.
        let mut from: BTreeMap<&str, &str> = BTreeMap::new();
        let mut todo = std::collections::VecDeque::from([start.as_str()]);
        while let Some(module) = todo.pop_front() {
            for next in imports.get(module).into_iter().flat_map(|to| to.keys()) {
                if !from.contains_key(next.as_str()) {
                    from.insert(next, module);
                    todo.push_back(next);
                }
            }
        }
        let Some(mut at) = from.get(start.as_str()).copied() else {
            continue;
        };
        let mut circle = vec![start.clone()];
        while at != start {
            circle.insert(1, at.to_owned());
            at = from[at];
        }
        told.extend(circle.iter().cloned());
        found.push(circle);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str, depth: usize) -> Vec<String> {
        named_modules(text, depth).into_iter().collect()
    }

    #[test]
    fn every_way_to_name_a_module_is_seen() {
        let text = "
            use crate::one::Thing;
            use crate::{two, three::{self, Thing as Other}, four::{five, six}};
            // use crate::comment;
            fn f() { crate::seven::call(); mycrate::no::call(); }
        ";
        let seen = ["four", "one", "seven", "three", "two"];
        assert_eq!(names(text, 1), seen);
        assert_eq!(names("use super::eight::Nine;", 1), ["eight"]);
        assert_eq!(names("use super::super::eight::Nine;", 2), ["eight"]);
        assert_eq!(names("use super::sibling::Nine;", 2), [""; 0]);
        assert_eq!(names("mod tests { use super::super::own; }", 1), [""; 0]);
    }

    #[test]
    fn a_circle_is_told_once_and_what_hangs_on_it_is_not() {
        let imports = |list: &[(&str, &str)]| {
            let mut all = Imports::new();
            for (from, to) in list {
                let of = all.entry((*from).to_owned()).or_default();
                of.insert((*to).to_owned(), PathBuf::new());
            }
            all
        };
        let none = imports(&[("a", "b"), ("a", "c"), ("b", "c")]);
        assert_eq!(circles(&none), Vec::<Vec<String>>::new());
        let one = imports(&[("a", "b"), ("b", "c"), ("c", "d"), ("d", "b"), ("c", "e")]);
        assert_eq!(circles(&one), [["b", "c", "d"]]);
        let two = imports(&[("a", "b"), ("b", "a"), ("c", "d"), ("d", "c")]);
        assert_eq!(circles(&two).len(), 2);
    }
}
