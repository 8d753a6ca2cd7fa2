//! Commands over the store of the Kubernetes API: what was done, how it was, and putting it back.

mod manifests;
mod secrets;

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, bail};
use apiserver::access::Who;
use apiserver::api::Request;
use apiserver::local::Local;
use clap::Args;
use disk::private::{self, FolderDraft};
use http::Method;
use serde_json::Value;
use server::judged;

use super::input::operator_features;
use super::text::counted;
use manifests::Manifests;

/// Which store.
#[derive(Args, Clone)]
pub(crate) struct Data {
    /// Data folder of the store. If a server runs on it, the server is asked; otherwise the file is opened.
    #[arg(long, env = "PILOTHOUSE_DATA", value_name = "DIR")]
    data: PathBuf,
}

/// Which object.
#[derive(Args, Clone, Default)]
pub(crate) struct Which {
    /// Kind of the object, as for kubectl: vs, virtualservice, virtualservices.networking.istio.io.
    #[arg(value_name = "KIND", requires = "name")]
    kind: Option<String>,
    /// Its name.
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Its namespace.
    #[arg(short, long, default_value = "default")]
    namespace: String,
}

impl Which {
    fn query(&self) -> String {
        match (&self.kind, &self.name) {
            (Some(kind), Some(name)) => format!(
                "resource={}&name={}&namespace={}",
                encode(kind),
                encode(name),
                encode(&self.namespace)
            ),
            _ => String::new(),
        }
    }
}

/// `pilothouse history`.
#[derive(Args)]
pub(crate) struct HistoryOptions {
    #[command(flatten)]
    data: Data,
    #[command(flatten)]
    which: Which,
    /// Number of entries to show.
    #[arg(long, default_value_t = 50)]
    limit: usize,
}

/// `pilothouse diff`.
#[derive(Args)]
pub(crate) struct DiffOptions {
    #[command(flatten)]
    data: Data,
    /// From this revision.
    from: u64,
    /// To this revision.
    to: u64,
}

/// `pilothouse get`.
#[derive(Args)]
pub(crate) struct GetOptions {
    #[command(flatten)]
    data: Data,
    #[command(flatten)]
    which: Which,
    /// The revision; the newest by default.
    #[arg(long, value_name = "REV")]
    at: Option<u64>,
    /// Show the values of Secrets too. Without this flag only their lengths are shown.
    #[arg(long)]
    show_secrets: bool,
}

/// `pilothouse rollback`.
#[derive(Args)]
pub(crate) struct RollbackOptions {
    #[command(flatten)]
    data: Data,
    /// The revision to go back to.
    revision: u64,
    #[command(flatten)]
    which: Which,
    /// Write the changes. Without this flag they are only shown.
    #[arg(long)]
    yes: bool,
}

/// `pilothouse import`.
#[derive(Args)]
pub(crate) struct ImportOptions {
    #[command(flatten)]
    data: Data,
    /// Folder or file of manifests.
    from: PathBuf,
}

/// `pilothouse export`, `pilothouse backup`.
#[derive(Args)]
pub(crate) struct ToOptions {
    #[command(flatten)]
    data: Data,
    /// Where to write; must not exist yet.
    to: PathBuf,
}

/// `pilothouse restore`.
#[derive(Args)]
pub(crate) struct RestoreOptions {
    /// Data folder for the store; must not contain one yet.
    #[arg(long, env = "PILOTHOUSE_DATA", value_name = "DIR")]
    data: PathBuf,
    /// The backup.
    from: PathBuf,
}

/// Escapes a value for a query.
fn encode(text: &str) -> String {
    let one = |b: u8| match b {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => char::from(b).to_string(),
        _ => format!("%{b:02X}"),
    };
    text.bytes().map(one).collect()
}

async fn ask(local: &Local, method: Method, path: &str, query: &str) -> anyhow::Result<Value> {
    let uri = format!("{path}?{query}");
    let (status, body) = local
        .ask(Request::new(method, &uri, Who::local()), query)
        .await?;
    let value: Value = serde_json::from_slice(&body).unwrap_or_default();
    if !status.is_success() {
        bail!(
            "{}",
            value["message"].as_str().unwrap_or("the server says no")
        );
    }
    Ok(value)
}

