//! A list of an object, a patch and a schema: no panic, and applying the same configuration twice changes nothing more.
#![no_main]

use apiserver::apply::{Writer, apply, record};
use apiserver::patch::{PatchKind, patch};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|data: &[u8]| {
    let Ok(Value::Array(parts)) = serde_json::from_slice(data) else {
        return;
    };
    let [object, change, schema] = parts.as_slice() else {
        return;
    };
    for kind in [PatchKind::Json, PatchKind::Merge, PatchKind::Strategic] {
        let mut patched = object.clone();
        let _ = patch(kind, &mut patched, change, Some(schema));
    }
    if !object.is_object() || !change.is_object() {
        return;
    }
    let writer = Writer {
        manager: "fuzz",
        api_version: "v1",
        subresource: "",
        time: "t",
    };
    let mut updated = change.clone();
    record(Some(object), &mut updated, Some(schema), &writer);
    if let Ok(once) = apply(object, change, Some(schema), &writer, true) {
        let twice = apply(&once, change, Some(schema), &writer, true);
        assert_eq!(twice.as_ref(), Ok(&once));
    }
});
