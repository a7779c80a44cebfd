// The events of one key, drawn.
import { clock, h, keyText, time, visible } from './dom.js';

const most = 60; // number of most recent events to draw
const width = 1000, left = 190, right = 14, row = 24, top = 8, axis = 30;

// places maps times to positions on the line. Distances grow logarithmically, so that both
// microseconds and minutes are visible.
function places(moments) {
  const sorted = [...new Set(moments)].sort((a, b) => a - b), at = new Map();
  let sum = 0;
  const gaps = sorted.map((t, n) => {
    const gap = n ? t - sorted[n - 1] : 0;
    sum += n ? Math.log2(1 + gap / 0.02) + 0.5 : 0;
    at.set(t, sum);
    return { from: sorted[n - 1], to: t, gap };
  });
  const scale = sum > 0 ? (width - left - right) / sum : 0;
  return { x: t => left + at.get(t) * scale, gaps: gaps.slice(1) };
}

// Times are in milliseconds, with fractions. A Date has no fractions, so they are parsed from the text.
function moment(text) {
  const fraction = /\.(\d+)/.exec(text)?.[1] ?? '';
  return Math.floor(Date.parse(text) / 1000) * 1000 + Number('0.' + (fraction || '0')) * 1000;
}

// begin returns the start time of the action that an event ends.
function begin(e, end) {
  const took = e.kind === 'applied' ? Math.max(0, e.receivedSeconds ?? 0) : e.tookSeconds ?? 0;
  return end - took * 1000;
}

function shape(e, x0, x1, y) {
  const wrong = e.kind === 'failed' || e.kind === 'done' && e.text;
  const parts = [];
  if (x1 - x0 > 1) parts.push(h('rect', { x: x0, y: y - 5, width: x1 - x0, height: 10, rx: 2 }));
  if (wrong) parts.push(h('path', { d: `M${x1 - 5} ${y + 5}L${x1} ${y - 5}L${x1 + 5} ${y + 5}Z` }));
  else if (e.kind === 'asked') parts.push(h('path', { d: `M${x1 - 4} ${y}L${x1} ${y - 4}L${x1 + 4} ${y}L${x1} ${y + 4}Z` }));
  else parts.push(h('circle', { cx: x1, cy: y, r: 4 }));
  return h('g', { class: 'event ' + (wrong ? 'wrong' : e.kind) }, h('title', null, `${clock(e.at, true)} ${e.kind} ${keyText(e.key)} ${e.tookSeconds ? 'in ' + time(e.tookSeconds) : ''} ${e.text ?? e.outcome ?? ''}`), parts);
}

export function timeline(entries) {
  const shown = entries.slice(-most).map(e => ({ e, end: moment(e.at) })).map(m => ({ ...m, begin: begin(m.e, m.end) }));
  if (!shown.length) return h('p', { class: 'none' }, 'The flight recorder has no events for it.');
  const lanes = [...new Set(shown.map(m => `${m.e.role} ${m.e.name}`))];
  const { x, gaps } = places(shown.flatMap(m => [m.begin, m.end]));
  const y = lane => top + row / 2 + lanes.indexOf(lane) * row, low = top + lanes.length * row;
  const cut = text => text.length > 30 ? text.slice(0, 29) + '…' : text;
  let free = left;
  return h('figure', { class: 'timeline' }, h('div', { class: 'scroll' }, h('svg', { viewBox: `0 0 ${width} ${low + axis}`, role: 'img',
    'aria-label': `The last ${shown.length} events, from ${clock(shown[0].e.at, true)} to ${clock(shown.at(-1).e.at, true)}; the table below has them all` },
    lanes.map(l => h('g', { class: 'grid' }, h('title', null, l), h('text', { x: left - 10, y: y(l) + 4, 'text-anchor': 'end' }, cut(visible(l))), h('line', { x1: left, x2: width - right, y1: y(l), y2: y(l) }))),
    gaps.filter(g => x(g.to) - x(g.from) > 34).map(g => {
      const middle = (x(g.from) + x(g.to)) / 2;
      if (middle - 20 < free) return null;
      free = middle + 26;
      return h('g', { class: 'grid' }, h('line', { x1: x(g.from), x2: x(g.to), y1: low + 4, y2: low + 4 }), h('text', { x: middle, y: low + 18, 'text-anchor': 'middle' }, time(g.gap / 1000)));
    }),
    shown.map(m => shape(m.e, x(m.begin), x(m.end), y(`${m.e.role} ${m.e.name}`))))),
  h('figcaption', { class: 'dim' }, 'Each bar is as long as the action took; ', h('b', null, '◆'), ' requested, ', h('b', null, '●'), ' done or delivered, ', h('b', null, '▲'), ' failed. Time runs to the right, with long pauses shortened; the figures below are durations.'));
}
