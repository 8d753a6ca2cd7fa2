//! A Kubernetes API as a source of configuration, like a folder.
