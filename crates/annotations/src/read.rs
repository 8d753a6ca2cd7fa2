//! Reads annotations: one module for each group of [`Annotations`].

mod access;
mod backend;
mod balance;
mod canary;
mod client;
mod cors;
mod external;
mod firewall;
mod front;
mod headers;
mod limit;
mod matching;
mod mcp;
mod redirect;
mod retry;
mod rewrite;
mod snippet;
mod stream;

use crate::reader::Reader;
use crate::{Annotations, Defaults, Dialect, Note, Paths};
use model::Labels;

/// Reads the annotations of an Ingress.
///
/// `nginx.ingress.kubernetes.io/NAME` is read first, and where it is absent or invalid `higress.io/NAME`. Names that begin
/// with `disabled.` are off. A value that cannot be used is told in [`Annotations::notes`] and left out, or closes the
/// routes where it protects something. The order of annotations never matters.
///
/// Where ingress-nginx and Higress differ the dialect decides:
///
/// | | ingress-nginx | Higress |
/// |---|---|---|
/// | `ssl-redirect`, not stated | hosts with a certificate | no |
/// | `use-regex`, or a `rewrite-target` | paths are regular expressions without regard to case | `use-regex` only, and case counts |
/// | `proxy-next-upstream-tries` | counts the first attempt | does not |
/// | `proxy-next-upstream: error timeout` | connections that fail | answers 5xx too |
/// | `session-cookie-name` without `affinity` | nothing | turns the cookie on |
/// | `upstream-hash-by: $http_a_b` | the header `a-b` | the header `a_b` |
/// | `cors-allow-origin: *` | without credentials | with credentials |
/// | headers with underscores | dropped | pass |
/// | `cors-allow-headers`, not stated | nginx's list | Higress's list |
pub fn read(annotations: &Labels, dialect: Dialect, defaults: &Defaults) -> Annotations {
    let mut reader = Reader::new(annotations, dialect, defaults);
    let mut read = gather(&mut reader);
    let told = reader.told();
    read.closed = told.closed;
    read.notes = told.notes;
    read.keys = told.keys;
    read
}

/// What is told of the options of ingress-nginx's ConfigMap; the keys are their names.
pub fn options(defaults: &Defaults) -> Vec<Note> {
    let none = Labels::default();
    let mut reader = Reader::new(&none, Dialect::Nginx, defaults);
    gather(&mut reader);
    reader.told_of_options()
}

fn gather(r: &mut Reader<'_>) -> Annotations {
    firewall::check(r);
    front::check(r);
    stream::check(r);
    let mut read = Annotations {
        canary: canary::read(r),
        cors: cors::read(r),
        redirect: redirect::read(r),
        rewrite: rewrite::read(r),
        matching: matching::read(r),
        headers: headers::read(r),
        retry: retry::read(r),
        timeouts: retry::timeouts(r),
        balance: balance::read(r),
        backend: backend::read(r),
        mirror: retry::mirror(r),
        fallback: backend::fallback(r),
        access: access::read(r),
        limits: limit::read(r),
        tls: client::read(r),
        mcp: mcp::read(r),
        rpc: mcp::rpc(r),
        ..Annotations::default()
    };
    if r.is_nginx() && read.rewrite.paths != Paths::Plain {
        read.matching.ignore_case = true;
    }
    snippet::read(r, &mut read);
    read
}
