//! What may be served, by what a registry had.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Instances of a service: a version by address.
pub(super) type State = BTreeMap<String, u32>;

/// What a registry has had of one service, and how far that was seen.
#[derive(Debug)]
pub(super) struct History {
    states: Vec<(Instant, State)>,
    seen: usize,
    /// Changes so near to each other may be told in another order, where a registry has an order for each instance alone.
    blurred: Duration,
}

impl History {
    pub(super) fn new(state: State, blurred: Duration) -> Self {
        Self {
            states: vec![(Instant::now(), state)],
            seen: 0,
            blurred,
        }
    }

    /// Takes in that the registry is about to have this.
    pub(super) fn becomes(&mut self, state: State) {
        self.states.push((Instant::now(), state));
    }

    /// What the registry has.
    pub(super) fn now(&self) -> &State {
        &self.states.last().expect("there is a first one").1
    }

    /// Takes in that this is served since `at`. `empty` is how long a service stays that has no instances; none is forever.
    pub(super) fn served(
        &mut self,
        served: &State,
        at: Instant,
        empty: Option<Duration>,
    ) -> Result<(), String> {
        let is_so = |first: usize| {
            let (since, state) = &self.states[first];
            match served.is_empty() {
                true => state.is_empty() && empty.is_some_and(|empty| *since + empty <= at),
                false => state == served || self.is_blurred(first, served),
            }
        };
        match (self.seen..self.states.len()).position(is_so) {
            Some(further) => {
                self.seen += further;
                Ok(())
            }
            None => Err(format!(
                "{served:?} is served, and the registry had, of which the first was seen: {:?}",
                self.states[self.seen..]
                    .iter()
                    .map(|(since, state)| (at.saturating_duration_since(*since), state))
                    .collect::<Vec<_>>()
            )),
        }
    }

    /// Whether each instance is as in a state from this one on, as far as changes are near to each other.
    fn is_blurred(&self, first: usize, served: &State) -> bool {
        let change = self.states.get(first + 1).map(|(at, _)| *at);
        let Some(change) = change.filter(|_| !self.blurred.is_zero()) else {
            return false;
        };
        let later = &self.states[first..];
        let near = later
            .iter()
            .take_while(|(at, _)| *at <= change + self.blurred);
        let near: Vec<&State> = near.map(|(_, state)| state).collect();
        let mut addresses = near
            .iter()
            .flat_map(|state| state.keys())
            .chain(served.keys());
        addresses.all(|a| near.iter().any(|state| state.get(a) == served.get(a)))
    }

    /// Whether this is what is to be served in the end.
    pub(super) fn is_served_by(&self, served: &State, empty: Option<Duration>) -> bool {
        let now = self.now();
        now == served || now.is_empty() && empty.is_none()
    }
}

#[test]
fn what_was_gone_is_not_served_again_and_what_is_kept_does_not_go() {
    let state = |n: u32| State::from([("a".to_owned(), n)]);
    let (none, later) = (State::new(), Instant::now() + Duration::from_secs(9));
    let mut history = History::new(state(1), Duration::ZERO);
    for state in [state(2), none.clone(), state(3)] {
        history.becomes(state);
    }
    history.served(&state(1), later, None).unwrap();
    history.served(&none, later, None).unwrap_err();
    history
        .served(&none, Instant::now(), Some(Duration::from_secs(8)))
        .unwrap_err();
    history
        .served(&none, later, Some(Duration::from_secs(8)))
        .unwrap();
    history.served(&state(2), later, None).unwrap_err();
    history.served(&state(4), later, None).unwrap_err();
    assert!(!history.is_served_by(&none, None));
    history.served(&state(3), later, None).unwrap();
    assert!(history.is_served_by(&state(3), None));
}

#[test]
fn what_stays_registered_is_never_missing_however_changes_are_told() {
    let state = |all: &[&str]| -> State { all.iter().map(|a| ((*a).to_owned(), 1)).collect() };
    for (blurred, is_told) in [(Duration::ZERO, false), (Duration::from_secs(1), true)] {
        let mut history = History::new(state(&["a", "c"]), blurred);
        history.becomes(state(&["a", "b", "c"]));
        history.becomes(state(&["a", "b"]));
        let now = Instant::now();
        assert_eq!(history.served(&state(&["a"]), now, None).is_ok(), is_told);
        history.served(&state(&["b"]), now, None).unwrap_err();
        history.served(&state(&["a", "d"]), now, None).unwrap_err();
    }
}
