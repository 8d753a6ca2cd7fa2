//! `pilothouse variables`: the environment variables that change what is generated.

use std::io::Write;

use clap::{Args, ValueEnum};
use model::settings::{Feature, Features};
use serde_json::{Value, json};

use super::text::wrapped;

/// What stands before a description.
const INDENT: usize = 4;

/// `pilothouse variables`.
#[derive(Args)]
pub(crate) struct VariablesOptions {
    /// Only those whose name or description contains all of these words, in any case.
    #[arg(value_name = "WORD")]
    words: Vec<String>,

    /// Output format.
    #[arg(long, short = 'o', value_enum, default_value = "text")]
    output: Output,
}

/// Forms of output.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Output {
    /// For a terminal.
    Text,
    /// A list for programs.
    Json,
}

/// Prints the variables, in the order in which they are declared.
///
/// # Errors
///
/// When nothing contains the words, or the output cannot be written.
pub(crate) fn run(options: &VariablesOptions, out: &mut impl Write) -> anyhow::Result<()> {
    let wanted = |flag: &&Feature| {
        let text = format!("{} {}", flag.name, flag.help).to_lowercase();
        options
            .words
            .iter()
            .all(|word| text.contains(&word.to_lowercase()))
    };
    let flags: Vec<&Feature> = Features::ALL.iter().filter(wanted).collect();
    if flags.is_empty() {
        anyhow::bail!("no variable contains {}", options.words.join(" "));
    }
    match options.output {
        Output::Json => {
            let list: Vec<Value> = flags.iter().map(|flag| json_of(flag)).collect();
            serde_json::to_writer_pretty(&mut *out, &list)?;
            writeln!(out)?;
        }
        Output::Text => {
            for flag in flags {
                writeln!(out, "{}={}", flag.name, default_of(flag))?;
                for line in wrapped(flag.help, INDENT) {
                    writeln!(out, "{:INDENT$}{line}", "")?;
                }
            }
        }
    }
    Ok(())
}

fn json_of(flag: &Feature) -> Value {
    json!({"name": flag.name, "default": default_of(flag), "help": flag.help})
}

/// The default as the variable would state it.
fn default_of(flag: &Feature) -> &str {
    flag.default.trim_matches('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(words: &[&str], output: Output) -> anyhow::Result<String> {
        let options = VariablesOptions {
            words: words.iter().map(|word| (*word).to_owned()).collect(),
            output,
        };
        let mut out = Vec::new();
        run(&options, &mut out)?;
        Ok(String::from_utf8(out)?)
    }

    #[test]
    fn variables_are_found_by_words_and_fit_a_terminal() {
        let text = shown(&["namespace", "BUDGET"], Output::Text).unwrap();
        assert!(text.starts_with("PILOTHOUSE_NAMESPACE_BUDGET=64\n    How many MiB"));
        let all = shown(&[], Output::Text).unwrap();
        assert!(all.lines().all(|line| line.chars().count() <= 100), "{all}");
        assert!(
            all.contains("PILOTHOUSE_INGRESS_SELECTOR=higress=higress-system-higress-gateway\n")
        );
        assert!(shown(&["no such thing"], Output::Text).is_err());
    }

    #[test]
    fn programs_get_a_list() {
        let list = shown(&["PILOTHOUSE_NAMESPACE_PORTS"], Output::Json).unwrap();
        let list: Value = serde_json::from_str(&list).unwrap();
        assert_eq!(list[0]["default"], "64");
    }
}