async fn ledger(data: &Data, method: Method, what: &str, query: &str) -> anyhow::Result<Value> {
    let local = Local::open(&data.data).await?;
    ask(&local, method, &format!("/pilothouse/{what}"), query).await
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn place(entry: &Value) -> String {
    let name = match text(&entry["namespace"]) {
        "" => text(&entry["name"]).to_owned(),
        namespace => format!("{namespace}/{}", text(&entry["name"])),
    };
    format!("{} {name}", text(&entry["resource"]))
}

/// Shows what was done, newest first.
pub(crate) async fn history(options: HistoryOptions, out: &mut impl Write) -> anyhow::Result<()> {
    let query = format!("{}&limit={}", options.which.query(), options.limit);
    let answer = ledger(&options.data, Method::GET, "history", &query).await?;
    show_history(&answer, out)?;
    Ok(())
}

/// The records, in columns that are as wide as what is in them.
fn show_history(answer: &Value, out: &mut impl Write) -> std::io::Result<()> {
    let records = || answer["records"].as_array().into_iter().flatten();
    let widths = records().map(|record| place(record).chars().count());
    let wide = widths.max().unwrap_or(0).max("OBJECT".len());
    writeln!(
        out,
        "{:>9}  {:20}  {:8}  {:wide$}  BY",
        "REVISION", "TIME", "CHANGE", "OBJECT"
    )?;
    for r in records() {
        let by = format!(
            "{} ({} {})",
            text(&r["user"]),
            text(&r["manager"]),
            text(&r["verb"])
        );
        let revision = r["revision"].as_u64().unwrap_or_default();
        writeln!(
            out,
            "{revision:>9}  {:20}  {:8}  {:wide$}  {by}",
            text(&r["time"]),
            text(&r["change"]),
            place(r)
        )?;
    }
    writeln!(
        out,
        "Newest revision {}; whole states are known from revision {} on.",
        answer["newest"], answer["oldest"]
    )
}

/// Lines of an object, without what the API sets in each write.
fn lines(mut object: Value) -> Vec<String> {
    if object.is_null() {
        return Vec::new();
    }
    if let Some(meta) = object["metadata"].as_object_mut() {
        for field in ["resourceVersion", "managedFields", "generation"] {
            meta.remove(field);
        }
    }
    let pretty = serde_json::to_string_pretty(&object).unwrap_or_default();
    pretty.lines().map(str::to_owned).collect()
}

fn show_changes(changes: &Value, out: &mut impl Write) -> anyhow::Result<usize> {
    let changes = changes.as_array().map(Vec::as_slice).unwrap_or_default();
    for change in changes {
        let (mut from, mut to) = (change["from"].clone(), change["to"].clone());
        secrets::redact_both(&mut from, &mut to);
        let (from, to) = (lines(from), lines(to));
        let what = match (from.is_empty(), to.is_empty()) {
            (true, _) => "created",
            (_, true) => "deleted",
            _ => "changed",
        };
        writeln!(out, "{what} {}", place(change))?;
        let (from, to) = (from.join("\n"), to.join("\n"));
        let diff = similar::TextDiff::from_lines(&from, &to);
        for hunk in diff.unified_diff().context_radius(2).iter_hunks() {
            for line in hunk.iter_changes() {
                writeln!(out, "  {}{}", line.tag(), line.value().trim_end())?;
            }
        }
    }
    Ok(changes.len())
}

/// Shows what differs between two revisions.
pub(crate) async fn diff(options: DiffOptions, out: &mut impl Write) -> anyhow::Result<()> {
    let query = format!("from={}&to={}", options.from, options.to);
    let answer = ledger(&options.data, Method::GET, "diff", &query).await?;
    if show_changes(&answer["changes"], out)? == 0 {
        writeln!(out, "Nothing differs.")?;
    }
    Ok(())
}

/// Shows an object, or all of them, as of a revision.
pub(crate) async fn get(options: GetOptions, out: &mut impl Write) -> anyhow::Result<()> {
    let mut query = options.which.query();
    if let Some(at) = options.at {
        query.push_str(&format!("&revision={at}"));
    }
    let mut answer = ledger(&options.data, Method::GET, "at", &query).await?;
    if !options.show_secrets {
        secrets::redact(&mut answer);
    }
    writeln!(out, "{}", serde_json::to_string_pretty(&answer)?)?;
    Ok(())
}

/// Puts objects back as they were.
pub(crate) async fn rollback(options: RollbackOptions, out: &mut impl Write) -> anyhow::Result<()> {
    let mut query = format!("{}&revision={}", options.which.query(), options.revision);
    if !options.yes {
        query.push_str("&dryRun=All");
    }
    let answer = ledger(&options.data, Method::POST, "rollback", &query).await?;
    let count = show_changes(&answer["changes"], out)?;
    show_left(&answer["left"], out)?;
    let then = options.revision;
    let objects = counted(count, "object");
    let are = if count == 1 { "is" } else { "are" };
    match (count, answer["revision"].as_u64()) {
        (0, _) => writeln!(
            out,
            "Nothing differs from revision {then} that is rolled back."
        )?,
        (_, Some(revision)) => writeln!(
            out,
            "{objects} {are} as at revision {then}; this is revision {revision}."
        )?,
        (_, None) => writeln!(
            out,
            "{objects} would be as at revision {then}. Nothing was written; --yes writes it."
        )?,
    }
    Ok(())
}

/// Says what a rollback of everything leaves as it is, though it differs.
fn show_left(left: &Value, out: &mut impl Write) -> anyhow::Result<()> {
    let left = left.as_array().map(Vec::as_slice).unwrap_or_default();
    if left.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "Left as it is, because it is no configuration; name an object to roll it back:"
    )?;
    for object in left {
        writeln!(out, "  {}: {}", place(object), text(&object["why"]))?;
    }
    Ok(())
}

