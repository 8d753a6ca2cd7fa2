//! A walk for people, within 80 columns, and for programs.

use std::io::{self, Write};

use explain::NamedObject;
use serde_json::{Value, json};
use simulate::{Call, Destination, End, Health, Part, Protocol, Step, Verdict, Walk};

use super::super::text::entry;
use super::made_by::MadeBy;

/// Endpoints of one cluster, and objects that made one part, that are shown to people.
const SHOWN: usize = 10;

/// Prints a walk.
pub(super) fn text(
    out: &mut dyn Write,
    from: &str,
    call: &Call,
    walk: &Walk,
    made_by: &MadeBy,
) -> io::Result<()> {
    let what = match call.protocol {
        Protocol::Tcp => "A connection".to_owned(),
        Protocol::Http1 | Protocol::Http2 => {
            format!("{} {}{}", call.method, call.authority, call.path)
        }
    };
    let to = call.address.map(|a| format!("{a} ")).unwrap_or_default();
    writeln!(out, "{what}, to {to}port {}, through {from}\n", call.port)?;
    for step in &walk.steps {
        entry(out, label(step.part), &step.name, &details(step, made_by))?;
    }
    for asked in &walk.asked {
        entry(
            out,
            "access",
            &asked.what,
            &[format!("assumed: {}", asked.assumed)],
        )?;
    }
    match &walk.verdict {
        Verdict::Allowed => {}
        Verdict::Denied(why) => {
            let what = match call.protocol {
                Protocol::Tcp => "by policy: the connection is closed",
                Protocol::Http1 | Protocol::Http2 => "by policy: 403",
            };
            return entry(out, "refused", what, &few(why));
        }
        Verdict::Depends(on) => {
            let more = "--as and --client-ip say more of the client".to_owned();
            let mut on = few(on);
            on.push(more);
            entry(out, "policy", "may refuse it", &on)?;
        }
    }
    match &walk.end {
        End::Clusters(all) if all.is_empty() => entry(out, "goes", "nowhere", &[])?,
        End::Clusters(all) => {
            for destination in all {
                self::destination(out, destination, made_by)?;
            }
        }
        End::Redirect { status, location } => {
            entry(out, "answer", &format!("{status} {location}"), &[])?;
        }
        End::Response { status, body } => {
            let body: Vec<String> = (!body.is_empty())
                .then(|| body.clone())
                .into_iter()
                .collect();
            entry(out, "answer", &status.to_string(), &body)?;
        }
        End::Refused(why) => entry(out, "refused", &why.to_string(), &few(&walk.tried))?,
    }
    Ok(())
}

/// A line for each, if there are not too many.
fn few(all: &[String]) -> Vec<String> {
    let mut lines: Vec<String> = all.iter().take(SHOWN).cloned().collect();
    if all.len() > SHOWN {
        lines.push(format!("and {} more", all.len() - SHOWN));
    }
    lines
}

fn label(part: Part) -> &'static str {
    match part {
        Part::Listener => "listener",
        Part::FilterChain => "filter chain",
        Part::RouteConfiguration => "routes",
        Part::VirtualHost => "virtual host",
        Part::Route => "route",
    }
}

fn details(step: &Step, made_by: &MadeBy) -> Vec<String> {
    let mut details = Vec::new();
    if !step.notes.is_empty() {
        details.push(step.notes.join(", "));
    }
    details.extend(makers(&made_by.objects(&step.at)));
    details
}

/// A line for each object, if there are not too many.
fn makers(objects: &[&NamedObject]) -> Vec<String> {
    let line = |o: &&NamedObject| format!("made by {} at {}", o.title(), o.at);
    let mut lines: Vec<String> = objects.iter().take(SHOWN).map(line).collect();
    if objects.len() > SHOWN {
        lines.push(format!("and by {} more", objects.len() - SHOWN));
    }
    lines
}

