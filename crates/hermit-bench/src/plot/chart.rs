//! One picture: lines with points over two axes.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

const SIZE: (u32, u32) = (900, 560);
const FONT: &str = "sans-serif";

/// One axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Axis {
    label: &'static str,
    is_log: bool,
}

impl Axis {
    pub(super) const fn log(label: &'static str) -> Self {
        Self { label, is_log: true }
    }

    pub(super) const fn linear(label: &'static str) -> Self {
        Self { label, is_log: false }
    }

    /// Room for all points: by factors of ten around them, or from nothing.
    fn range(self, values: impl Iterator<Item = f64>) -> std::ops::Range<f64> {
        let (least, most) =
            values.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| (least.min(value), most.max(value)));
        if self.is_log { 10_f64.powf(least.log10().floor())..10_f64.powf((most * 1.01).log10().ceil()) } else { 0.0..most * 1.2 }
    }
}

/// Points that belong together.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Line {
    pub(super) name: String,
    pub(super) points: Vec<(f64, f64)>,
}

/// A picture.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Chart {
    pub(super) file: &'static str,
    pub(super) title: &'static str,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) lines: Vec<Line>,
}

impl Chart {
    /// Writes it, if there is anything to be seen.
    pub(super) fn draw(&self, dir: &Path) -> Result<()> {
        let drawable = |point: &&(f64, f64)| point.0 > 0.0 && point.1 > 0.0;
        let lines =
            self.lines.iter().map(|line| Line { points: line.points.iter().filter(drawable).copied().collect(), ..line.clone() });
        let lines: Vec<_> = lines.filter(|line| !line.points.is_empty()).collect();
        if lines.is_empty() {
            return Ok(());
        }
        let points = || lines.iter().flat_map(|line| &line.points);
        let (x, y) = (self.x.range(points().map(|point| point.0)), self.y.range(points().map(|point| point.1)));
        let path = dir.join(self.file);
        match (self.x.is_log, self.y.is_log) {
            (true, true) => self.lines_over(&path, x.log_scale(), y.log_scale(), &lines),
            (true, false) => self.lines_over(&path, x.log_scale(), y, &lines),
            (false, true) => self.lines_over(&path, x, y.log_scale(), &lines),
            (false, false) => self.lines_over(&path, x, y, &lines),
        }
    }

    fn lines_over<X, Y>(&self, path: &Path, x: X, y: Y, lines: &[Line]) -> Result<()>
    where
        X: AsRangedCoord<Value = f64>,
        Y: AsRangedCoord<Value = f64>,
        X::CoordDescType: ValueFormatter<f64>,
        Y::CoordDescType: ValueFormatter<f64>,
    {
        // The errors of drawing borrow the picture; its text is all that is needed of them.
        let failed = |error: &dyn std::fmt::Display| anyhow!("{} cannot be drawn: {error}", path.display());
        let area = SVGBackend::new(path, SIZE).into_drawing_area();
        area.fill(&WHITE).map_err(|error| failed(&error))?;
        let mut chart = ChartBuilder::on(&area)
            .caption(self.title, (FONT, 20))
            .margin(14)
            .x_label_area_size(46)
            .y_label_area_size(76)
            .build_cartesian_2d(x, y)
            .map_err(|error| failed(&error))?;
        let label = |value: &f64| short(*value);
        let mut mesh = chart.configure_mesh();
        mesh.x_desc(self.x.label).y_desc(self.y.label).label_style((FONT, 14)).x_label_formatter(&label).y_label_formatter(&label);
        mesh.light_line_style(WHITE.mix(0.0)).draw().map_err(|error| failed(&error))?;
        for (number, line) in lines.iter().enumerate() {
            let color = Palette99::pick(number).to_rgba();
            let drawn = chart.draw_series(LineSeries::new(line.points.iter().copied(), color.stroke_width(2)).point_size(4));
            let drawn = drawn.map_err(|error| failed(&error))?;
            drawn.label(&line.name).legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(3)));
        }
        let mut legend = chart.configure_series_labels();
        legend
            .position(SeriesLabelPosition::LowerRight)
            .background_style(WHITE.mix(0.85))
            .border_style(BLACK.mix(0.4))
            .label_font((FONT, 14));
        legend.draw().map_err(|error| failed(&error))?;
        area.present().map_err(|error| failed(&error))
    }
}

/// A number on an axis.
fn short(value: f64) -> String {
    match value {
        _ if value >= 1e6 => format!("{} M", value / 1e6),
        _ if value >= 1e4 => format!("{} k", value / 1e3),
        _ => format!("{}", (value * 1000.0).round() / 1000.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: Vec<(f64, f64)>) -> Chart {
        let lines = vec![Line { name: "a line".into(), points }];
        Chart { file: "chart.svg", title: "title", x: Axis::log("x"), y: Axis::linear("y"), lines }
    }

    #[test]
    fn a_picture_names_its_lines_and_an_empty_one_is_not_made() {
        let dir = tempfile::tempdir().unwrap();
        chart(vec![(0.0, 1.0)]).draw(dir.path()).unwrap();
        assert!(!dir.path().join("chart.svg").exists());
        chart(vec![(1.0, 1.0), (1000.0, 50.0)]).draw(dir.path()).unwrap();
        let svg = std::fs::read_to_string(dir.path().join("chart.svg")).unwrap();
        assert!(svg.contains("a line") && svg.contains("title"), "{svg}");
    }
}
