//! Explanations for people, within 80 columns where names allow.

use std::io::{self, Write};

use explain::{Effect, Explanation, NamedObject, Participation, Settings};

use super::super::text::{INDENT, counted, entry, wrapped};

/// Prints what made a resource.
pub(super) fn explanation(out: &mut dyn Write, proxy: &str, found: &Explanation) -> io::Result<()> {
    writeln!(out, "{} {}\nof {proxy}\n", found.r#type, found.resource)?;
    for object in &found.objects {
        entry(out, &object.role, &object.title(), &details(object))?;
    }
    if found.mesh_settings == Settings::Matter {
        let what = ["with Istio's default mesh config: different".to_owned()];
        entry(out, "mesh settings", "mesh config", &what)?;
    }
    if found.objects.is_empty() {
        writeln!(
            out,
            "No single object matters: without any one of them it is the same."
        )?;
    }
    writeln!(out)?;
    let (checked, all) = (found.checked, found.candidates);
    let mut end = if checked == all {
        let (made, every) = (found.objects.len(), objects(all));
        format!(
            "{made} of {every} that were read for it matter: without one, it is different or gone."
        )
    } else {
        format!(
            "Incomplete: time ran out after {checked} of {} that were read for it. Others may matter too.",
            objects(all)
        )
    };
    if found.mesh_settings == Settings::Unchecked && checked == all {
        end.push_str(" Whether mesh settings matter was not checked.");
    }
    for line in wrapped(&end, 0) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// Prints what an object takes part in.
pub(super) fn participation(
    out: &mut dyn Write,
    proxy: &str,
    found: &Participation,
) -> io::Result<()> {
    let object = &found.object;
    writeln!(out, "{}\nat {}\n", object.title(), object.at)?;
    if found.resources.is_empty() {
        writeln!(out, "{proxy} gets the same without it.")?;
        return Ok(());
    }
    writeln!(out, "Without it, {proxy} gets otherwise:\n")?;
    for touched in &found.resources {
        let effect = effect(touched.without);
        writeln!(
            out,
            "{:<INDENT$}{} ({effect})",
            touched.r#type, touched.resource
        )?;
    }
    Ok(())
}

fn details(object: &NamedObject) -> Vec<String> {
    let mut without = format!("without it: {}", effect(object.without));
    if !object.fields.is_empty() {
        without.push_str(" in ");
        without.push_str(&object.fields.join(", "));
    }
    let mut details = vec![format!("at {}", object.at)];
    if !object.by_way_of.is_empty() {
        details.push(format!("by way of {}", object.by_way_of.join(", ")));
    }
    details.push(without);
    details
}

fn effect(effect: Effect) -> &'static str {
    match effect {
        Effect::Gone => "gone",
        Effect::Different => "different",
        Effect::Added => "added",
    }
}

fn objects(count: usize) -> String {
    counted(count, "object")
}