fn destination(out: &mut dyn Write, to: &Destination, made_by: &MadeBy) -> io::Result<()> {
    let share = match to.total {
        total if total == to.weight => String::new(),
        0 => " 0 %".to_owned(),
        total => format!(" {} %", u64::from(to.weight) * 100 / u64::from(total)),
    };
    let mut details = Vec::new();
    if to.known {
        details.push(format!("{}, {}", to.discovery, to.load_balancer));
    } else {
        details.push("the proxy has no such cluster: 503".to_owned());
    }
    details.extend(makers(&made_by.objects(&to.at)));
    entry(out, &format!("cluster{share}"), &to.cluster, &details)?;
    for endpoint in to.endpoints.iter().take(SHOWN) {
        let mut about = Vec::new();
        if !endpoint.locality.is_empty() {
            about.push(endpoint.locality.clone());
        }
        if endpoint.priority > 0 {
            about.push(format!("priority {}", endpoint.priority));
        }
        if endpoint.weight != 1 {
            about.push(format!("weight {}", endpoint.weight));
        }
        match endpoint.health {
            Health::Healthy => {}
            Health::Draining => about.push("draining".to_owned()),
            Health::Unhealthy => about.push("unhealthy".to_owned()),
        }
        let line = format!("{}  {}", endpoint.address, about.join(", "));
        entry(out, "  endpoint", line.trim_end(), &[])?;
    }
    if to.endpoints.len() > SHOWN {
        let more = format!("and {} more", to.endpoints.len() - SHOWN);
        entry(out, "", &more, &[])?;
    }
    let left_out = made_by.left_out(&to.cluster);
    let has_list = matches!(&*to.discovery, "EDS" | "STRICT_DNS" | "LOGICAL_DNS");
    if to.known && to.endpoints.is_empty() && has_list {
        entry(out, "  endpoint", "none: 503", &few(left_out))?;
    } else if !left_out.is_empty() {
        entry(
            out,
            "  left out",
            "endpoints of the cluster",
            &few(left_out),
        )?;
    }
    Ok(())
}

/// A walk for programs.
pub(super) fn json(walk: &Walk, made_by: &MadeBy) -> Value {
    let origins = |list: Vec<&NamedObject>| -> Vec<Value> {
        let object = |o: &&NamedObject| json!({ "kind": o.kind, "namespace": o.namespace, "name": o.name, "at": o.at });
        list.iter().map(object).collect()
    };
    let step = |s: &Step| {
        let part = match s.part {
            Part::Listener => "listener",
            Part::FilterChain => "filterChain",
            Part::RouteConfiguration => "routeConfiguration",
            Part::VirtualHost => "virtualHost",
            Part::Route => "route",
        };
        json!({ "part": part, "name": s.name, "notes": s.notes, "madeBy": origins(made_by.objects(&s.at)) })
    };
    let cluster = |d: &Destination| {
        let endpoints = d.endpoints.iter().map(|e| {
            json!({
                "address": e.address,
                "locality": e.locality,
                "priority": e.priority,
                "weight": e.weight,
                "health": format!("{:?}", e.health).to_lowercase(),
            })
        });
        json!({
            "cluster": d.cluster,
            "weight": d.weight,
            "totalWeight": d.total,
            "known": d.known,
            "discovery": d.discovery,
            "loadBalancer": d.load_balancer,
            "madeBy": origins(made_by.objects(&d.at)),
            "endpoints": endpoints.collect::<Vec<_>>(),
            "leftOut": made_by.left_out(&d.cluster),
        })
    };
    let end = match &walk.end {
        End::Clusters(all) => json!({ "clusters": all.iter().map(cluster).collect::<Vec<_>>() }),
        End::Redirect { status, location } => {
            json!({ "redirect": { "status": status, "location": location } })
        }
        End::Response { status, body } => json!({ "response": { "status": status, "body": body } }),
        End::Refused(why) => json!({ "refused": why.to_string(), "tried": walk.tried }),
    };
    let policy = match &walk.verdict {
        Verdict::Allowed => json!({ "verdict": "allowed" }),
        Verdict::Denied(why) => json!({ "verdict": "denied", "why": why }),
        Verdict::Depends(on) => json!({ "verdict": "depends", "on": on }),
    };
    let steps: Vec<Value> = walk.steps.iter().map(step).collect();
    let asked = walk
        .asked
        .iter()
        .map(|asked| json!({ "what": asked.what, "assumed": asked.assumed }));
    let asked: Vec<Value> = asked.collect();
    json!({ "steps": steps, "policy": policy, "asked": asked, "end": end })
}
