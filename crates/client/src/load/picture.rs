//! A run as a picture (SVG): how latencies are distributed, and what the server used over time.

use std::fmt::Write as _;
use std::time::Duration;

use super::run::ScenarioResult;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 240.0;
const LEFT: f64 = 60.0;
const COLOURS: [&str; 6] = [
    "#0b5cad", "#b5541c", "#2f7d32", "#7b3fa0", "#8a6d00", "#a0284b",
];

/// A chart: where it lies and what its axes mean.
struct Chart {
    top: f64,
    x: f64,
    y: f64,
}

impl Chart {
    fn at(&self, x: f64, y: f64) -> (f64, f64) {
        let across = LEFT + x / self.x.max(f64::MIN_POSITIVE) * (WIDTH - LEFT - 20.0);
        let down = self.top + HEIGHT - y / self.y.max(f64::MIN_POSITIVE) * HEIGHT;
        (across, down)
    }

    fn frame(&self, title: &str, x: &str, y: &str, svg: &mut String) {
        let (left, bottom) = self.at(0.0, 0.0);
        let (right, top) = self.at(self.x, self.y);
        let _ = writeln!(
            svg,
            "<text x=\"{left}\" y=\"{}\" class=\"t\">{title}</text>\
             <path d=\"M{left} {top}V{bottom}H{right}\" class=\"a\"/>",
            top - 10.0
        );
        for part in 0..=4 {
            let part = f64::from(part) / 4.0;
            let (x_at, _) = self.at(self.x * part, 0.0);
            let (_, y_at) = self.at(0.0, self.y * part);
            let _ = writeln!(
                svg,
                "<text x=\"{x_at}\" y=\"{}\" text-anchor=\"middle\">{}</text>\
                 <text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\
                 <path d=\"M{left} {y_at}H{right}\" class=\"g\"/>",
                bottom + 18.0,
                number(self.x * part),
                left - 6.0,
                y_at + 4.0,
                number(self.y * part)
            );
        }
        let _ = writeln!(
            svg,
            "<text x=\"{right}\" y=\"{}\" text-anchor=\"end\">{x}</text><text x=\"{}\" y=\"{}\">{y}</text>",
            bottom + 34.0,
            left + 6.0,
            top + 12.0
        );
    }

    fn line(&self, points: impl Iterator<Item = (f64, f64)>, colour: &str, svg: &mut String) {
        let mut path = String::new();
        for (x, y) in points {
            let (x, y) = self.at(x, y);
            let _ = write!(
                path,
                "{}{x:.1} {y:.1}",
                if path.is_empty() { "M" } else { "L" }
            );
        }
        let _ = writeln!(
            svg,
            "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.6\"/>"
        );
    }
}

fn number(value: f64) -> String {
    if value >= 10.0 || value == value.trunc() {
        format!("{value:.0}")
    } else {
        format!("{value:.1}")
    }
}

/// Draws a run.
pub(super) fn draw(result: &ScenarioResult) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} 980\" font-family=\"system-ui,sans-serif\" font-size=\"12\">\
         <style>text{{fill:#1d2733}}.t{{font-size:15px;font-weight:600}}.a{{stroke:#5b6673;fill:none}}.g{{stroke:#e3e8ee;fill:none}}</style>\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    latencies(result, &mut svg);
    let end = result.samples.last().map_or(1.0, |s| s.at_s);
    let rates: Vec<(f64, f64)> = result
        .samples
        .windows(2)
        .map(|pair| {
            let seconds = (pair[1].at_s - pair[0].at_s).max(f64::MIN_POSITIVE);
            let share = (pair[1].usage.cpu_s - pair[0].usage.cpu_s) / seconds * 100.0;
            (pair[1].at_s, share)
        })
        .collect();
    let chart = Chart {
        top: 360.0,
        x: end,
        y: rates.iter().map(|(_, y)| *y).fold(100.0, f64::max),
    };
    chart.frame("Processor time of the server", "s", "% of a core", &mut svg);
    steps(result, &chart, &mut svg);
    chart.line(rates.into_iter(), COLOURS[0], &mut svg);
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    let memory: Vec<(f64, f64)> = result
        .samples
        .iter()
        .map(|s| (s.at_s, megabytes(s.usage.rss_bytes)))
        .collect();
    let chart = Chart {
        top: 680.0,
        x: end,
        y: memory.iter().map(|(_, y)| *y * 1.1).fold(10.0, f64::max),
    };
    chart.frame("Resident memory of the server", "s", "MB", &mut svg);
    steps(result, &chart, &mut svg);
    chart.line(memory.into_iter(), COLOURS[0], &mut svg);
    svg += "</svg>\n";
    svg
}

/// For each step the part of proxies that have a change after so many milliseconds.
fn latencies(result: &ScenarioResult, svg: &mut String) {
    let shown: Vec<(&str, Vec<f64>)> = result
        .steps
        .iter()
        .filter(|s| !s.times.is_empty() && s.label != "reconnect")
        .map(|s| {
            let mut times: Vec<f64> = s
                .times
                .iter()
                .map(Duration::as_secs_f64)
                .map(|t| t * 1e3)
                .collect();
            times.sort_by(f64::total_cmp);
            (&*s.label, times)
        })
        .collect();
    let longest = shown
        .iter()
        .filter_map(|(_, t)| t.last())
        .fold(1.0_f64, |a, b| a.max(*b));
    let chart = Chart {
        top: 40.0,
        x: longest,
        y: 100.0,
    };
    chart.frame(
        "From a change to each proxy's last response",
        "ms",
        "% of proxies",
        svg,
    );
    for (at, (label, times)) in shown.iter().enumerate() {
        let colour = COLOURS[at % COLOURS.len()];
        let points = (0..=200).filter_map(|part| {
            let rank = part * (times.len() - 1) / 200;
            Some((*times.get(rank)?, part as f64 / 2.0))
        });
        chart.line(points, colour, svg);
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\" style=\"fill:{colour}\">{label}</text>",
            WIDTH - 26.0,
            chart.top + HEIGHT - 12.0 - 16.0 * at as f64
        );
    }
}

/// Marks where steps begin.
fn steps(result: &ScenarioResult, chart: &Chart, svg: &mut String) {
    for (at, step) in result.steps.iter().enumerate() {
        let (x, bottom) = chart.at(step.at_s, 0.0);
        let _ = writeln!(
            svg,
            "<path d=\"M{x} {}V{bottom}\" stroke=\"#b8c2cc\" stroke-dasharray=\"3 3\"/><text x=\"{}\" y=\"{}\">{}</text>",
            chart.top,
            x + 3.0,
            chart.top + 12.0 + 14.0 * (at % 3) as f64,
            step.label
        );
    }
}
