//! What a registry said and nobody has taken yet.
//!
//! A protocol has to answer its server while whoever takes reports is busy. So reports wait here, the newest of each
//! service alone: what waits is never more than there is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::report::{Instance, Report, Reports, ServiceName};

/// Whoever takes reports has gone.
#[derive(Debug)]
pub(crate) struct NobodyListens;

/// Reports that wait: a loss first, then services, then what there is.
#[derive(Default, Debug)]
pub(crate) struct Outbox {
    lost: Option<Arc<str>>,
    services: BTreeMap<ServiceName, Vec<Instance>>,
    whole: Option<BTreeSet<ServiceName>>,
}

impl Outbox {
    /// A service, in place of what waits of it.
    pub(crate) fn service(&mut self, name: ServiceName, instances: Vec<Instance>) {
        if let Some(whole) = &mut self.whole {
            // Or it would be told and, with what was gathered before it came, be gone.
            whole.insert(name.clone());
        }
        self.services.insert(name, instances);
    }

    /// All that there is. What waits of others is not told any more.
    pub(crate) fn whole(&mut self, names: BTreeSet<ServiceName>) {
        self.services.retain(|name, _| names.contains(name));
        self.whole = Some(names);
    }

    /// The connection is lost. What waits was not told before it, and is told again after it.
    pub(crate) fn lost(&mut self, why: Arc<str>) {
        *self = Self {
            lost: Some(why),
            ..Self::default()
        };
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.lost.is_none() && self.services.is_empty() && self.whole.is_none()
    }

    /// What is reported next.
    pub(crate) fn pop(&mut self) -> Option<Report> {
        if let Some(why) = self.lost.take() {
            return Some(Report::Lost(why));
        }
        if let Some((name, instances)) = self.services.pop_first() {
            return Some(Report::Service(name, instances));
        }
        self.whole.take().map(Report::Whole)
    }

    /// Reports one when there is room. May be dropped at any time without loss.
    pub(crate) async fn send(&mut self, to: &Reports) -> Result<(), NobodyListens> {
        let room = to.reserve().await.map_err(|_| NobodyListens)?;
        if let Some(report) = self.pop() {
            room.send(report);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> BTreeSet<ServiceName> {
        names.iter().map(|n| Arc::from(*n)).collect()
    }

    fn all(outbox: &mut Outbox) -> Vec<Report> {
        std::iter::from_fn(|| outbox.pop()).collect()
    }

    #[test]
    fn what_waits_is_the_newest_of_each_service() {
        let mut outbox = Outbox::default();
        outbox.service("b".into(), Vec::new());
        outbox.whole(names(&["a", "b"]));
        outbox.service("a".into(), Vec::new());
        outbox.service("a".into(), Vec::new());
        let told = [
            Report::Service("a".into(), Vec::new()),
            Report::Service("b".into(), Vec::new()),
            Report::Whole(names(&["a", "b"])),
        ];
        assert_eq!(all(&mut outbox), told);
    }

    #[test]
    fn a_service_that_comes_after_what_there_is_belongs_to_it() {
        let mut outbox = Outbox::default();
        outbox.whole(names(&["a"]));
        outbox.service("b".into(), Vec::new());
        assert_eq!(
            all(&mut outbox).pop(),
            Some(Report::Whole(names(&["a", "b"])))
        );
    }

    #[test]
    fn what_is_gone_is_not_told_and_a_loss_comes_first() {
        let mut outbox = Outbox::default();
        outbox.service("a".into(), Vec::new());
        outbox.whole(names(&[]));
        assert_eq!(all(&mut outbox), [Report::Whole(names(&[]))]);
        outbox.service("a".into(), Vec::new());
        outbox.lost("why".into());
        outbox.service("b".into(), Vec::new());
        let told = [
            Report::Lost("why".into()),
            Report::Service("b".into(), Vec::new()),
        ];
        assert_eq!(all(&mut outbox), told);
    }
}
