//! The objects that made what a walk passes, and what they lack.

use std::collections::BTreeMap;

use explain::{NamedObject, Target};
use simulate::{End, Location, Type, Walk};
use xds::TypeUrl;

use super::super::explain::Explanations;
use super::left_out;
use crate::commands::text::counted;
use crate::log::say;

/// The objects that made each part that a walk passes.
#[derive(Debug, Default)]
pub(super) struct MadeBy {
    objects: BTreeMap<Location, Vec<NamedObject>>,
    left_out: BTreeMap<String, Vec<String>>,
}

impl MadeBy {
    /// Explains all that a walk passes. What cannot be explained is told, and the walk is shown without it.
    pub(super) async fn of(walk: &Walk, explanations: &mut Explanations) -> Self {
        let mut locations: Vec<&Location> = walk.steps.iter().flat_map(|s| &s.at).collect();
        if let End::Clusters(all) = &walk.end {
            locations.extend(all.iter().flat_map(|d| &d.at));
        }
        locations.sort();
        locations.dedup();
        let mut found = BTreeMap::new();
        for of_type in locations.chunk_by(|a, b| a.r#type == b.r#type) {
            let targets: Vec<Target> = of_type
                .iter()
                .map(|location| Target {
                    name: location.resource.clone(),
                    part: location.pointer.clone(),
                })
                .collect();
            let ty = match of_type[0].r#type {
                Type::Listener => TypeUrl::Listener,
                Type::Route => TypeUrl::Route,
                Type::Cluster => TypeUrl::Cluster,
                Type::Endpoint => TypeUrl::Endpoint,
            };
            match explanations.explain(ty, &targets).await {
                Ok(all) => {
                    if let Some(first) = all.first().filter(|e| e.checked < e.candidates) {
                        say!(
                            "pilothouse: time ran out after {} of {}: others may have made a {} too",
                            first.checked,
                            counted(first.candidates, "object"),
                            first.r#type
                        );
                    }
                    let objects = all.into_iter().map(|e| e.objects);
                    found.extend(of_type.iter().map(|l| (*l).clone()).zip(objects));
                }
                Err(error) => {
                    let ty = explain::type_name(ty);
                    say!("pilothouse: what made each {ty} is not known: {error:#}");
                }
            }
        }
        let snapshot = explanations.snapshot();
        let left_out = snapshot.map(|snapshot| left_out::of(walk, snapshot));
        Self {
            objects: found,
            left_out: left_out.unwrap_or_default(),
        }
    }

    /// Why a cluster lacks endpoints that objects state: a sentence for each object. Nothing is known of those of a server.
    pub(super) fn left_out(&self, cluster: &str) -> &[String] {
        self.left_out.get(cluster).map_or(&[], Vec::as_slice)
    }

    /// The objects that made something, each once.
    pub(super) fn objects<'a>(
        &self,
        locations: impl IntoIterator<Item = &'a Location>,
    ) -> Vec<&NamedObject> {
        let all = locations.into_iter().filter_map(|at| self.objects.get(at));
        let mut objects: Vec<&NamedObject> = Vec::new();
        for object in all.flatten() {
            if !objects
                .iter()
                .any(|o| o.title() == object.title() && o.group == object.group)
            {
                objects.push(object);
            }
        }
        objects
    }
}