/// Copies the store to a file. A server on it goes on.
pub(crate) async fn backup(options: ToOptions, out: &mut impl Write) -> anyhow::Result<()> {
    let local = Local::open(&options.data.data).await?;
    let request = Request::new(Method::GET, "/pilothouse/backup", Who::local());
    let (status, body) = local.ask(request, "").await?;
    if !status.is_success() {
        bail!("{}", String::from_utf8_lossy(&body));
    }
    private::create(&options.to, &body).with_context(|| options.to.display().to_string())?;
    writeln!(
        out,
        "{} bytes written to {}.",
        body.len(),
        options.to.display()
    )?;
    Ok(())
}

/// Makes a store from a backup.
pub(crate) fn restore(options: &RestoreOptions, out: &mut impl Write) -> anyhow::Result<()> {
    let revision = apiserver::store::restore(&options.data, &options.from)
        .with_context(|| format!("cannot restore to {}", options.data.display()))?;
    writeln!(
        out,
        "Restored revision {revision} to {}.",
        options.data.display()
    )?;
    Ok(())
}

/// Writes every object to a folder of manifests, without what the API sets.
pub(crate) async fn export(options: ToOptions, out: &mut impl Write) -> anyhow::Result<()> {
    let answer = ledger(&options.data, Method::GET, "export", "").await?;
    let objects = answer["items"].as_array().cloned().unwrap_or_default();
    let draft =
        FolderDraft::begin(&options.to).with_context(|| options.to.display().to_string())?;
    for mut object in objects.iter().cloned() {
        if let Some(meta) = object["metadata"].as_object_mut() {
            for field in [
                "uid",
                "resourceVersion",
                "generation",
                "creationTimestamp",
                "managedFields",
            ] {
                meta.remove(field);
            }
        }
        let namespace = text(&object["metadata"]["namespace"]).to_owned();
        let folder = draft.path().join(if namespace.is_empty() {
            "_cluster"
        } else {
            &namespace
        });
        private::own_folder(&folder).with_context(|| options.to.display().to_string())?;
        let group = text(&object["apiVersion"])
            .split_once('/')
            .map_or(String::new(), |(g, _)| format!(".{g}"));
        let name = format!(
            "{}{group}_{}.json",
            text(&object["kind"]),
            text(&object["metadata"]["name"])
        );
        let text = serde_json::to_string_pretty(&object)? + "\n";
        private::create_in_draft(&folder.join(name), text.as_bytes())
            .with_context(|| options.to.display().to_string())?;
    }
    draft
        .create()
        .with_context(|| options.to.display().to_string())?;
    writeln!(
        out,
        "{} written to {}.",
        counted(objects.len(), "object"),
        options.to.display()
    )?;
    Ok(())
}

