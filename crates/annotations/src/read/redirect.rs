//! Redirects.

use std::sync::Arc;

use crate::reader::{Fault, Reader};
use crate::values::{boolean, ingress_host, number, path, target, target_keeping_path};
use crate::{HttpsRedirect, RedirectTo, Redirects};

/// Reads redirects to URLs, to https and to another host.
pub(crate) fn read(r: &mut Reader<'_>) -> Redirects {
    Redirects {
        to: to(r),
        https: https(r),
        code: r.option("http-redirect-code", |text| code(text)?.ok_or_else(unknown)),
        app_root: r.get("app-root", path),
        www: r.get("from-to-www-redirect", boolean).unwrap_or_default(),
        answer: None,
    }
}

/// A temporal redirect goes before a permanent one.
fn to(r: &mut Reader<'_>) -> Option<RedirectTo> {
    // Higress: pkg/ingress/kube/annotations/redirect.go, 2.1: the redirect has the path of the URL, which may be none.
    let target = match r.is_nginx() {
        true => target,
        false => target_keeping_path,
    };
    if let Some(to) = r.get("temporal-redirect", |text| target(text, 302)) {
        let code = of(r, "temporal-redirect-code", 302);
        return Some(RedirectTo { code, ..to });
    }
    let to = r.get("permanent-redirect", |text| target(text, 301))?;
    let code = of(r, "permanent-redirect-code", 301);
    Some(RedirectTo { code, ..to })
}

fn of(r: &mut Reader<'_>, name: &'static str, default: u16) -> u16 {
    let stated = r.get(name, code);
    if stated == Some(None) {
        r.warn(
            name,
            &format!("is none of 301, 302, 303, 307 and 308, so it is {default}"),
        );
    }
    stated.flatten().unwrap_or(default)
}

fn unknown() -> Fault {
    "is none of 301, 302, 303, 307 and 308".into()
}

/// A status of redirects that Envoy knows.
fn code(text: &str) -> Result<Option<u16>, Fault> {
    let code = u16::try_from(number(text)?).ok();
    Ok(code.filter(|code| [301, 302, 303, 307, 308].contains(code)))
}

fn https(r: &mut Reader<'_>) -> HttpsRedirect {
    let forced = r
        .get_or_option("force-ssl-redirect", boolean)
        .unwrap_or_default();
    let stated = r.get_or_option("ssl-redirect", boolean);
    match (forced, stated, r.is_nginx()) {
        (true, ..) | (false, Some(true), false) => HttpsRedirect::Always,
        (false, Some(true) | None, true) => HttpsRedirect::WithCertificate,
        (false, Some(false), _) | (false, None, false) => HttpsRedirect::Never,
    }
}

/// Further hosts of an Ingress; those that are expressions are told of.
pub(crate) fn aliases(r: &mut Reader<'_>) -> Vec<Arc<str>> {
    const NAME: &str = "server-alias";
    let read = r.get(NAME, |text| {
        let items = crate::values::list(text, 100)?;
        let mut hosts: Vec<Arc<str>> = Vec::new();
        let mut all = true;
        for item in items {
            match ingress_host(item) {
                Ok(host) if !hosts.contains(&host) => hosts.push(host),
                Ok(_) => {}
                Err(_) => all = false,
            }
        }
        Ok((hosts, all))
    });
    let Some((hosts, all)) = read else {
        return Vec::new();
    };
    if !all {
        r.warn(NAME, "has items that are no hosts, which are left out");
    }
    hosts
}
