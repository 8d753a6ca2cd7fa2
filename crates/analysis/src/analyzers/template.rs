//! Secret templates without a value.

use incr::Cx;
use model::kinds::Kinded;
use model::{Object, Severity};
use store::template::{NoValue, value};
use store::{Reads, Snapshot};

use crate::code;
use crate::finding::Report;

pub(crate) const NAME: &str = "pilothouse.SecretTemplate";

/// Looks at the templates of an object of any kind.
pub(crate) fn check<T: Kinded>(cx: &Cx<'_, Snapshot>, object: &Object<T>, report: &mut Report<'_>) {
    for template in object.meta.templates.iter().flat_map(|t| t.iter()) {
        let wanted = &template.secret;
        let what = format!("the key {:?} of Secret {}", &*wanted.key, wanted.secret);
        let allowed = &cx.settings().features.secret_templates;
        if !allowed.allows(&wanted.asking) {
            let message = format!(
                "{what} is not put in: secret templates are turned off for the namespace {}; PILOTHOUSE_SECRET_TEMPLATES can allow them",
                wanted.asking
            );
            report
                .add(object, &code::NO_SECRET_VALUE, &*template.path, message)
                .at_most(Severity::Info);
            continue;
        }
        match value(cx, wanted) {
            Err(why) => {
                let message = format!("{what} cannot be put in: {why}");
                let help = match why {
                    NoValue::NotAllowed | NoValue::OfControlPlane => {
                        "name a Secret of the object's own namespace; until then what needs the value is closed"
                    }
                    _ => "until then what needs the value is closed",
                };
                report
                    .add(object, &code::NO_SECRET_VALUE, &*template.path, message)
                    .help(help);
            }
            Ok(value) if value.reveal().ends_with('\n') => {
                let message = format!("{what} ends with a line break, which a header cannot have");
                report
                    .add(object, &code::NO_SECRET_VALUE, &*template.path, message)
                    .at_most(Severity::Warning)
                    .help("write it with `echo -n` or `--from-literal`");
            }
            Ok(_) => {}
        }
    }
}