/// Applies every object of a folder of manifests.
pub(crate) async fn import(options: ImportOptions, out: &mut impl Write) -> anyhow::Result<()> {
    let Manifests {
        mut objects,
        rejected,
    } = Manifests::read(&options.from)?;
    for why in &rejected {
        writeln!(out, "{why}")?;
    }
    // What others need comes first.
    objects.sort_by_key(|o| match text(&o["kind"]) {
        "CustomResourceDefinition" => 0,
        "Namespace" => 1,
        _ => 2,
    });
    let local = Local::open(&options.data.data).await?;
    if let Local::File(api) = &local {
        // `validate` reports what is wrong with variables.
        let (features, _) = operator_features();
        api.set_further_rules(move |object| judged::of_one(&features, object));
    }
    let mut known: Vec<(String, Value)> = Vec::new();
    let (mut done, mut refused) = (0, rejected.len());
    for object in &objects {
        let result = async {
            let path = path_of(&local, &mut known, object).await?;
            ensure_namespace(&local, text(&object["metadata"]["namespace"])).await?;
            let query = "fieldManager=pilothouse-import&force=true&fieldValidation=Strict";
            let request = Request::new(Method::PATCH, &format!("{path}?{query}"), Who::local());
            let request = request.with_body("application/apply-patch+yaml", object.to_string());
            let (status, body) = local.ask(request, query).await?;
            if status.is_success() {
                return Ok(());
            }
            let said: Value = serde_json::from_slice(&body).unwrap_or_default();
            Err(anyhow::anyhow!("{}", text(&said["message"])))
        };
        match result.await {
            Ok(()) => done += 1,
            Err(error) => {
                refused += 1;
                writeln!(
                    out,
                    "{} {}: {error:#}",
                    text(&object["kind"]),
                    text(&object["metadata"]["name"])
                )?;
            }
        }
    }
    let applied = counted(done, "object");
    writeln!(out, "{applied} applied, {refused} refused.")?;
    match refused {
        0 => {}
        1 => bail!("1 object was refused"),
        _ => bail!("{refused} objects were refused"),
    }
    Ok(())
}

async fn ensure_namespace(local: &Local, name: &str) -> anyhow::Result<()> {
    if name.is_empty() {
        return Ok(());
    }
    let body = serde_json::json!({"metadata": {"name": name}}).to_string();
    let request = Request::new(Method::POST, "/api/v1/namespaces", Who::local());
    // One that is there already is what was wanted.
    local
        .ask(request.with_body("application/json", body), "")
        .await?;
    Ok(())
}

/// Where an object is applied: discovery says how its kind is called in paths.
async fn path_of(
    local: &Local,
    known: &mut Vec<(String, Value)>,
    object: &Value,
) -> anyhow::Result<String> {
    let (version, kind) = (
        text(&object["apiVersion"]).to_owned(),
        text(&object["kind"]),
    );
    if version.is_empty() || kind.is_empty() {
        bail!("the object has no apiVersion or no kind");
    }
    let root = if version.contains('/') {
        format!("/apis/{version}")
    } else {
        format!("/api/{version}")
    };
    let cached = known
        .iter()
        .find(|(v, _)| *v == version)
        .map(|(_, list)| list.clone());
    let list = match cached {
        // A definition may have come since.
        Some(list) if kind != "CustomResourceDefinition" => list,
        _ => {
            let list = ask(local, Method::GET, &root, "").await.with_context(|| {
                match text(&object["kind"]) {
                    "Ingress" => format!(
                        "{version} is not served: write it as Ingress of networking.k8s.io/v1"
                    ),
                    _ => format!("{version} is not served"),
                }
            })?;
            known.push((version.clone(), list.clone()));
            list
        }
    };
    let served = list["resources"].as_array().into_iter().flatten();
    let found = served
        .filter(|r| !text(&r["name"]).contains('/'))
        .find(|r| r["kind"] == kind);
    let found = found.with_context(|| format!("{kind} of {version} is not served"))?;
    let name = text(&object["metadata"]["name"]);
    if found["namespaced"] == true {
        let namespace = match text(&object["metadata"]["namespace"]) {
            "" => "default",
            namespace => namespace,
        };
        return Ok(format!(
            "{root}/namespaces/{namespace}/{}/{name}",
            text(&found["name"])
        ));
    }
    Ok(format!("{root}/{}/{name}", text(&found["name"])))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::show_history;

    #[test]
    fn columns_of_the_history_are_as_wide_as_what_is_in_them() {
        let record = |name: &str| {
            json!({"revision": 7, "time": "2026-11-28T10:00:00Z", "change": "created", "resource": "virtualservices.networking.istio.io",
                "namespace": "shop", "name": name, "user": "anna", "manager": "kubectl", "verb": "create"})
        };
        let answer = json!({"newest": 8, "oldest": 1, "records": [record("a"), record("a-much-longer-name")]});
        let mut out = Vec::new();
        show_history(&answer, &mut out).expect("a list of bytes takes all");
        let text = String::from_utf8(out).expect("it is text");
        let by: Vec<Option<usize>> = text
            .lines()
            .take(3)
            .map(|line| line.find("BY").or(line.find("anna")))
            .collect();
        assert!(
            by[0].is_some() && by.iter().all(|at| *at == by[0]),
            "{text}"
        );
    }
}
