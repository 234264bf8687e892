"use strict";
// Draws the page's charts and sorts its tables. All numbers are in the page's tables too, so that it reads well without this.
document.documentElement.classList.add("script");
for (const details of document.querySelectorAll("figure details")) details.open = false;

const charts = JSON.parse(document.getElementById("charts").textContent);
const style = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const faded = (colour, share) => colour + Math.round(255 * share).toString(16).padStart(2, "0");
const digits = value => Number(value.toPrecision(value < 1000 ? 3 : 4)).toLocaleString("en", {maximumSignificantDigits: 4});

function scaled(value, units) {
  let unit = units.find(u => Math.abs(value) < u[2]) || units[units.length - 1];
  return digits(value / unit[1]) + " " + unit[0];
}
const formats = {
  "bytes": v => scaled(v, [["B", 1, 1024], ["KiB", 1024, 2 ** 20], ["MiB", 2 ** 20, 2 ** 30], ["GiB", 2 ** 30, Infinity]]),
  "s": v => v === 0 ? "0" : scaled(v, [["ns", 1e-9, 1e-6], ["µs", 1e-6, 1e-3], ["ms", 1e-3, 1], ["s", 1, 60], ["min", 60, 3600], ["h", 3600, 86400],
    ["d", 86400, Infinity]]),
  "USD": v => "$" + digits(v),
  "GB/s": v => digits(v) + " GB/s",
  "samples/s": v => digits(v) + "/s",
  "": digits
};
const format = axis => formats[axis.unit] || digits;

// Times that people count in, from a nanosecond to years.
const clockMarks = [1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1].flatMap(d => [d, 2 * d, 5 * d]).concat(
  [1, 2, 5, 10, 20, 30], [1, 2, 5, 10, 20, 30].map(m => 60 * m), [1, 2, 3, 6, 12].map(h => 3600 * h),
  [1, 2, 4, 7, 14, 30, 60, 120, 365, 730, 3650].map(d => 86400 * d));
const everyNth = (marks, most) => marks.filter((_, i) => (marks.length - 1 - i) % Math.ceil(marks.length / most) === 0);

// Where lines stand on an axis: at each size that was asked for, at powers of two of bytes, else at decades and parts of them.
function marksOf(axis, values) {
  const all = [...new Set(values)].sort((a, b) => a - b), least = all[0], most = all[all.length - 1];
  if (axis.title === "nodes" && all.length <= 10) return all;
  if (axis.unit === "s") return everyNth(clockMarks.filter(v => v >= least / 1.2 && v <= most * 1.2), 8);
  if (axis.unit === "bytes" || axis.title === "nodes") {
    const low = Math.ceil(Math.log2(least)), high = Math.floor(Math.log2(most)), step = Math.max(1, Math.ceil((high - low) / 9));
    return Array.from({length: Math.floor((high - low) / step) + 1}, (_, i) => 2 ** (low + i * step));
  }
  const decades = Math.log10(most / least), parts = decades > 4 ? [1] : decades > 2 ? [1, 3] : [1, 2, 3, 5, 7];
  const marks = [];
  for (let d = Math.floor(Math.log10(least)) - 1; d <= Math.log10(most) + 1; ++d) for (const p of parts) marks.push(p * 10 ** d);
  return marks;
}

function scale(axis, values, narrow) {
  const options = {
    type: axis.logarithmic ? "logarithmic" : "linear",
    title: {display: true, text: axis.title, color: style("--muted")},
    grid: {color: style("--line")},
    ticks: {color: style("--muted"), callback: format(axis), maxRotation: narrow ? 60 : 0, autoSkip: true}
  };
  const positive = values.filter(v => v > 0);
  if (axis.logarithmic && positive.length > 0) {
    const least = Math.min(...positive), most = Math.max(...positive), room = axis.title === "nodes" || axis.unit === "bytes" ? 1 : 1.2;
    options.min = least / room;
    options.max = most * (most > least ? room : 1.2);
    const marks = marksOf(axis, positive);
    options.afterBuildTicks = made => { made.ticks = marks.filter(v => v >= made.min && v <= made.max).map(value => ({value})); };
  } else {
    options.beginAtZero = true;
  }
  return options;
}

// Lines of one colour differ in their dashes and marks.
const colours = 8, dashes = [[], [7, 3], [2, 3]], marks = ["circle", "triangle", "rect"];

