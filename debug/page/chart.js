// Small charts for the last few minutes.
import { h, time } from './dom.js';
import { kept } from './feed.js';

const width = 340, height = 104, left = 46, right = 6, top = 6, bottom = 16;

// spans lists the time ranges to show, in minutes, limited to the available data.
const spans = [1, 2, kept / 60];
const spanOf = points => spans.find(m => points.at(-1).at - points[0].at <= m * 60000) ?? spans.at(-1);

// round rounds up to 1, 2 or 5 times a power of ten.
function nice(n) {
  if (!(n > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(n));
  return power * [1, 2, 5, 10].find(m => m * power >= n * 0.999999);
}

// line returns the path of the known points, with gaps where there are none.
function line(points, x, y) {
  let path = '', on = false;
  for (const p of points) {
    if (p.value === null || Number.isNaN(p.value)) {
      on = false;
      continue;
    }
    path += `${on ? 'L' : 'M'}${x(p.at).toFixed(1)} ${y(p.value).toFixed(1)}`;
    on = true;
  }
  return path;
}

const last = points => points.findLast(p => p.value !== null)?.value ?? null;

// chart draws series, each { name, points }, distinguished by dashes. format formats a value.
export function chart(key, title, format, series) {
  const end = series[0].points.at(-1).at, minutes = spanOf(series[0].points), span = minutes * 60000;
  const high = Math.max(0, ...series.flatMap(s => s.points.map(p => p.value ?? 0)));
  const limit = nice(high);
  const x = at => left + (width - left - right) * Math.max(0, 1 - (end - at) / span);
  const y = value => top + (height - top - bottom) * (1 - value / limit);
  const said = series.map(s => `${s.name} ${format(last(s.points))}`).join(', ');
  return h('figure', { class: 'chart', 'data-key': key },
    h('figcaption', null, h('span', null, title), h('span', { class: 'legend' }, series.map((s, n) => h('span', null,
      h('svg', { class: `swatch s${n}`, viewBox: '0 0 16 6', 'aria-hidden': 'true' }, h('line', { x1: 0, x2: 16, y1: 3, y2: 3 })),
      s.name, ' ', h('b', null, format(last(s.points))))))),
    h('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': `${title}: ${said} now; at most ${format(high)} in the last ${minutes} min` },
      [0, 0.5, 1].map(part => h('g', { class: 'grid' },
        h('line', { x1: left, x2: width - right, y1: y(part * limit), y2: y(part * limit) }),
        h('text', { x: left - 5, y: y(part * limit) + 3.5, 'text-anchor': 'end' }, part ? format(part * limit) : '0'))),
      [1, 0.5, 0].map(part => part * minutes).map(m => h('g', { class: 'grid' }, h('text', { x: x(end - m * 60000), y: height - 3, 'text-anchor': m === 0 ? 'end' : 'middle' },
        m ? '−' + time(m * 60) : 'now'))),
      series.map((s, n) => h('path', { class: `line s${n}`, d: line(s.points, x, y) }))));
}

// spark draws a line without axes, for a table row.
export function spark(points) {
  const end = points.at(-1).at, span = spanOf(points) * 60000, limit = Math.max(...points.map(p => p.value ?? 0), 0.001);
  const x = at => 80 * Math.max(0, 1 - (end - at) / span), y = value => 15 - 14 * value / limit;
  return h('svg', { class: 'spark', viewBox: '0 0 80 16', 'aria-hidden': 'true', preserveAspectRatio: 'none' }, h('path', { class: 'line s0', d: line(points, x, y) }));
}
