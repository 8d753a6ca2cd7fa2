//! Memory that clients make the server hold beyond what they share: one budget for all, of which an address may use as much
//! as it leaves to others.
//!
//! It is a counter for all and one for each address. What is charged is given back when it is dropped.

use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use foldhash::HashMap;

use crate::status::{Code, Status};

/// Accounts above which those that nobody has any more are forgotten.
const ACCOUNTS: usize = 4096;

/// The budget of a server, in bytes.
#[derive(Debug)]
pub struct Budget {
    limit: usize,
    used: AtomicUsize,
    accounts: Mutex<Accounts>,
}

#[derive(Debug, Default)]
struct Accounts {
    by: HashMap<IpAddr, Weak<Account>>,
    /// Accounts at which those that are gone are looked for.
    limit: usize,
}

/// What the streams of one address use.
#[derive(Debug)]
pub struct Account {
    budget: Arc<Budget>,
    used: AtomicUsize,
}

/// Bytes that are used until this is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    account: Arc<Account>,
    bytes: usize,
}

impl Budget {
    /// So many bytes.
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            limit,
            used: AtomicUsize::new(0),
            accounts: Mutex::default(),
        })
    }

    /// The account of an address.
    pub fn account(self: &Arc<Self>, address: IpAddr) -> Arc<Account> {
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = accounts.by.get(&address).and_then(Weak::upgrade) {
            return known;
        }
        let account = Arc::new(Account {
            budget: Arc::clone(self),
            used: AtomicUsize::new(0),
        });
        if accounts.by.len() >= accounts.limit.max(ACCOUNTS) {
            accounts.by.retain(|_, account| account.strong_count() > 0);
            accounts.limit = 2 * accounts.by.len();
        }
        accounts.by.insert(address, Arc::downgrade(&account));
        account
    }

    /// Bytes that are used.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

impl Account {
    /// Uses so many bytes.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED`, when the address would use more than it leaves to others.
    pub(crate) fn charge(self: &Arc<Self>, bytes: usize) -> Result<Charge, Status> {
        let all = self.budget.used.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let own = self.used.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let charge = Charge {
            account: Arc::clone(self),
            bytes,
        };
        if all.saturating_add(own) <= self.budget.limit.saturating_add(bytes) {
            return Ok(charge);
        }
        let message = format!(
            "the server holds {all} bytes of resource names, {own} of them for this address; the limit is {}",
            self.budget.limit
        );
        Err(Status::new(Code::ResourceExhausted, message))
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.used.fetch_sub(self.bytes, Ordering::Relaxed);
        let budget = &self.account.budget;
        budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_uses_no_more_than_it_leaves_to_others() {
        let budget = Budget::new(1000);
        let of = |last: u8| budget.account([10, 0, 0, last].into());
        let fill = |account: &Arc<Account>| {
            let charges = std::iter::from_fn(|| account.charge(10).ok());
            charges.collect::<Vec<_>>()
        };
        let (one, other) = (of(1), of(2));
        let first = fill(&one);
        assert_eq!(budget.used(), 500);
        let refused = one.charge(10).unwrap_err();
        assert_eq!(refused.code, Code::ResourceExhausted);
        let second = fill(&other);
        assert_eq!(budget.used(), 750);
        // The account is that of the address, whoever has it.
        assert!(of(1).charge(10).is_err());
        drop((first, second));
        assert_eq!(budget.used(), 0);
        assert_eq!(fill(&one).len(), 50);
    }

    #[test]
    fn accounts_that_nobody_has_are_forgotten() {
        let budget = Budget::new(1000);
        for n in 0..50_000u32 {
            budget.account(IpAddr::V4(n.into()));
        }
        let known = budget.accounts.lock().unwrap().by.len();
        assert!(known <= ACCOUNTS, "{known}");
    }
}
