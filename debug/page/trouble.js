// Problems visible in a status, as sentences, worst first.
import { clock, count, keyText, time } from './dom.js';
import { controllerKey, informerKey, informerName } from './feed.js';

// Thresholds of informer-debug doctor, in seconds.
const longBehind = 10, longCall = 5, longRunning = 60, longWaiting = 60, longSilent = 120;

const since = (status, at) => (Date.parse(status.at) - Date.parse(at)) / 1000;
const ago = (status, at) => time(since(status, at)) + ' ago';

const said = (status, f) => `${f.phase ? f.phase + ': ' : ''}${f.key?.name ? keyText(f.key) + ': ' : ''}${f.err} (${f.attempts > 1 ? count(f.attempts) + ' times, ' : ''}last ${ago(status, f.last)})`;

// ofReflector returns the problems that keep changes from arriving. waiting means that they are
// queued for the cache, so that reading may have stopped.
function ofReflector(status, r, waiting) {
  const all = [];
  if (r.attempts > 0 && r.failure) {
    const retry = r.retryAt ? `; it tries again in ${time(Math.max(0, -since(status, r.retryAt)))}` : '';
    all.push(`${r.state}: ${said(status, r.failure)}${retry}`);
  }
  if (r.polling) all.push(`watches fail, so the informer polls, last ${ago(status, r.heard)}`);
  if (r.waiting) all.push(r.waiting);
  if (r.state === 'Stopped' && !r.attempts) all.push(`no changes arrive: the informer stopped ${ago(status, r.since)}`);
  const silent = r.state === 'Watching' && r.heard ? Math.min(since(status, r.heard), since(status, r.since)) : 0;
  if (silent > longSilent && !waiting) all.push(`its watch has received nothing for ${time(silent)}, ${r.bookmarks > 0 ? 'not even a bookmark: it may be dead' : 'and never a bookmark: if the server sends none, a quiet watch looks like a dead one'}`);
  if (r.unordered) all.push('resource versions do not grow over all objects, so nobody can tell up to where the cache is complete');
  return all;
}

export function ofInformer(status, i) {
  const all = (i.namespaces?.length ? i.namespaces : [i.reflector]).flatMap(r => ofReflector(status, r, i.queueAgeSeconds > longSilent));
  if (!i.synced && !all.length && i.reflector.state !== undefined) all.push(`no initial list yet: ${i.reflector.state} for ${time(since(status, i.reflector.since))}`);
  if (i.failure) all.push(said(status, i.failure));
  if (i.queueAgeSeconds > longBehind) all.push(`${count(i.queueDepth)} changes are queued for the cache, the oldest for ${time(i.queueAgeSeconds)}`);
  if (i.packed?.damaged > 0) all.push(`${count(i.packed.damaged)} packed objects are damaged: the memory of the machine is broken`);
  for (const d of i.handlers ?? []) {
    if (d.busySeconds > longCall) all.push(`handler ${d.name} has been handling ${keyText(d.key)} for ${time(d.busySeconds)}, with ${count(d.pending)} pending events`);
    else if (d.behindSeconds > longBehind) all.push(`handler ${d.name} is ${time(d.behindSeconds)} behind, with ${count(d.pending)} pending events`);
    if (d.failure && d.panics + d.errors > 0) all.push(`handler ${d.name} failed ${count(d.panics + d.errors)} times: ${said(status, d.failure)}`);
  }
  return all;
}

export function ofController(status, c) {
  const all = [];
  if (c.state !== 'Running') all.push(`${c.state} since ${clock(c.since)}`);
  for (const s of c.sources ?? []) {
    if (!s.synced && s.waiting) all.push(`source ${s.name} is not synced: ${s.waiting}`);
    if (s.failure) all.push(`source ${s.name} failed ${count(s.failures)} times: ${s.failure}`);
  }
  const q = c.queue ?? {};
  if (q.waiting > 0 && c.active >= c.concurrency && Math.min(q.oldestWaitingSeconds, q.longestRunningSeconds) > longCall) {
    all.push(`every worker is busy, one for ${time(q.longestRunningSeconds)}, and ${count(q.waiting)} keys wait`);
  } else if (q.longestRunningSeconds > longRunning) all.push(`a worker has been with one key for ${time(q.longestRunningSeconds)}`);
  if (q.oldestWaitingSeconds > longWaiting) all.push(`${count(q.waiting)} keys wait for a worker, the oldest for ${time(q.oldestWaitingSeconds)}`);
  if (q.hookFailure) all.push(q.hookFailure);
  if (c.failure && Date.parse(status.at) - Date.parse(c.failure.last) < 300000) {
    const f = c.failure;
    all.push(`${keyText(f.request)} failed ${f.attempts > 1 ? count(f.attempts) + ' times' : 'once'}, last ${ago(status, f.last)}: ${f.err}`);
  }
  return all;
}

export function ofElection(status) {
  const e = status.election, all = [];
  if (!e) return all;
  if (e.lost) all.push(`the lease ${keyText(e.lease)} was lost while work is still running: ${e.lost.err}`);
  if (e.attempts > 0 && e.failure) all.push(`${count(e.attempts)} failures in a row at the lease ${keyText(e.lease)}: ${e.failure.err}`);
  return all;
}

// ofProcess returns all problems, each { key, whose, view, params, texts }.
export function ofProcess(status) {
  const same = new Map();
  for (const i of status.informers ?? []) same.set(informerKey(i), (same.get(informerKey(i)) ?? 0) + 1);
  const all = (status.informers ?? []).map(i => {
    const key = informerKey(i), equal = same.get(key), texts = ofInformer(status, i);
    if (equal > 1) texts.push(`${count(equal)} informers cache the same objects: share one`);
    same.delete(key); // report it only once
    return { key, whose: informerName(i), view: 'informer', params: informerParams(i), texts };
  });
  for (const c of status.controllers ?? []) all.push({ key: controllerKey(c), whose: c.name, view: 'controller', params: { name: c.name }, texts: ofController(status, c) });
  all.push({ key: 'election', whose: 'election', view: 'overview', params: {}, texts: ofElection(status) });
  return all.filter(t => t.texts.length);
}

// informerParams returns the parameters that select an informer in a query or an address.
export const informerParams = i => ({ informer: i.reflector.resource, type: i.type, cluster: i.cluster ?? '' });
