//! The same against a real kube-apiserver that is killed, compacted, cut off and slowed down.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::time::{Duration, Instant};

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use kubeclients::draw::Draw;
use kubeclients::fake::{Id, RESOURCES, World};
use kubeclients::kubetest::{self, Kubetest};
use kubeclients::real::RealApi;
use kubeclients::wire::Wire;

use crate::observer::Observer;
use crate::schedule::{any_object, options};

/// After this, a connection on which nothing comes is taken for dead.
const SILENCE: Duration = Duration::from_secs(2);

/// Everything is as it should be within this once nothing is wrong any more.
const PATIENCE: Duration = Duration::from_secs(60);

/// A real API server that dies and comes back at its address.
struct Real {
    options: kubetest::Options,
    process: Option<Kubetest>,
    api: RealApi,
    world: World,
    draw: Draw,
}

impl Real {
    async fn start(dir: &Path) -> Self {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut options = kubetest::Options::new(dir.join("api"));
        options.port = taken.local_addr().unwrap().port();
        drop(taken);
        options.ephemeral = false;
        options.flags = vec!["--etcd-compaction-interval=2s".into()];
        let process = options.start().unwrap();
        let mut api = RealApi::connect(&options.kubeconfig()).await.unwrap();
        let world = World::new(true);
        let definitions = RESOURCES.iter().filter(|r| r.custom).map(|r| {
            let id = Id::new(
                "CustomResourceDefinition",
                "",
                &format!("{}.{}", r.plural, r.group),
            );
            world.object(&id).unwrap().clone()
        });
        let definitions: Vec<_> = definitions.collect();
        api.define(&definitions).await.unwrap();
        for namespace in ["default", "istio-system"] {
            let object = world.object(&Id::new("Namespace", "", namespace)).unwrap();
            api.write(object).await.unwrap();
        }
        Self {
            options,
            process: Some(process),
            api,
            world,
            draw: Draw(16),
        }
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.options.port))
    }

    async fn client(&self, through: &Wire) -> Client {
        let file = Kubeconfig::read_from(self.options.kubeconfig()).unwrap();
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(file, &options).await;
        let mut config = config.unwrap();
        config.cluster_url = format!("https://{}", through.address()).parse().unwrap();
        config.default_retry = false;
        config.connect_timeout = Some(SILENCE);
        config.read_timeout = Some(SILENCE);
        config.reset_reader_on_write = true;
        Client::try_from(config).unwrap()
    }

    /// What happens is known before the API does it: whoever watches may see it before we are told.
    async fn change(&mut self, times: u64) {
        for _ in 0..times {
            let id = any_object(&mut self.draw);
            if self.draw.once_in(3) {
                let Some(object) = self.world.object(&id).cloned() else {
                    continue;
                };
                self.world.delete(&id);
                self.api.delete(&object).await.unwrap();
            } else {
                self.world.put(&id);
                self.api
                    .write(self.world.object(&id).unwrap())
                    .await
                    .unwrap();
            }
        }
    }

    fn kill(&mut self) {
        self.process.take().unwrap().kill().unwrap();
    }

    async fn come_back(&mut self) {
        let options = self.options.clone();
        let started = tokio::task::spawn_blocking(move || options.start());
        self.process = Some(started.await.unwrap().unwrap());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_real_api_server_is_killed_compacted_and_cut_off() {
    if kubetest::program_or_skip("a_real_api_server_is_killed_compacted_and_cut_off").is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut real = Real::start(dir.path()).await;
    real.change(40).await;
    let wire = Wire::to(real.address()).await;
    let mut observer = Observer::start(real.client(&wire).await, options());
    observer.strangers_are_welcome();
    let start = Instant::now();
    settle(&real, &mut observer, "the start").await;
    for round in 0..12 {
        real.change(6).await;
        let what = match round % 6 {
            0 => {
                real.kill();
                observe(&real, &mut observer, Duration::from_millis(300)).await;
                real.come_back().await;
                "it was killed"
            }
            1 => {
                wire.swallow(true);
                real.change(6).await;
                observe(&real, &mut observer, Duration::from_secs(1)).await;
                wire.swallow(false);
                "it was cut off"
            }
            2 => {
                wire.slow(Duration::from_millis(50));
                wire.reset();
                real.change(6).await;
                observe(&real, &mut observer, Duration::from_secs(1)).await;
                wire.slow(Duration::ZERO);
                "it was slow"
            }
            3 => {
                // What happened while we were cut off is compacted, and the memory of the API server is gone.
                wire.swallow(true);
                real.change(30).await;
                tokio::time::sleep(Duration::from_secs(5)).await;
                real.kill();
                real.come_back().await;
                wire.swallow(false);
                "it was killed while we were cut off"
            }
            4 => {
                for _ in 0..20 {
                    wire.reset();
                    real.change(1).await;
                    observe(&real, &mut observer, Duration::from_millis(20)).await;
                }
                "connections were reset"
            }
            _ => {
                real.change(100).await;
                "much changed"
            }
        };
        settle(&real, &mut observer, what).await;
    }
    println!("12 faults of a real API server in {:?}", start.elapsed());
    drop(observer);
    real.kill();
}

async fn observe(real: &Real, observer: &mut Observer, time: Duration) {
    let until = tokio::time::Instant::now() + time;
    while let Ok(told) = tokio::time::timeout_at(until, observer.next(|| &real.world)).await {
        told.unwrap();
    }
}

/// Waits until everything is as the API has it.
async fn settle(real: &Real, observer: &mut Observer, after: &str) {
    let start = Instant::now();
    loop {
        observe(real, observer, Duration::from_millis(20)).await;
        let differences = observer.differences(&real.world);
        if differences.is_empty() {
            println!("whole {:?} after {after}", start.elapsed());
            return;
        }
        assert!(
            start.elapsed() < PATIENCE,
            "{PATIENCE:?} after {after}: {}",
            differences.join(", ")
        );
    }
}
