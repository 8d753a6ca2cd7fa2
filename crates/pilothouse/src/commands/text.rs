//! Labelled entries for a terminal of 80 columns.

use std::io::{self, Write};
use std::time::SystemTime;

use comfy_table::Table;
use model::civil::timestamp;

/// Width of lines.
const WIDTH: usize = 80;
/// Width of what stands before the names.
pub(super) const INDENT: usize = 17;

/// A name with its label, and what there is to say of it below.
pub(super) fn entry(
    out: &mut dyn Write,
    label: &str,
    name: &str,
    details: &[String],
) -> io::Result<()> {
    let name = if name.is_empty() {
        "(without a name)"
    } else {
        name
    };
    writeln!(out, "{label:<INDENT$}{name}")?;
    for line in details.iter().flat_map(|d| wrapped(d, INDENT)) {
        writeln!(out, "{:INDENT$}{line}", "")?;
    }
    Ok(())
}

/// A text in lines that fit behind an indentation.
pub(super) fn wrapped(text: &str, indent: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= WIDTH - indent => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The lines of a table that has no borders, without blanks at their ends.
pub(super) fn lines(table: &Table) -> Vec<String> {
    let shown = |line: String| {
        let line = line.strip_prefix(' ').unwrap_or(&line);
        line.trim_end().to_owned()
    };
    table.lines().map(shown).collect()
}

/// A number of things: `1 object`, `2 objects`.
pub(crate) fn counted(count: usize, name: &str) -> String {
    match count {
        1 => format!("1 {name}"),
        _ => format!("{count} {name}s"),
    }
}

/// What time it is, in RFC 3339, to the second.
pub(super) fn now() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let seconds = since.map_or(0, |since| since.as_secs());
    timestamp(i64::try_from(seconds).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use comfy_table::{Table, presets};

    use super::{INDENT, counted, lines, wrapped};

    #[test]
    fn lines_of_a_table_begin_and_end_with_what_is_in_it() {
        let mut table = Table::new();
        table.load_preset(presets::NOTHING).set_header(["A", "BC"]);
        table.add_row(["long", "x"]);
        assert_eq!(lines(&table), ["A     BC", "long  x"]);
    }

    #[test]
    fn one_thing_is_not_many() {
        let all = [0, 1, 2].map(|count| counted(count, "object"));
        assert_eq!(all, ["0 objects", "1 object", "2 objects"]);
    }

    #[test]
    fn long_texts_are_wrapped_between_words() {
        let text = "word ".repeat(40);
        let lines = wrapped(&text, INDENT);
        assert!(lines.len() > 2 && lines.iter().all(|l| l.len() <= 63));
    }
}
