//! Requests that become calls of Dubbo, as an Http2Rpc says.
//!
//! Higress: pkg/ingress/config/ingress_config.go constructHttp2RpcMethods, 2.1.

use std::sync::Arc;

use model::edge::{Argument, ArgumentSource, Dubbo, HttpMethod, Method, Passed, Rpc};
use model::kinds::higress::{DubboMethod, Http2Rpc};
use model::{Kind, ObjectKey, ObjectName};

use super::limits;
use super::policy::Making;

/// What the requests of an Ingress become that names an Http2Rpc; where that says nothing they fail, rather than go on as they are.
pub(super) fn calls(making: &mut Making<'_, '_, '_>, named: &Arc<str>) -> Rpc {
    const NAME: &str = "rpc-destination-name";
    let system = making.read.settings().features.edge_namespace.clone();
    let name = ObjectName::new(system, &**named);
    making.policy.others.push(ObjectKey {
        kind: Kind::Http2Rpc,
        name: name.clone(),
    });
    let Some(found) = making.read.get::<Http2Rpc>(&name) else {
        let why = format!("there is no Http2Rpc {name}, so requests get 500");
        making.warn(NAME, why);
        return Rpc::Unknown;
    };
    let Some(stated) = &found.spec.dubbo else {
        let why = format!("the Http2Rpc {name} says nothing of Dubbo, so requests get 500");
        making.warn(NAME, why);
        return Rpc::Unknown;
    };
    let mut methods = Vec::new();
    for (at, one) in stated.methods.iter().enumerate() {
        match method(one) {
            Some(method) => methods.push(method),
            None => {
                let why = format!(
                    "spec.dubbo.methods[{at}] of the Http2Rpc {name} is not valid, so no request calls it"
                );
                making.warn(NAME, why);
            }
        }
    }
    if stated.service.is_empty() || methods.is_empty() {
        let why =
            format!("the Http2Rpc {name} has no method that can be called, so requests get 500");
        making.warn(NAME, why);
        return Rpc::Unknown;
    }
    let service = Dubbo {
        service: stated.service.clone(),
        version: stated.version.clone(),
        group: stated.group.clone(),
        methods,
    };
    if service.bytes() > limits::CALL_BYTES {
        let why = format!(
            "the Http2Rpc {name} is larger than {} KiB, so requests get 500",
            limits::CALL_BYTES >> 10
        );
        making.warn(NAME, why);
        return Rpc::Unknown;
    }
    Rpc::Dubbo(Arc::new(service))
}

fn method(stated: &DubboMethod) -> Option<Method> {
    let http = match &**stated.http_methods.first()? {
        "GET" => HttpMethod::Get,
        "POST" => HttpMethod::Post,
        "PUT" => HttpMethod::Put,
        "DELETE" => HttpMethod::Delete,
        "PATCH" => HttpMethod::Patch,
        _ => return None,
    };
    if stated.service_method.is_empty() || !is_pattern(&stated.http_path) {
        return None;
    }
    let headers = match stated.headers_attach.trim() {
        "*" => Passed::All,
        list => Passed::Some(
            list.split(',')
                .map(str::trim)
                .filter(|name| !name.is_empty())
                .map(Arc::from)
                .collect(),
        ),
    };
    let arguments = match &stated.param_from_entire_body {
        Some(body) => vec![Argument {
            from: ArgumentSource::Body,
            key: "".into(),
            java_type: body.param_type.clone(),
        }],
        None => {
            let params = stated.params.iter().map(|param| {
                let from = match &*param.param_source {
                    "QUERY" => ArgumentSource::Query,
                    "HEADER" => ArgumentSource::Header,
                    "PATH" if has_part(&stated.http_path, &param.param_key) => ArgumentSource::Path,
                    "BODY" => ArgumentSource::Body,
                    _ => return None,
                };
                Some(Argument {
                    from,
                    key: param.param_key.clone(),
                    java_type: param.param_type.clone(),
                })
            });
            params.collect::<Option<_>>()?
        }
    };
    Some(Method {
        name: stated.service_method.clone(),
        headers,
        path: stated.http_path.clone(),
        http,
        arguments,
    })
}

/// Whether a pattern of paths is one that proxies take: they would refuse all routes for another. Parts that become arguments
/// stand in braces.
fn is_pattern(path: &str) -> bool {
    let plain = |text: &str| !text.contains(|c: char| c.is_control() || "{} ?#".contains(c));
    let Some(rest) = path.strip_prefix('/') else {
        return false;
    };
    rest.split('/').all(|part| {
        let inner = part.strip_prefix('{').and_then(|p| p.strip_suffix('}'));
        match inner {
            Some(name) => !name.is_empty() && name.bytes().all(is_word),
            None => plain(part) && !part.contains('*'),
        }
    })
}

fn is_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_'
}

fn has_part(path: &str, name: &str) -> bool {
    path.split('/').any(|part| {
        let inner = part.strip_prefix('{').and_then(|p| p.strip_suffix('}'));
        inner == Some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_paths_with_parts_in_braces() {
        for path in ["/a", "/a/{id}/b", "/", "/a-b.c/{x_1}", "/a/"] {
            assert!(is_pattern(path), "{path}");
        }
        for path in [
            "", "a", "/{", "/{}", "/a{b}", "/{a=*}", "/**", "/a b", "/a?b", "/{a}{b}", "/\n",
        ] {
            assert!(!is_pattern(path), "{path}");
        }
        assert!(has_part("/a/{id}", "id") && !has_part("/a/id", "id"));
    }
}