// Names at the ends of lines, in charts of more lines than there are colours. Names that would cover each other are moved apart.
const endNames = {
  id: "endNames",
  afterDatasetsDraw(chart) {
    if (!chart.options.endNames) return;
    const ends = chart.data.datasets.flatMap((set, i) => {
      const points = chart.getDatasetMeta(i).data, last = points[points.length - 1];
      return set.band || !last || !chart.isDatasetVisible(i) ? [] : [{name: set.series, colour: set.borderColor, x: last.x, y: last.y, at: last.y}];
    }).sort((a, b) => a.y - b.y);
    const height = 13, {top, bottom, right} = chart.chartArea, context = chart.ctx;
    ends.forEach((end, i) => { end.at = Math.max(end.at, i > 0 ? ends[i - 1].at + height : top); });
    for (let i = ends.length - 1; i >= 0; --i) ends[i].at = Math.min(ends[i].at, i + 1 < ends.length ? ends[i + 1].at - height : bottom);
    context.save();
    context.font = "11px " + Chart.defaults.font.family;
    context.textBaseline = "middle";
    for (const end of ends) {
      context.strokeStyle = context.fillStyle = end.colour;
      context.beginPath();
      context.moveTo(end.x + 4, end.y);
      context.lineTo(right + 16, end.at);
      context.stroke();
      context.fillText(end.name, right + 19, end.at);
    }
    context.restore();
  }
};

// A series as Chart.js draws it: a line or dots, and below them the band as two more lines with what is between them filled.
function datasets(series, next, withDots, withBands) {
  const guide = series.mark === "guide" || series.mark === "dashed";
  const number = series.colour === undefined ? next : series.colour, round = Math.floor(number / colours) % dashes.length;
  const colour = guide ? style("--muted") : style("--c" + number % colours);
  const common = {
    label: series.name, series: series.name, borderColor: colour, backgroundColor: colour, borderWidth: guide ? 1.5 : 2, clip: 8,
    borderDash: series.mark === "dashed" ? [6, 4] : guide ? [] : dashes[round], showLine: series.mark !== "dots", tension: 0,
    pointRadius: series.mark === "dots" ? 4 : guide || withDots ? 0 : 3, pointHoverRadius: guide ? 0 : 6, pointStyle: guide ? "line" : marks[round]
  };
  const made = [{...common, data: series.points, order: series.mark === "dots" ? -1 : 0}];
  if (!withBands || !series.points.some(p => p.high > p.low)) return made;
  const edge = key => ({
    label: series.name, series: series.name, band: true, data: series.points.map(p => ({x: p.x, y: p[key] === undefined ? p.y : p[key]})),
    borderColor: faded(colour, 0.35), borderWidth: 1, pointRadius: 0, pointHoverRadius: 0, showLine: true, order: 1
  });
  return made.concat([{...edge("high"), fill: "+1", backgroundColor: faded(colour, 0.12)}, edge("low")]);
}

function legend(position) {
  return {
    position, labels: {color: style("--text"), usePointStyle: true, boxHeight: 7, filter: item => !item.text.startsWith("\u0000")},
    onClick(event, item, box) {  // a series goes with its band
      const chart = box.chart, hidden = chart.isDatasetVisible(item.datasetIndex), name = chart.data.datasets[item.datasetIndex].series;
      chart.data.datasets.forEach((d, i) => { if (d.series === name) chart.setDatasetVisibility(i, !hidden); });
      chart.update();
    }
  };
}

function curves(chart, narrow) {
  let next = 0;
  const withDots = chart.series.some(s => s.mark === "dots"), lines = chart.series.filter(s => s.mark !== "guide" && s.mark !== "dashed");
  const many = lines.length > colours;
  const sets = chart.series.flatMap(s => {
    const made = datasets(s, next, withDots, !many);
    if (s.mark !== "guide" && s.mark !== "dashed") ++next;
    return made;
  });
  for (const set of sets) if (set.band) set.label = "\u0000" + set.label;
  const xs = sets.flatMap(s => s.data.map(p => p.x)), ys = sets.flatMap(s => s.data.map(p => p.y));
  const x = format(chart.x), y = format(chart.y);
  return {
    type: "scatter", data: {datasets: sets}, plugins: [endNames],
    options: {
      endNames: many && !narrow, layout: {padding: {right: many && !narrow ? 150 : 0}},
      interaction: {mode: "nearest", intersect: false},
      scales: {x: scale(chart.x, xs, narrow), y: scale(chart.y, ys, false)},
      plugins: {
        legend: {...legend("bottom"), display: chart.series.length > 1},
        tooltip: {
          filter: item => !item.dataset.band,
          callbacks: {
            label: item => {
              const p = item.raw, band = p.high > p.low ? ` (90 % PI ${y(p.low)} to ${y(p.high)})` : "";
              return `${item.dataset.series}${p.label ? ", " + p.label : ""}: ${y(p.y)}${band} at ${chart.x.title} ${x(p.x)}`;
            }
          }
        }
      }
    }
  };
}

