//! Instances that are registered, drained and removed, as clients of each registry do it.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::server::{Kind, Server, address};
use crate::nacos::escaped;

/// An instance of a service, by their numbers, and where it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) service: usize,
    pub(crate) instance: u64,
    pub(crate) at: SocketAddr,
}

impl Place {
    /// One that nobody asks, and which need not be there.
    fn nowhere(service: usize, instance: u64) -> Self {
        let address = address(service, instance).parse().expect("an address");
        Self {
            service,
            instance,
            at: SocketAddr::new(address, 80),
        }
    }

    /// As a node of Dubbo's below `/dubbo`.
    fn provider(&self) -> String {
        let Self { service, at, .. } = self;
        let (ip, port) = (at.ip(), at.port());
        format!(
            "/dubbo/com.acme.S{service}/providers/dubbo%3A%2F%2F{ip}%3A{port}%2Fcom.acme.S{service}%3Fversion%3D1%26v%3D1"
        )
    }

    /// As a node of Spring Cloud's below `/services`: its path and content.
    fn discovered(&self, version: u32, status: &str) -> (String, String) {
        let metadata = json!({"v": version.to_string(), "instance_status": status});
        let content = json!({"address": self.at.ip(), "port": self.at.port(), "payload": {"metadata": metadata}});
        let path = format!("/services/s{}/{}", self.service, self.instance);
        (path, content.to_string())
    }

    /// As Nacos is asked about it, with its metadata.
    fn nacos(&self, version: u32, more: &str) -> String {
        let metadata = json!({"v": version.to_string(), "preserved.heart.beat.timeout": "900000",
            "preserved.ip.delete.timeout": "900000"});
        let (ip, port) = (self.at.ip(), self.at.port());
        let metadata = metadata.to_string();
        let metadata = escaped(&metadata);
        let service = self.service;
        format!(
            "/nacos/v1/ns/instance?serviceName=s{service}&ip={ip}&port={port}&ephemeral=true&metadata={metadata}{more}"
        )
    }

    /// As a Consul registers it on its only node.
    fn consul(&self, version: u32) -> Value {
        let Self {
            service, instance, ..
        } = self;
        json!({"Node": "n", "Address": "127.0.0.1", "SkipNodeUpdate": true, "Service": {
            "ID": format!("s{service}-{instance}"), "Service": format!("s{service}"), "Address": self.at.ip(),
            "Port": self.at.port(), "Meta": {"v": version.to_string()},
        }})
    }

    fn eureka(&self, version: u32, stamp: u64) -> Value {
        let ip = self.at.ip();
        json!({"instance": {
            "instanceId": ip, "hostName": ip, "app": format!("S{}", self.service), "ipAddr": ip, "status": "UP",
            "port": {"$": self.at.port(), "@enabled": "true"}, "metadata": {"v": version.to_string()},
            "dataCenterInfo": {"@class": "com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo", "name": "MyOwn"},
            "leaseInfo": {"durationInSecs": 90_000}, "lastDirtyTimestamp": stamp.to_string(),
        }})
    }
}

impl Server {
    /// Registers an instance that nobody asks, or changes it.
    pub(super) async fn put(&mut self, service: usize, instance: u64, version: u32) {
        self.register(&Place::nowhere(service, instance), version)
            .await;
    }

    /// Takes away an instance that nobody asks.
    pub(super) async fn take(&mut self, service: usize, instance: u64) {
        self.remove(&Place::nowhere(service, instance)).await;
    }

