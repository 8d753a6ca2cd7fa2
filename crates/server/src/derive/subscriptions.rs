//! Which proxy belongs to which view, and what is derived for it because of that.
//!
//! Until the sources have been read, proxies are held: they get what they are known to have had, and no view, so that
//! nothing is derived from half of a configuration.

use std::net::IpAddr;
use std::sync::Arc;

use ads::latest;
use mesh::view::ProxyKey;
use mesh::view::View;
use model::node::Node;
use policy::proxy::ViewOf;
use xds::{Published, TypeUrl, Types};
use xlate::TypeSet;
use xlate::findings::FindingsOfView;

use super::ProxyId;
use crate::analysis::Seen;

use super::state::{Proxy, Root, State};

/// Whether anything was derived, be it that there is nothing.
pub(crate) fn has_sets(published: &Published) -> bool {
    TypeUrl::ALL.iter().any(|ty| published.get(*ty).is_some())
}

impl State {
    /// Proxies that come from here on are held.
    pub(super) fn hold(&mut self) {
        self.holds = true;
    }

    /// No proxy is held that comes from here on; returns those that are, for [`State::settle`].
    pub(super) fn let_go(&mut self) -> Vec<ProxyId> {
        self.holds = false;
        let held = self.proxies.iter().filter(|(_, p)| p.root.is_none());
        held.map(|(id, _)| *id).collect()
    }

    /// Gives a held proxy its view. One at one place too many is let go for good: its stream ends, and is told why when it
    /// comes again.
    pub(super) fn settle(&mut self, id: ProxyId) {
        let Some(proxy) = self.proxies.get_mut(&id).filter(|p| p.root.is_none()) else {
            return;
        };
        let snapshot = self.store.snapshot();
        if self.origins.confirm(&proxy.origin, &snapshot).is_err() {
            return self.leave(id);
        }
        let root = self.engine.root(&ViewOf(proxy.key.clone()));
        proxy.root = Some(root);
        match self
            .roots
            .entry(root)
            .or_insert_with(|| Root::Proxy(Vec::new()))
        {
            Root::Proxy(ids) => ids.push(id),
            _ => unreachable!("a root of ViewOf is that of a proxy"),
        }
        self.place(id);
    }

    /// Introduces a proxy that comes from an address; `had` is what it had before the start, if that is known.
    ///
    /// # Errors
    ///
    /// The words for its operator, when it is at one place too many.
    pub(super) fn subscribe(
        &mut self,
        node: Arc<Node>,
        from: IpAddr,
        had: Option<Arc<Published>>,
    ) -> Result<(ProxyId, latest::Receiver<Arc<Published>>), String> {
        let snapshot = self.store.snapshot();
        let origin = self.origins.enter(&node, from, self.holds, &snapshot)?;
        let id = ProxyId(self.next_proxy);
        self.next_proxy += 1;
        let had = had.filter(|_| self.holds);
        self.from_disk += usize::from(had.is_some());
        let from_disk = had.is_some();
        let sender = latest::Sender::new(had.unwrap_or_else(|| Arc::new(Published::new(0))));
        let published = sender.subscribe();
        self.proxies.insert(
            id,
            Proxy {
                key: ProxyKey::new(node),
                origin,
                root: None,
                view: None,
                types: Types::NONE,
                from_disk,
                sender,
            },
        );
        if !self.holds {
            self.settle(id);
        }
        Ok((id, published))
    }

    pub(super) fn want(&mut self, id: ProxyId, ty: TypeUrl) {
        let Some(proxy) = self.proxies.get_mut(&id) else {
            return;
        };
        if !proxy.types.insert(ty) {
            return;
        }
        if let Some(view) = proxy.view.clone() {
            self.join_type(&view, ty);
            // A set that others of the view already have is there at once.
            if let (Some(entry), Some(proxy)) = (self.views.get(&view), self.proxies.get_mut(&id)) {
                self.from_disk -= proxy.tell(&entry.published, &mut self.batch);
            }
        }
    }

    pub(super) fn leave(&mut self, id: ProxyId) {
        let Some(proxy) = self.proxies.remove(&id) else {
            return;
        };
        self.from_disk -= usize::from(proxy.from_disk);
        self.origins.leave(&proxy.origin);
        self.leave_view(id, &proxy);
        let Some(root) = proxy.root else { return };
        if let Some(Root::Proxy(ids)) = self.roots.get_mut(&root) {
            ids.retain(|i| *i != id);
            if ids.is_empty() {
                self.roots.remove(&root);
            }
        }
        self.engine.release(root);
    }

    /// Puts a proxy into the view it belongs to.
    pub(super) fn place(&mut self, id: ProxyId) {
        let Some(proxy) = self.proxies.get(&id) else {
            return;
        };
        let snapshot = self.store.snapshot();
        let key = ViewOf(proxy.key.clone());
        let Some(view) = self.pull(&snapshot, &key) else {
            return;
        };
        let Some(proxy) = self.proxies.get(&id) else {
            return;
        };
        if proxy.view.as_ref() == Some(&*view) {
            return;
        }
        let Some(mut proxy) = self.proxies.remove(&id) else {
            return;
        };
        let types = proxy.types;
        self.leave_view(id, &proxy);
        let entry = self.views.entry(Arc::clone(&view)).or_default();
        if entry.proxies.is_empty() {
            (self.on_view)(&view, Seen::First);
        }
        entry.proxies.insert(id);
        entry.joined_or_left += 1;
        self.from_disk -= proxy.tell(&entry.published, &mut self.batch);
        self.proxies.insert(
            id,
            Proxy {
                view: Some(Arc::clone(&view)),
                ..proxy
            },
        );
        for ty in types.iter() {
            self.join_type(&view, ty);
        }
    }

    fn join_type(&mut self, view: &Arc<View>, ty: TypeUrl) {
        let Some(entry) = self.views.get_mut(view) else {
            return;
        };
        if entry.findings_root.is_none() {
            let root = self.engine.root(&FindingsOfView(view.clone()));
            entry.findings_root = Some(root);
            self.roots.insert(root, Root::Findings(view.clone()));
        }
        match &mut entry.types[ty] {
            Some((_, count)) => *count += 1,
            empty => {
                let root = self.engine.root(&TypeSet {
                    view: view.clone(),
                    ty,
                });
                *empty = Some((root, 1));
                self.roots.insert(root, Root::Set(view.clone(), ty));
                self.joined.push((view.clone(), ty));
            }
        }
    }

    fn leave_view(&mut self, id: ProxyId, proxy: &Proxy) {
        let Some(view) = &proxy.view else { return };
        let Some(entry) = self.views.get_mut(view) else {
            return;
        };
        entry.proxies.remove(&id);
        entry.joined_or_left += 1;
        for ty in proxy.types.iter() {
            let slot = &mut entry.types[ty];
            if let Some((root, count)) = slot {
                *count -= 1;
                if *count == 0 {
                    self.roots.remove(root);
                    self.engine.release(*root);
                    *slot = None;
                }
            }
        }
        if entry.proxies.is_empty() {
            if let Some(root) = entry.findings_root {
                self.roots.remove(&root);
                self.engine.release(root);
            }
            self.found.replace(entry.findings.as_ref(), None);
            self.views.remove(view);
            (self.on_view)(view, Seen::Last);
        }
    }
}
