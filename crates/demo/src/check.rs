//! Verifies that the shop is routed as its YAML says, and that an edit arrives.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};

use crate::mesh::Mesh;
use crate::routed::{ANYBODY, JASON, Routed, STARS, ask};
use crate::watch::{Edit, Watch};
use crate::{admin, control};

/// How long an edit may take to reach every proxy it concerns, on however busy a machine.
const ARRIVAL: Duration = Duration::from_secs(2);

/// What was verified, one sentence each; an error is what was wrong.
#[derive(Default, Debug)]
pub struct Findings(pub Vec<(String, Result<(), String>)>);

impl Findings {
    /// Whether all is as it should be.
    pub fn is_good(&self) -> bool {
        self.0.iter().all(|(_, result)| result.is_ok())
    }

    /// Notes whether a sentence is true.
    pub fn note(&mut self, sentence: impl Into<String>, result: anyhow::Result<()>) {
        self.0
            .push((sentence.into(), result.map_err(|e| format!("{e:#}"))));
    }
}

/// A count is what weighted choice at random makes of it, within four and a half standard deviations: wrong once in
/// 150,000 times.
///
/// # Errors
///
/// When it is not.
pub fn share(count: u32, of: u32, weight: f64) -> anyhow::Result<()> {
    let expected = f64::from(of) * weight;
    let deviation = (f64::from(of) * weight * (1.0 - weight)).sqrt();
    let off = (f64::from(count) - expected).abs();
    ensure!(
        off <= 4.5 * deviation,
        "{count} of {of}, where {expected:.0} ± {:.0} are expected",
        4.5 * deviation
    );
    Ok(())
}

/// No proxy has refused anything: by Envoy's own count and by ours.
///
/// # Errors
///
/// When one has.
pub async fn nothing_refused(mesh: &Mesh) -> anyhow::Result<()> {
    for proxy in mesh.proxies() {
        let rejected = admin::rejected(proxy.admin).await?;
        ensure!(rejected.is_empty(), "{} refused: {rejected:?}", proxy.name);
    }
    let refusals = control::refusals(mesh.block().pages()).await?;
    ensure!(refusals == 0.0, "Pilothouse counts {refusals} refusals");
    Ok(())
}

/// What the shop's own YAML promises, of `results` for [`crate::routed::QUESTIONS`].
pub fn shop(results: &[Routed], findings: &mut Findings) {
    let [anybody, jason, stars] = results else {
        findings.note(
            "three questions are asked",
            Err(anyhow::anyhow!("{} were", results.len())),
        );
        return;
    };
    let all = |count: u32, of: u32| {
        ensure!(count == of, "{count} of {of}");
        Ok(())
    };
    for (who, result, count) in [
        ("anybody's", anybody, ANYBODY.count),
        ("jason's", jason, JASON.count),
    ] {
        findings.note(
            format!("{who} requests all reach front"),
            all(result.reached("front-v1"), count),
        );
        findings.note(
            format!("front asks details on {who} behalf"),
            all(result.reached("details-v1"), count),
        );
    }
    let failures: u32 = results.iter().map(Routed::failures).sum();
    findings.note("nothing fails on the way", all(failures, 0));
    findings.note(
        "reviews v1 gets 80 % of anybody",
        share(anybody.reached("reviews-v1"), ANYBODY.count, 0.8),
    );
    findings.note(
        "reviews v3 gets 20 % of anybody",
        share(anybody.reached("reviews-v3"), ANYBODY.count, 0.2),
    );
    findings.note(
        "nobody but jason sees reviews v2",
        all(anybody.reached("reviews-v2"), 0),
    );
    findings.note(
        "jason sees reviews v2 only",
        all(jason.reached("reviews-v2"), JASON.count),
    );
    let rated = anybody.reached("reviews-v3");
    findings.note(
        "reviews v3 asks ratings each time",
        all(anybody.reached("ratings-v1"), rated),
    );
    findings.note(
        "/stars is rewritten to /ratings",
        all(stars.rewritten("ratings-v1", "/ratings/7"), STARS.count),
    );
}

/// Replaces text in a file the way editors do: the new file takes the place of the old one at once.
///
/// # Errors
///
/// When the text is not there, or the file cannot be written.
pub fn edit(file: &Path, change: &[(&str, &str)]) -> anyhow::Result<()> {
    let mut text =
        std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    for (from, to) in change {
        ensure!(
            text.contains(from),
            "{} does not contain {from:?}",
            file.display()
        );
        text = text.replace(from, to);
    }
    let scratch = file.with_extension("new");
    std::fs::write(&scratch, text)?;
    std::fs::rename(&scratch, file)?;
    Ok(())
}

/// Makes the canary an even split and sees it arrive. Returns the edit and what is routed after it.
///
/// # Errors
///
/// When the files or the mesh cannot be reached.
pub async fn canary(mesh: &Mesh, findings: &mut Findings) -> anyhow::Result<(Edit, Routed)> {
    let folder = &mesh.setup().config;
    let mut watch = Watch::new(folder, mesh.block()).await?;
    edit(
        &folder.join("reviews.yaml"),
        &[("weight: 80", "weight: 50"), ("weight: 20", "weight: 50")],
    )?;
    let edit = tokio::time::timeout(ARRIVAL + ARRIVAL, watch.next())
        .await
        .context("the edit was not noticed")??;
    findings.note("every proxy that the edit concerns has it", {
        let late = edit
            .arrivals
            .iter()
            .find(|a| a.took.is_none_or(|took| took > ARRIVAL));
        late.map_or(Ok(()), |a| Err(anyhow::anyhow!("{a:?}")))
    });
    findings.note(
        "nobody but front is sent anything, and front only routes",
        {
            let sent: Vec<_> = edit
                .arrivals
                .iter()
                .map(|a| (a.proxy.as_str(), a.types.join(" ")))
                .collect();
            if sent == [("front-v1.shop", "routes".to_owned())] {
                Ok(())
            } else {
                Err(anyhow::anyhow!("{sent:?}"))
            }
        },
    );
    let after = ask(mesh.block(), ANYBODY).await?;
    findings.note(
        "reviews v1 gets 50 % after the edit",
        share(after.reached("reviews-v1"), ANYBODY.count, 0.5),
    );
    findings.note(
        "reviews v3 gets 50 % after the edit",
        share(after.reached("reviews-v3"), ANYBODY.count, 0.5),
    );
    Ok((edit, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_judged_as_chance_makes_them() {
        assert!(share(160, 200, 0.8).is_ok());
        assert!(share(140, 200, 0.8).is_ok());
        assert!(share(100, 200, 0.8).is_err());
        assert!(share(200, 200, 0.8).is_err());
    }

    #[test]
    fn an_edit_of_what_is_not_there_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.yaml");
        std::fs::write(&file, "weight: 80").unwrap();
        edit(&file, &[("80", "50")]).unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "weight: 50");
        assert!(edit(&file, &[("80", "50")]).is_err());
    }
}
