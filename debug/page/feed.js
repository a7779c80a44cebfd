// Requests to the process, and the history of its responses.

export const kept = 300; // moments to keep, one per second
const mostSeries = 200; // informers and controllers to keep figures for
const patience = 15000; // ms to wait for a response

// ask sends one query. It fails with the process's error, or the reason there was no response.
export async function ask(what, params = {}) {
  const given = Object.entries(params).filter(([, v]) => v !== undefined && v !== null);
  const answer = await fetch('v1/' + what + (given.length ? '?' + new URLSearchParams(given) : ''), { signal: AbortSignal.timeout(patience) });
  const text = await answer.text();
  if (!answer.ok) throw Object.assign(new Error(text.trim() || `HTTP ${answer.status}`), { answered: answer.status !== 502 });
  return JSON.parse(text);
}

export const informerName = i => i.cluster ? i.cluster + ': ' + i.reflector.resource : i.reflector.resource;
export const informerKey = i => 'i/' + [i.cluster ?? '', i.reflector.resource, i.type ?? ''].join('/');
export const controllerKey = c => 'c/' + c.name;

// stagesOf returns the figures for a stage, for every track with a role.
export function stagesOf(status, role, stage) {
  return (status.recorder.tracks ?? []).filter(t => t.role === role)
    .map(t => ({ track: t, minute: t.stages?.find(s => s.stage === stage)?.minute })).filter(s => s.minute?.count > 0);
}

const most = (all, of) => all.reduce((m, one) => m === null || of(one) > of(m) ? one : m, null);

// moment returns the part of a status to keep.
function moment(status) {
  const informers = status.informers ?? [], controllers = status.controllers ?? [];
  const done = c => c.successes + c.requeues + c.requeuesAfter + c.errors;
  const sum = (all, of) => all.reduce((n, one) => n + of(one), 0);
  const lag = most(stagesOf(status, 'handler', 'lagging'), s => s.minute.p99Seconds);
  const work = most(stagesOf(status, 'controller', 'reconciling'), s => s.minute.p99Seconds);
  const each = {};
  for (const i of informers.slice(0, mostSeries)) each[informerKey(i)] = i.reflector.events;
  for (const c of controllers.slice(0, mostSeries)) each[controllerKey(c)] = done(c);
  return {
    at: Date.parse(status.at), each,
    events: sum(informers, i => i.reflector.events), reconciles: sum(controllers, done), errors: sum(controllers, c => c.errors),
    lagNow: Math.max(0, ...informers.flatMap(i => i.handlers ?? []).map(d => d.behindSeconds ?? 0)), // calls in progress do not count as samples
    workNow: Math.max(0, ...controllers.map(c => c.queue?.longestRunningSeconds ?? 0)),
    lag99: lag?.minute.p99Seconds ?? null,
    work99: work?.minute.p99Seconds ?? null,
    heap: status.memory.heapBytes, live: status.memory.liveBytes || null, total: status.memory.totalBytes,
    goroutines: status.memory.goroutines, cached: status.memory.cachedCount, packed: status.memory.cachedBytes,
  };
}

// Feed holds the process's recent statuses.
export class Feed {
  status = null;
  heard = null; // time of the last successful response
  error = null; // error since then, if any
  moments = [];

  async look() {
    try {
      const status = await ask('status');
      for (const i of status.informers ?? []) { // empty fields are omitted
        i.reflector.resource ??= '';
        for (const d of i.handlers ?? []) d.name ??= '';
      }
      if (status.process.started !== this.status?.process.started) this.moments = []; // the process was restarted
      this.status = status;
      this.heard = new Date();
      this.error = null;
      this.moments = [...this.moments, moment(status)].slice(-kept);
    } catch (error) {
      this.error = error;
    }
  }

  // series returns the figures with a name, each with its time.
  series(name) { return this.moments.map(m => ({ at: m.at, value: m[name] })); }

  // rates returns the growth of a counter per second, null if unknown.
  rates(of) {
    return this.moments.map((m, n) => {
      const before = this.moments[n - 1], seconds = before ? (m.at - before.at) / 1000 : 0;
      const grown = before ? of(m) - of(before) : NaN;
      return { at: m.at, value: grown >= 0 && seconds > 0 && seconds < 15 ? grown / seconds : null };
    });
  }

  // now returns the rate over the last few seconds.
  now(of) {
    const last = this.moments.at(-1), before = this.moments.at(-6) ?? this.moments[0];
    if (!last || last === before) return null;
    const grown = of(last) - of(before);
    return grown >= 0 ? grown * 1000 / (last.at - before.at) : null;
  }
}
