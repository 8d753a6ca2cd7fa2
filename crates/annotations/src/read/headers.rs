//! Headers that are added, set and removed.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::reader::{Fault, Reader};
use crate::values::{boolean, changeable, count, header_value, list, reference};
use crate::{HeaderChange, HeaderControl};

/// The most lines of an annotation.
const MOST: usize = 100;

/// Valid lines, and whether that was all of them.
type Lines = (BTreeMap<Arc<str>, Arc<str>>, bool);

/// Reads how headers are changed.
pub(crate) fn read(r: &mut Reader<'_>) -> HeaderControl {
    let request = HeaderChange {
        set: pairs(r, "request-header-control-update"),
        add: pairs(r, "request-header-control-add"),
        remove: names(r, "request-header-control-remove"),
        ..HeaderChange::default()
    };
    let mut response = HeaderChange {
        set: pairs(r, "response-header-control-update"),
        add: pairs(r, "response-header-control-add"),
        remove: names(r, "response-header-control-remove"),
        ..HeaderChange::default()
    };
    by_options(r, &mut response);
    HeaderControl {
        hsts: hsts(r).map(Into::into),
        drops_underscores: drops_underscores(r),
        request,
        response,
        of_config_map: r.get("custom-headers", reference),
    }
}

const SOME: &str = "has lines or names that cannot be used, which are left out";

fn pairs(r: &mut Reader<'_>, name: &'static str) -> BTreeMap<Arc<str>, Arc<str>> {
    let (pairs, all) = r.get(name, lines).unwrap_or((BTreeMap::new(), true));
    if !all {
        r.warn(name, SOME);
    }
    pairs
}

/// Lines of a name and a value.
fn lines(text: &str) -> Result<Lines, Fault> {
    let mut found = BTreeMap::new();
    let mut all = true;
    for line in text.lines().filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let value = value.trim().trim_matches(['"', '\'']);
        match (
            changeable(name.trim_matches(['"', '\''])),
            header_value(value),
        ) {
            (Ok(name), Ok(value)) if !value.is_empty() && found.len() < MOST => {
                found.insert(name, value);
            }
            _ => all = false,
        }
    }
    Ok((found, all))
}

fn names(r: &mut Reader<'_>, name: &'static str) -> Vec<Arc<str>> {
    let read = r.get(name, |text| {
        let items = list(text, MOST)?;
        let mut names: Vec<Arc<str>> = Vec::new();
        let mut all = true;
        for item in items {
            match changeable(item) {
                Ok(name) if !names.contains(&name) => names.push(name),
                Ok(_) => {}
                Err(_) => all = false,
            }
        }
        Ok((names, all))
    });
    let (names, all) = read.unwrap_or((Vec::new(), true));
    if !all {
        r.warn(name, SOME);
    }
    names
}

/// Headers that options of ingress-nginx's ConfigMap remove, where annotations say nothing of them.
fn by_options(r: &mut Reader<'_>, response: &mut HeaderChange) {
    let hidden = r.option("hide-headers", |text| {
        list(text, MOST)?
            .into_iter()
            .map(changeable)
            .collect::<Result<Vec<_>, _>>()
    });
    for name in hidden.unwrap_or_default() {
        if !response.remove.contains(&name) {
            response.remove.push(name);
        }
    }
}

/// The value of `Strict-Transport-Security`: with nginx's dialect that is so by default, else where an option states anything of it.
fn hsts(r: &mut Reader<'_>) -> Option<String> {
    let on = r.option("hsts", boolean);
    let age = r.option("hsts-max-age", count);
    let below = r.option("hsts-include-subdomains", boolean);
    let preload = r.option("hsts-preload", boolean);
    let stated = on.is_some() || age.is_some() || below.is_some() || preload.is_some();
    if !stated && !r.is_nginx() || on == Some(false) {
        return None;
    }
    let mut value = format!("max-age={}", age.unwrap_or(31_536_000));
    if below.unwrap_or(true) {
        value.push_str("; includeSubDomains");
    }
    if preload.unwrap_or_default() {
        value.push_str("; preload");
    }
    Some(value)
}

/// Whether headers with underscores in their names are dropped: with nginx's dialect, unless an option lets them, or all that nginx
/// takes for invalid, pass.
fn drops_underscores(r: &mut Reader<'_>) -> bool {
    let allowed = r.option("enable-underscores-in-headers", boolean);
    let ignored = r.option("ignore-invalid-headers", boolean);
    r.is_nginx() && allowed != Some(true) && ignored != Some(false)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::Labels;

    use crate::{Defaults, Dialect, read};

    #[test]
    fn headers_with_underscores_are_dropped_as_nginx_does() {
        let drops = |dialect, options: &[(&str, &str)]| {
            let defaults = Defaults {
                nginx: Arc::new(options.iter().copied().collect()),
            };
            let read = read(&Labels::default(), dialect, &defaults);
            read.headers.drops_underscores
        };
        assert!(drops(Dialect::Nginx, &[]));
        assert!(!drops(Dialect::Higress, &[]));
        let table = [
            ("enable-underscores-in-headers", "true", false),
            ("enable-underscores-in-headers", "false", true),
            ("ignore-invalid-headers", "false", false),
            ("ignore-invalid-headers", "true", true),
        ];
        for (option, value, dropped) in table {
            let found = drops(Dialect::Nginx, &[(option, value)]);
            assert_eq!(found, dropped, "{option}: {value}");
        }
    }
}
