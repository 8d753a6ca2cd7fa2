//! Whether credentials may read what a source would.

use futures::future::join_all;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, Client};
use model::Kind;

use crate::source::Options;

/// A kind that cannot be listed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unread {
    /// It may not be.
    Forbidden(Kind),
    /// The API does not answer as it should; why not.
    Failed(Kind, String),
}

/// Asks for one object of each kind that a source would read. A kind that is not served is no fault.
pub async fn unread(client: &Client, options: &Options) -> Vec<Unread> {
    let asked = options.kinds.iter().map(|kind| one(client, *kind));
    join_all(asked).await.into_iter().flatten().collect()
}

async fn one(client: &Client, kind: Kind) -> Option<Unread> {
    for version in kind.versions() {
        let group = kind.group();
        let resource = ApiResource {
            group: group.to_owned(),
            version: (*version).to_owned(),
            api_version: match group {
                "" => (*version).to_owned(),
                _ => format!("{group}/{version}"),
            },
            kind: kind.name().to_owned(),
            plural: kind.plural().to_owned(),
        };
        let objects: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        match objects.list(&ListParams::default().limit(1)).await {
            Ok(_) => return None,
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(kube::Error::Api(status)) if status.code == 403 => {
                return Some(Unread::Forbidden(kind));
            }
            Err(error) => return Some(Unread::Failed(kind, error.to_string())),
        }
    }
    None
}
