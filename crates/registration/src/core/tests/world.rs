//! Replicas that write to one API, and a clock.

use std::sync::Arc;

use model::kinds::AnyObject;
use model::node::Identity;
use model::parse::{Validation, from_json};
use serde_json::json;
use writeback::Part;

use super::super::*;
use crate::object::Group;
use crate::wall::Wall;

/// What every replica sees of the API.
#[derive(Clone, Default)]
pub(super) struct Sight {
    pub(super) incomplete: bool,
    pub(super) groups: BTreeMap<ObjectName, Group>,
    pub(super) entries: BTreeMap<ObjectName, Value>,
}

impl View for Sight {
    fn is_complete(&self) -> bool {
        !self.incomplete
    }
    fn group(&self, name: &ObjectName) -> Option<Group> {
        self.groups.get(name).cloned()
    }
    fn entry(&self, name: &ObjectName) -> Option<Seen> {
        self.entries.get(name).map(Seen::of_json)
    }
    fn registered(&self) -> Vec<(ObjectName, Seen)> {
        let all = self.entries.iter();
        all.map(|(name, object)| (name.clone(), Seen::of_json(object)))
            .filter(|(_, seen)| seen.controller.is_some())
            .collect()
    }
}

/// An API, replicas that write to it, and a clock.
pub(super) struct World {
    pub(super) api: Sight,
    pub(super) version: u64,
    pub(super) replicas: Vec<Core>,
    pub(super) now: Duration,
    /// Writes that were made.
    pub(super) log: Vec<String>,
    /// What the next writes come to, instead of being made.
    pub(super) faults: Vec<WriteError>,
}

pub(super) fn options(instance: &str) -> Options {
    Options {
        instance: instance.into(),
        validate_identity: true,
        health: true,
        grace: Duration::from_secs(10),
        most_entries: 100,
        most_entries_of_peer: 50,
        most_writes: 4,
    }
}

pub(super) fn group(name: &str, account: &str) -> (ObjectName, Group) {
    let object = json!({
        "apiVersion": "networking.istio.io/v1", "kind": "WorkloadGroup",
        "metadata": {"name": name, "namespace": "shop"}, "spec": {"template": {"serviceAccount": account}},
    });
    let read = from_json(
        object,
        &std::path::Path::new("t").into(),
        Validation::Strict,
    );
    match read.documents.into_iter().find_map(|d| d.object) {
        Some(AnyObject::WorkloadGroup(object)) => {
            let owns = false;
            (object.meta.name.clone(), Group { object, owns })
        }
        other => panic!("{other:?}"),
    }
}

pub(super) fn claim(group: &str, address: &str) -> Claim {
    let ip: IpAddr = address.parse().unwrap();
    Claim {
        entry: ObjectName::new("shop", crate::entry_name(group, ip, "").as_str()),
        wish: Wish::Register {
            group: group.into(),
        },
        address: ip,
        network: "".into(),
        labels: BTreeMap::new(),
        locality: "".into(),
        probed: true,
        identity: Identity::of_test_token("sa:shop:vm"),
        peer: ip,
    }
}

impl World {
    pub(super) fn new() -> Self {
        let api = Sight {
            groups: [group("web", "vm")].into(),
            ..Sight::default()
        };
        Self {
            api,
            version: 0,
            replicas: ["a_pilothouse-1", "b_pilothouse-2"]
                .map(|name| Core::new(options(name)))
                .into(),
            now: Duration::from_secs(1000),
            log: Vec::new(),
            faults: Vec::new(),
        }
    }

    pub(super) fn now(&self) -> Now {
        Now {
            since: self.now,
            wall: Wall(self.now.as_nanos() as i128),
        }
    }

    pub(super) fn connect(&mut self, replica: usize, id: u64, claim: Claim) {
        let (view, now) = (self.api.clone(), self.now());
        self.replicas[replica].connect(ConnectionId(id), claim, &view, now);
        self.settle();
    }

    pub(super) fn disconnect(&mut self, replica: usize, id: u64) {
        let now = self.now();
        self.replicas[replica].disconnect(ConnectionId(id), now);
        self.settle();
    }

