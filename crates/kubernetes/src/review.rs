//! What an API says of who may do what.

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};

/// Whether a user may list the Secrets of a namespace, by their own name or as a member of one of the groups.
///
/// # Errors
///
/// When the API does not answer, or does not let us ask: `create` of `subjectaccessreviews` has to be granted.
pub async fn may_list_secrets(
    client: &Client,
    user: String,
    groups: Vec<String>,
    namespace: &str,
) -> Result<bool, kube::Error> {
    let asked = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(user),
            groups: Some(groups),
            resource_attributes: Some(ResourceAttributes {
                namespace: Some(namespace.to_owned()),
                verb: Some("list".to_owned()),
                resource: Some("secrets".to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    let answer = reviews.create(&PostParams::default(), &asked).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}
