//! Delta and state-of-the-world ADS as a state machine without sockets, and its network adapter.
