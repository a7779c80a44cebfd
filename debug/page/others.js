// Views of the whole process besides the overview: busiest keys, memory.
import { bytes, count, facts, h, keyText, link, table, time } from './dom.js';
import { chart } from './chart.js';
import { refused } from './informer.js';
import { whose } from './object.js';

export const busiest = {
  title: () => 'Busiest keys',
  asks: () => ({ busiest: ['busiest', { seconds: 60, limit: 50 }] }),
  show({ feed, answers: { busiest: b } }) {
    if (b?.error) return [refused(b.error)];
    const of = k => {
      const i = (feed.status.informers ?? []).find(i => k.role === 'informer' && i.reflector.resource === k.name);
      return i ? { informer: i.reflector.resource, type: i.type, cluster: i.cluster ?? '' } : {};
    };
    return [h('p', { class: 'dim' }, 'Changes and reconciles in the last minute, as far back as the flight recorder goes.'),
      table('Busiest keys', ['key', 'whose', '#times'], (b?.keys ?? []).map(k => ({ key: k.track + keyText(k.key), cells: [link('object', { ...of(k), ...k.key }, keyText(k.key)), whose(k), count(k.count)] })), b ? 'Nothing has happened.' : 'Loading…')];
  },
};

export const memory = {
  title: () => 'Memory',
  asks: () => ({ goroutines: ['goroutines', {}] }),
  show({ feed, answers: { goroutines: g } }) {
    const { process: p, memory: m, recorder: r } = feed.status;
    const named = (name, of) => ({ name, points: feed.series(of) });
    return [
      h('section', { class: 'charts', 'aria-label': 'The last five minutes' }, chart('heap', 'Memory', bytes, [named('heap', 'heap'), named('from the system', 'total')]),
        chart('goroutines', 'Goroutines', count, [named('all', 'goroutines')]), chart('cached', 'Cached objects', count, [named('all', 'cached')])),
      facts([['program', `${p.program} ${p.version ?? ''}`], ['Millrace', p.millrace], ['Go', p.go], ['host', p.host], ['PID', p.pid], ['started', new Date(p.started).toLocaleString()],
        ['heap', bytes(m.heapBytes)], ['live', m.liveBytes ? bytes(m.liveBytes) : 'not known yet'], ['of the system', bytes(m.totalBytes)], ['limit', m.limitBytes ? bytes(m.limitBytes) : 'none'], ['collections', count(m.collections)],
        ['cached', `${count(m.cachedCount)} objects, ${count(m.cachedPacked)} packed in ${bytes(m.cachedBytes)}`], ['flight recorder', `${bytes(r.bytes)}, ${count(r.lost)} events forgotten`]]),
      h('section', null, h('h2', null, 'Goroutines by package'), g?.error ? refused(g.error) : table('Goroutines', ['package', '#goroutines', 'started with'], (g?.owners ?? []).map(({ package: name = '', count: n, functions }) => ({ key: name, cells: [
        name || 'of the runtime', count(n), functions.slice(0, 4).map(f => `${(f.name ?? '').slice(name.length + 1)} ${f.count}`).join(', ')] })), 'Loading…')),
      h('section', null, h('h2', null, 'How long stages took in the last minute'), table('Stages', ['whose', 'stage', '#times', '#p50', '#p90', '#p99', '#longest'],
        (r.tracks ?? []).flatMap(t => (t.stages ?? []).map(s => ({ key: t.track + s.stage, cells: [whose(t), s.stage, count(s.minute.count), ...['p50', 'p90', 'p99', 'max'].map(q => s.minute.count ? time(s.minute[q + 'Seconds']) : '–')] }))), 'Nothing was recorded.'))];
  },
};
