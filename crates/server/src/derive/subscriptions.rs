//! Which proxy belongs to which view, and what is derived for it because of that.
//!
//! Until the sources have been read, proxies are held: they get what they are known to have had, and no view, so that
//! nothing is derived from half of a configuration.

use std::net::IpAddr;
use std::sync::Arc;

use ads::latest;
use mesh::view::ProxyKey;
use model::node::Node;
use xds::{Published, TypeUrl, Types};
use xlate::View;
use xlate::ViewOf;

use super::ProxyId;
use super::state::{FindingsEntry, Proxy, Root, SetEntry, State};
use crate::analysis::Seen;

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
                viewed: None,
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
        if let Some(view) = proxy.viewed.as_ref().map(|v| v.view.clone()) {
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
        if let Some(viewed) = &proxy.viewed {
            (self.on_proxy)(&viewed.view.namespace, &viewed.labels, Seen::Left);
            self.leave_view(id, &viewed.view, proxy.types);
        }
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
        let Some(viewed) = self.pull(&snapshot, &key) else {
            return;
        };
        let Some(proxy) = self.proxies.get_mut(&id) else {
            return;
        };
        if proxy.viewed.as_ref() == Some(&viewed) {
            return;
        }
        (self.on_proxy)(&viewed.view.namespace, &viewed.labels, Seen::Came);
        let former = proxy.viewed.replace(viewed.clone());
        let types = proxy.types;
        if let Some(former) = former {
            (self.on_proxy)(&former.view.namespace, &former.labels, Seen::Left);
            if former.view == viewed.view {
                return;
            }
            self.leave_view(id, &former.view, types);
        }
        let view = &viewed.view;
        let entry = self.views.entry(Arc::clone(view)).or_default();
        entry.proxies.insert(id);
        entry.joined_or_left += 1;
        if let Some(proxy) = self.proxies.get_mut(&id) {
            self.from_disk -= proxy.tell(&entry.published, &mut self.batch);
        }
        for ty in types.iter() {
            self.join_type(view, ty);
        }
    }

    fn join_type(&mut self, view: &Arc<View>, ty: TypeUrl) {
        let Some(entry) = self.views.get_mut(view) else {
            return;
        };
        if !std::mem::replace(&mut entry.told, true) {
            let (engine, roots, of) = (&mut self.engine, &mut self.roots, view.findings());
            let findings = self.findings_of.entry(of.clone()).or_insert_with(|| {
                let root = engine.root(&of);
                roots.insert(root, Root::Findings(of));
                FindingsEntry {
                    root,
                    views: 0,
                    findings: None,
                }
            });
            findings.views += 1;
        }
        let wanted = &mut entry.types[ty];
        *wanted += 1;
        if *wanted > 1 {
            return;
        }
        self.join_wants(view, ty);
        let (engine, roots, query) = (&mut self.engine, &mut self.roots, view.set(ty));
        let set = self.sets.entry(query.clone()).or_insert_with(|| {
            let root = engine.root(&query);
            roots.insert(root, Root::Set(query));
            SetEntry {
                root,
                views: Default::default(),
                set: None,
            }
        });
        set.views.insert(view.clone());
        self.joined.push((view.clone(), ty));
    }

    fn leave_view(&mut self, id: ProxyId, view: &Arc<View>, types: Types) {
        let Some(entry) = self.views.get_mut(view) else {
            return;
        };
        entry.proxies.remove(&id);
        entry.joined_or_left += 1;
        let mut unwanted = Vec::new();
        for ty in types.iter() {
            let wanted = &mut entry.types[ty];
            *wanted -= 1;
            if *wanted == 0 {
                unwanted.push(ty);
            }
        }
        let (empty, told) = (entry.proxies.is_empty(), entry.told);
        for ty in unwanted {
            self.leave_set(view, ty);
            self.leave_wants(view, ty);
        }
        if empty {
            if told {
                self.leave_findings(view);
            }
            self.views.remove(view);
        }
    }

    fn leave_set(&mut self, view: &Arc<View>, ty: TypeUrl) {
        let query = view.set(ty);
        let Some(set) = self.sets.get_mut(&query) else {
            return;
        };
        set.views.remove(view);
        if set.views.is_empty() {
            self.roots.remove(&set.root);
            self.engine.release(set.root);
            self.sets.remove(&query);
        }
    }

    fn leave_findings(&mut self, view: &View) {
        let of = view.findings();
        let Some(entry) = self.findings_of.get_mut(&of) else {
            return;
        };
        entry.views -= 1;
        if entry.views == 0 {
            self.roots.remove(&entry.root);
            self.engine.release(entry.root);
            self.found.replace(entry.findings.as_ref(), None);
            self.findings_of.remove(&of);
        }
    }
}
