//! Clients that others wrote, against the Kubernetes API of `apiserver`. There is nothing here but tests: their dependencies
//! are many, and nobody else should have to build them.
