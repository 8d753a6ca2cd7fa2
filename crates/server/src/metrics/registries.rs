//! Metrics of registries outside of Kubernetes, by registry.

use prometheus::{GaugeVec, Opts, Registry};

/// Metrics of registries.
pub struct Registries {
    connected: GaugeVec,
    services: GaugeVec,
    instances: GaugeVec,
    kept: GaugeVec,
    left_out: GaugeVec,
    age: GaugeVec,
    lag: GaugeVec,
    failures: GaugeVec,
}

impl Registries {
    pub(super) fn new(registry: &Registry) -> prometheus::Result<Self> {
        let gauges = |name: &str, help: &str| {
            let name = format!("pilothouse_registry_{name}");
            let gauge = GaugeVec::new(Opts::new(name, help), &["registry"])?;
            registry.register(Box::new(gauge.clone()))?;
            Ok::<_, prometheus::Error>(gauge)
        };
        Ok(Self {
            connected: gauges("connected", "1 while the registry answers, else 0.")?,
            services: gauges("services", "Services of the registry.")?,
            instances: gauges("instances", "Instances of services that get requests.")?,
            kept: gauges(
                "kept_services",
                "Services that keep their last endpoints although the registry lists none.",
            )?,
            left_out: gauges(
                "left_out_services",
                "Services that are left out, for their names or a limit.",
            )?,
            age: gauges("age_seconds", "Seconds since the registry last answered.")?,
            lag: gauges(
                "lag_seconds",
                "How long it took until the latest reports were handed on.",
            )?,
            failures: gauges("failures", "How often the registry was lost.")?,
        })
    }

    /// Takes in how each registry is.
    pub fn set(&self, registries: &crate::registries::Registries) {
        let all = [
            &self.connected,
            &self.services,
            &self.instances,
            &self.kept,
            &self.left_out,
            &self.age,
            &self.lag,
            &self.failures,
        ];
        all.iter().for_each(|gauge| gauge.reset());
        for (key, known) in registries.known.iter() {
            let (health, key) = (known.state.get(), key.to_string());
            let set = |gauge: &GaugeVec, value: f64| gauge.with_label_values(&[&key]).set(value);
            set(&self.connected, f64::from(u8::from(health.connected)));
            set(&self.services, health.figures.services as f64);
            set(&self.instances, health.figures.instances as f64);
            set(&self.kept, health.figures.kept as f64);
            set(&self.left_out, health.figures.left_out as f64);
            set(&self.lag, health.lag.as_secs_f64());
            set(&self.failures, health.failures as f64);
            if let Some(answered) = health.answered {
                set(&self.age, answered.elapsed().as_secs_f64());
            }
        }
    }
}
