//! Descriptions of fields and values that stand beside the definitions.

use anyhow::{Context, bail};

use super::{Definitions, short};

/// Fills in descriptions; returns what is left without one, as definition and field.
///
/// # Errors
///
/// When something is described that does not exist, or that has a description where it is defined.
pub(super) fn describe(all: &mut Definitions, text: &str) -> anyhow::Result<Vec<(String, String)>> {
    let mut of = "";
    for (number, line) in (1..).zip(text.lines()) {
        let wrong = || format!("fields.txt:{number}: {line}");
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some(line) = line.strip_prefix("  ") else {
            of = line;
            if !all.keys().any(|key| short(key) == of) {
                bail!("{}: there is no such message", wrong());
            }
            continue;
        };
        let (name, about) = line.split_once(' ').with_context(wrong)?;
        let mut found = false;
        let same = all.iter_mut().filter(|(key, _)| short(key) == of);
        for (_, definition) in same {
            for member in definition.members.iter_mut().filter(|m| m.name == name) {
                found = true;
                // Fields of a choice say so already.
                if !matches!(&*member.about, "" | "One of a choice.") {
                    bail!("{}: it is described where it is defined", wrong());
                }
                member.about = format!("{about} {}", member.about).trim_end().to_owned();
            }
        }
        if !found {
            bail!("{}: there is no such field", wrong());
        }
    }
    let mut left = Vec::new();
    for (key, definition) in all.iter() {
        let bare = definition.members.iter().filter(|m| m.about.is_empty());
        left.extend(bare.map(|m| (key.clone(), m.name.clone())));
    }
    Ok(left)
}