    pub(super) fn report(&mut self, replica: usize, id: u64, healthy: bool) {
        let report = Report {
            healthy,
            message: if healthy { "" } else { "no" }.into(),
            at: self.now().wall,
        };
        self.replicas[replica].report(ConnectionId(id), report);
        self.settle();
    }

    /// Does what is to be done now; every replica sees each write at once.
    pub(super) fn settle(&mut self) {
        loop {
            let mut done = true;
            for replica in 0..self.replicas.len() {
                let (view, now) = (self.api.clone(), self.now());
                if let Some(write) = self.replicas[replica].next_write(&view, now) {
                    done = false;
                    let result = self.perform(&write);
                    let changed = result.is_ok() && write.op != Op::Read;
                    let view = self.api.clone();
                    self.replicas[replica].wrote(&write, result, &view, now);
                    if changed {
                        self.tell(&write.entry);
                    }
                }
            }
            if done {
                return;
            }
        }
    }

    pub(super) fn tell(&mut self, entry: &ObjectName) {
        let view = self.api.clone();
        for replica in &mut self.replicas {
            let kind = Kind::WorkloadEntry;
            let key = ObjectKey {
                kind,
                name: entry.clone(),
            };
            replica.seen([key], &view);
        }
    }

    pub(super) fn perform(&mut self, write: &Write) -> Result<Option<Value>, WriteError> {
        if write.op != Op::Read {
            self.log.push(format!("{:?}", write.purpose));
        }
        if let Some(fault) = self.faults.pop() {
            return Err(fault);
        }
        let name = &write.entry;
        let before = self.api.entries.get(name).cloned();
        let current = |version: Option<&str>| match &before {
            None => Err(WriteError::Missing),
            Some(object) if version.is_some() && crate::object::version(object) != version => {
                Err(WriteError::Conflict)
            }
            Some(object) => Ok(object.clone()),
        };
        let mut value = match &write.op {
            Op::Read => return Ok(before),
            Op::Create(_) if before.is_some() => return Err(WriteError::Exists),
            Op::Create(value) => value.clone(),
            Op::Replace(part, value) => {
                let mut next = current(crate::object::version(value))?;
                match part {
                    Part::Object => {
                        let status = next["status"].take();
                        next = value.clone();
                        next["status"] = status;
                    }
                    Part::Status | Part::Approval => next["status"] = value["status"].clone(),
                }
                next
            }
            Op::Delete(version) => {
                current(version.as_deref())?;
                self.api.entries.remove(name);
                return Ok(None);
            }
        };
        self.version += 1;
        value["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.api.entries.insert(name.clone(), value.clone());
        Ok(Some(value))
    }

    /// Time passes, in steps.
    pub(super) fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds * 10 {
            self.now += Duration::from_millis(100);
            self.settle();
        }
    }

    pub(super) fn entry(&self, name: &str) -> Option<&Value> {
        self.api.entries.get(&ObjectName::new("shop", name))
    }

    pub(super) fn annotation(&self, key: &str) -> Option<&str> {
        let entry = self.entry("web-10.0.0.1")?;
        entry["metadata"]["annotations"][key].as_str()
    }

    pub(super) fn health(&self) -> Option<String> {
        let seen = Seen::of_json(self.entry("web-10.0.0.1")?);
        seen.health.map(|(status, _)| status.to_string())
    }

    pub(super) fn took(&mut self) -> Vec<String> {
        std::mem::take(&mut self.log)
    }

    pub(super) fn answers(&mut self) -> Vec<(u64, Option<String>)> {
        let all = self.replicas.iter_mut().flat_map(Core::take_answers);
        all.map(|(id, answer)| (id.0, answer.err().map(|refusal| refusal.to_string())))
            .collect()
    }

    pub(super) fn orphans(&mut self, replica: usize, gone: &[&str]) {
        let gone = gone.iter().map(|g| Arc::from(*g)).collect();
        let (registered, now) = (self.api.registered(), self.now());
        self.replicas[replica].sweep(registered, &gone, now);
        self.settle();
    }
}
