// One informer: its handlers, its indexes and its cache.
import { bytes, clock, count, facts, h, keyText, link, mark, table, time } from './dom.js';
import { informerName } from './feed.js';
import { pipeline } from './pipeline.js';

const page = 50;

// which returns the parameters that select the informer.
const which = params => ({ informer: params.get('informer'), type: params.get('type') || undefined, cluster: params.get('cluster') ?? undefined });
const wanted = params => ({ namespace: params.get('namespace') ?? '', selector: params.get('selector') ?? '', search: params.get('search') ?? '' });

export const refused = error => h('p', { class: 'refused', role: 'alert' }, mark('bad'), error.message);

function found(status, params) {
  return (status.informers ?? []).find(i => i.reflector.resource === params.get('informer') && (i.cluster ?? '') === (params.get('cluster') ?? '') && (!params.get('type') || i.type === params.get('type')));
}

function handlers(i) {
  return h('section', { 'aria-labelledby': 'handlers' }, h('h2', { id: 'handlers' }, 'Handlers'),
    table('Handlers', ['handler', 'where', 'right now', '#behind', '#pending', '#calls', '#failed', '#longest call', 'last failure'], (i.handlers ?? []).map(d => ({ key: d.name + d.place, cells: [
      d.name, d.place === d.name ? '' : d.place, d.busySeconds > 1 ? `${keyText(d.key)} for ${time(d.busySeconds)}` : '–', d.behindSeconds > 1 ? mark('bad', time(d.behindSeconds)) : time(d.behindSeconds), count(d.pending), count(d.delivered),
      count(d.panics + d.errors), time(d.slowestSeconds), d.failure?.err ?? '–'] })), 'There are no handlers.'));
}

function indexes(answer) {
  const all = answer?.indexes ?? [];
  return h('section', { 'aria-labelledby': 'indexes' }, h('h2', { id: 'indexes' }, 'Indexes'), answer?.error ? refused(answer.error) : [
    answer?.withheld && all.length > 0 && h('p', { class: 'dim' }, 'Values are withheld: ', answer.withheld, '.'),
    table('Indexes', ['index', '#values', '#entries', 'largest buckets'], all.map(x => ({ key: x.name, cells: [x.name, count(x.values), count(x.entries),
      h('ul', { class: 'buckets' }, (x.largest ?? []).map(b => h('li', null, b.value ? [h('span', { class: 'value' }, b.value), ' '] : null, h('b', null, count(b.objects)))))] })), 'None.')]);
}

const field = (name, label, hint, value) => h('label', null, label, ' ', h('input', { name, value, placeholder: hint, autocomplete: 'off', spellcheck: 'false' }));

function objects(params, answer) {
  const want = wanted(params), heads = answer?.heads ?? [];
  const owner = o => (o.owners ?? []).map(r => `${r.kind}/${r.name}`).join(', ') || '–';
  return h('section', { 'aria-labelledby': 'objects' }, h('h2', { id: 'objects' }, 'Objects'),
    h('form', { class: 'filter', 'data-view': 'informer', role: 'search', 'aria-label': 'Object filter' },
      Object.entries(which(params)).map(([name, value]) => value !== undefined && h('input', { type: 'hidden', name, value })),
      field('namespace', 'Namespace', 'any', want.namespace), field('selector', 'Labels', 'app=web,tier!=db', want.selector), field('search', 'Name contains', 'any', want.search),
      h('button', null, 'Filter')),
    answer?.error ? refused(answer.error) : [
      table('Objects', ['namespace', 'name', '#version', '#generation', 'owner', 'labels', ''], heads.map(o => ({ key: o.namespace + '/' + o.name, cells: [
        o.namespace ?? '–', link('object', { ...which(params), namespace: o.namespace, name: o.name }, o.name), o.rv, o.generation ? count(o.generation) : '–', owner(o),
        Object.entries(o.labels ?? {}).map(([k, v]) => `${k}=${v}`).join(', ') || '–', o.deleting ? mark('idle', 'deleting') : ''] })),
      answer ? 'No matching objects.' : 'Loading…'),
      h('p', { class: 'pages' }, params.get('continue') && link('informer', { ...which(params), ...want }, 'First page'), ' ',
        answer?.continue && link('informer', { ...which(params), ...want, continue: answer.continue }, 'Next page'), ' ',
        answer && h('span', { class: 'dim' }, `${count(heads.length)} shown of ${count(answer.cached)} in the cache, complete to version ${answer.rv || 'none'}`))]);
}

export const informer = {
  title: params => params.get('informer'),
  asks: params => ({
    objects: ['objects', { ...which(params), ...wanted(params), limit: page, ...(params.get('continue') ? { continue: params.get('continue') } : {}) }],
    indexes: ['indexes', { ...which(params), limit: 8 }],
  }),
  show({ feed, params, answers }) {
    const i = found(feed.status, params);
    if (!i) return [h('p', { class: 'refused' }, mark('bad'), `There is no informer ${params.get('informer')}.`)];
    const r = i.reflector;
    return [pipeline(feed, i),
      facts([['state', `${r.state} since ${clock(r.since)}`], ['cached', `${count(i.objects)} objects, ${i.store}${i.packed?.bytes ? ', ' + bytes(i.packed.bytes) : ''}`], ['lists', `${count(r.lists)}, ${count(r.relists)} of them again`],
        ['watches', count(r.watches)], ['events', count(r.events)], ['bookmarks', count(r.bookmarks)], ['duplicates', count(r.duplicates)], ['merged in the queue', count(i.queueMerged)], ['failures', count(r.failures)], i.selection && ['objects of others', i.selection === 'unknown' ? 'not known yet who leaves them out' : `left out ${i.selection}`],
        ['happens', link('events', { informer: r.resource }, 'events of ' + informerName(i))]]),
      i.namespaces?.length > 0 && h('section', null, h('h2', null, 'Namespaces'), table('Namespaces', ['what', 'state', '#version', '#failures', 'failure'],
        i.namespaces.map(n => ({ key: n.resource, cells: [n.resource, n.state, n.rv ?? '–', count(n.failures), n.attempts > 0 ? n.failure.err : '–'] })))),
      objects(params, answers.objects), handlers(i), indexes(answers.indexes)];
  },
};

export { which };