function bars(chart, narrow) {
  const y = format(chart.y);
  const sets = chart.series.map((s, i) => {
    const colour = style("--c" + (s.colour === undefined ? i : s.colour) % 8), values = chart.bars.map(() => 0);
    for (const p of s.points) values[p.x] = p.y;
    return {label: s.name, series: s.name, data: values, backgroundColor: colour, stack: "all", maxBarThickness: 26};
  });
  const line = style("--line"), muted = style("--muted");
  return {
    type: "bar", data: {labels: chart.bars, datasets: sets},
    options: {
      indexAxis: "y", interaction: {mode: "index", axis: "y", intersect: false},
      scales: {
        x: {stacked: true, beginAtZero: true, grid: {color: line}, ticks: {color: muted, callback: y, maxRotation: 0, maxTicksLimit: narrow ? 4 : 7},
          title: {display: true, text: chart.y.title, color: muted}},
        y: {stacked: true, grid: {display: false}, ticks: {color: style("--text"), autoSkip: false}}
      },
      plugins: {
        legend: {...legend("bottom"), display: chart.series.length > 1},
        tooltip: {callbacks: {label: item => `${item.dataset.label}: ${y(item.raw)}`,
          footer: items => chart.series.length > 1 ? "in all: " + y(items.reduce((sum, i) => sum + i.raw, 0)) : ""}}
      }
    }
  };
}

let drawn = [];
function draw() {
  for (const chart of drawn) chart.destroy();
  drawn = charts.map((chart, i) => {
    const canvas = document.getElementById("chart-" + i), narrow = canvas.parentElement.clientWidth < 560;
    const config = chart.bars ? bars(chart, narrow) : curves(chart, narrow);
    if (chart.bars) canvas.parentElement.style.height = 7 + chart.bars.length * 1.9 + "rem";
    if (config.options.endNames) canvas.parentElement.style.height = "30rem";
    Object.assign(config.options, {animation: false, responsive: true, maintainAspectRatio: false});
    return new Chart(canvas, config);
  });
}
if (charts.length > 0) {  // else the page has no chart library
  Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
}

// What a cell counts, whatever its unit: "84.59 ms" comes before "1.2 s", and text after all numbers.
const worth = {ns: 1e-9, us: 1e-6, "µs": 1e-6, ms: 1e-3, min: 60, h: 3600, d: 86400, KiB: 1024, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40, k: 1e3, M: 1e6,
  G: 1e9};
function key(text) {
  const number = parseFloat(text.replace(/^\$/, ""));
  if (Number.isNaN(number)) return null;
  const unit = text.replace(/\s*\*\w?$/, "").match(/([A-Za-zµ]+)\s*$/);
  return number * (unit && worth[unit[1]] || 1);
}
for (const table of document.querySelectorAll("table")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    head.tabIndex = 0;
    const sort = () => {
      const rising = head.getAttribute("aria-sort") !== "ascending", rows = [...table.tBodies[0].rows];
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", rising ? "ascending" : "descending");
      const keys = new Map(rows.map(row => {
        const text = row.cells[column] ? row.cells[column].textContent : "";
        return [row, [key(text), text]];
      }));
      rows.sort((a, b) => {
        const [x, xs] = keys.get(a), [y, ys] = keys.get(b);
        if (x === null || y === null) return (x === null) - (y === null) || (rising ? 1 : -1) * xs.localeCompare(ys);
        return (rising ? 1 : -1) * (x - y);
      });
      table.tBodies[0].append(...rows);
    };
    head.addEventListener("click", sort);
    head.addEventListener("keydown", event => { if (event.key === "Enter") sort(); });
  });
}

const report = document.getElementById("report"), button = document.getElementById("download");
if (report && button) button.addEventListener("click", () => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([JSON.stringify(JSON.parse(report.textContent), null, 2) + "\n"], {type: "application/json"}));
  link.download = "report.json";
  link.click();
});