    /// Registers an instance, or changes it.
    pub(crate) async fn register(&mut self, place: &Place, version: u32) {
        let service = place.service;
        match self.kind {
            Kind::Consul | Kind::ConsulTls => {
                let body = place.consul(version).to_string();
                self.must("PUT", "/v1/catalog/register", &body).await;
            }
            Kind::ZooKeeper if service == 0 => {
                self.writes().await.create(&place.provider(), "", 0).await;
            }
            Kind::ZooKeeper => {
                let (path, content) = place.discovered(version, "UP");
                let writes = self.writes().await;
                writes.create(&format!("/services/s{service}"), "", 0).await;
                writes.create(&path, &content, 0).await;
                writes.set(&path, &content).await;
            }
            Kind::Nacos => self.must("POST", &place.nacos(version, ""), "").await,
            Kind::Eureka => {
                self.stamp += 1;
                let body = place.eureka(version, self.stamp).to_string();
                let path = format!("/eureka/apps/S{service}");
                self.must("POST", &path, &body).await;
            }
            Kind::StandIn => {
                let stand_in = self.stand_in.as_ref().expect("it is within this process");
                stand_in.put(service, place.at.ip().to_string(), version);
            }
        }
    }

    /// Lets an instance have no more requests, though it stays registered. One of Dubbo cannot be.
    pub(crate) async fn drain(&mut self, place: &Place, version: u32) {
        let service = place.service;
        match self.kind {
            Kind::Consul | Kind::ConsulTls => self.check(place, version, "critical").await,
            Kind::ZooKeeper => {
                let (path, content) = place.discovered(version, "OUT_OF_SERVICE");
                self.writes().await.set(&path, &content).await;
            }
            Kind::Nacos => {
                let path = place.nacos(version, "&enabled=false");
                self.must("PUT", &path, "").await;
            }
            Kind::Eureka => {
                let ip = place.at.ip();
                let path = format!("/eureka/apps/S{service}/{ip}/status?value=OUT_OF_SERVICE");
                self.must("PUT", &path, "").await;
            }
            Kind::StandIn => unreachable!("it knows no health"),
        }
    }

    /// Registers an instance in a Consul with a check.
    async fn check(&self, place: &Place, version: u32, status: &str) {
        let mut body = place.consul(version);
        body["Check"] = json!({"Node": "n", "CheckID": format!("alive:{}", place.instance), "Name": "alive",
            "ServiceID": body["Service"]["ID"], "Status": status});
        let body = body.to_string();
        self.must("PUT", "/v1/catalog/register", &body).await;
    }

    /// Lets a drained instance have requests again. To some registries it stays drained when it is registered anew.
    pub(crate) async fn resume(&mut self, place: &Place, version: u32) {
        match self.kind {
            Kind::Nacos => {
                let path = place.nacos(version, "&enabled=true");
                self.must("PUT", &path, "").await;
            }
            Kind::Consul | Kind::ConsulTls => self.check(place, version, "passing").await,
            Kind::Eureka => {
                let (service, ip) = (place.service, place.at.ip());
                let path = format!("/eureka/apps/S{service}/{ip}/status?value=UP");
                self.must("DELETE", &path, "").await;
            }
            _ => self.register(place, version).await,
        }
    }

    /// Takes an instance away.
    pub(crate) async fn remove(&mut self, place: &Place) {
        let Place {
            service,
            instance,
            at,
        } = *place;
        let (ip, port) = (at.ip(), at.port());
        match self.kind {
            Kind::Consul | Kind::ConsulTls => {
                let body = json!({"Node": "n", "ServiceID": format!("s{service}-{instance}")});
                let body = body.to_string();
                self.must("PUT", "/v1/catalog/deregister", &body).await;
            }
            Kind::ZooKeeper if service == 0 => {
                self.writes().await.delete(&place.provider()).await;
            }
            Kind::ZooKeeper => {
                let (path, _) = place.discovered(0, "");
                self.writes().await.delete(&path).await;
            }
            Kind::Nacos => {
                let path = format!(
                    "/nacos/v1/ns/instance?serviceName=s{service}&ip={ip}&port={port}&ephemeral=true"
                );
                self.must("DELETE", &path, "").await;
            }
            Kind::Eureka => {
                let path = format!("/eureka/apps/S{service}/{ip}");
                self.must("DELETE", &path, "").await;
            }
            Kind::StandIn => {
                let stand_in = self.stand_in.as_ref().expect("it is within this process");
                stand_in.remove(service, &ip.to_string());
            }
        }
    }
}
