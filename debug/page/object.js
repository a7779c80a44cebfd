// One key: the reasons for its state, its history, and the object.
import { clock, count, facts, h, keyText, link, table, time } from './dom.js';
import { refused, which } from './informer.js';
import { timeline } from './timeline.js';

const mostText = 200000; // maximum number of characters of contents to show
const mostEntries = 200;

const key = params => ({ namespace: params.get('namespace') ?? '', name: params.get('name') ?? '' });

// whose returns the component an event belongs to.
export const whose = e => `${e.role} ${e.name}`;

// told describes an event beyond its kind and key.
export function told(e) {
  const parts = [e.change, e.rv && 'version ' + e.rv, e.outcome, e.count > 1 && count(e.count) + ' objects', e.attempt > 1 && 'attempt ' + e.attempt,
    e.kind === 'taken' ? 'after ' + time(e.tookSeconds ?? 0) : e.tookSeconds && 'in ' + time(e.tookSeconds),
    e.receivedSeconds > 0 && time(e.receivedSeconds) + ' behind the wire', e.about?.name && 'about ' + keyText(e.about), e.text];
  return parts.filter(Boolean).join(', ');
}

export const entryRow = e => ({ key: `${e.track} ${e.at} ${e.kind} ${e.position ?? ''}`, cells: [clock(e.at, true), whose(e), e.kind, keyText(e.key), told(e)] });

function reasons(answer) {
  if (answer?.error) return refused(answer.error);
  return h('ol', { class: 'reasons' }, (answer?.reasons ?? []).map(r => h('li', null, h('span', { class: 'cause' }, r.cause), ' ', r.text)));
}

function head(o) {
  return facts([['UID', o.uid], ['version', o.rv], ['generation', o.generation], ['deleting', o.deleting && 'yes'],
    ['labels', Object.entries(o.labels ?? {}).map(([k, v]) => `${k}=${v}`).join(', ')],
    ['owners', (o.owners ?? []).map(r => `${r.kind}/${r.name}${r.controller ? ' (controller)' : ''}`).join(', ')]]);
}

function contents(o) {
  if (!o.contents) return h('p', { class: 'dim' }, 'Contents are withheld: ', o.withheld, '.');
  const text = JSON.stringify(o.contents, null, 2);
  return h('pre', { tabindex: '0', 'aria-label': 'Contents' }, text.slice(0, mostText), text.length > mostText && `\n… ${count(text.length - mostText)} characters more`);
}

// fullName returns the informer's name with its type and cluster, if known.
function fullName(params) {
  const name = params.get('informer') ?? '', type = params.get('type'), cluster = params.get('cluster');
  return type ? `${name} (${type})${cluster ? ` of cluster ${cluster}` : ''}` : name;
}

export const object = {
  title: params => keyText(key(params)),
  parent: params => params.get('informer') ? { view: 'informer', params: which(params), title: params.get('informer') } : null,
  asks: params => ({
    why: ['why', { informer: fullName(params), ...key(params) }],
    timeline: ['timeline', { informer: params.get('informer') ?? '', ...key(params) }],
    ...(params.get('informer') ? { object: ['object', { ...which(params), ...key(params) }] } : {}),
  }),
  show({ params, answers }) {
    const { why, timeline: line, object: o } = answers, entries = line?.entries ?? [];
    return [
      h('section', { 'aria-labelledby': 'why' }, h('h2', { id: 'why' }, 'Why'), reasons(why)),
      h('section', { 'aria-labelledby': 'timeline' }, h('h2', { id: 'timeline' }, 'Timeline'), line?.error ? refused(line.error) : [
        timeline(entries),
        line?.lost > 0 && h('p', { class: 'dim' }, `The recorder has dropped ${count(line.lost)} events, for any key.`)]),
      params.get('informer') && h('section', { 'aria-labelledby': 'head' }, h('h2', { id: 'head' }, 'Object'), o?.error ? refused(o.error) : o && [head(o.head), contents(o)]),
      h('section', { 'aria-labelledby': 'entries' }, h('h2', { id: 'entries' }, 'Events'), h('p', null, link('events', { informer: params.get('informer'), ...key(params) }, 'Follow them')),
        table('Events of this key', ['time', 'whose', 'what', 'key', ''], entries.slice(-mostEntries).reverse().map(entryRow), line ? 'The flight recorder has no events for it.' : 'Loading…')),
    ];
  },
};
