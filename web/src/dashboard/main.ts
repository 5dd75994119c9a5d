import '../lib/theme.css';
import './dashboard.css';
import { byId, el, setText, update } from '../lib/dom';
import { isDark, onThemeChange, setTheme } from '../lib/theme';
import * as api from './api';
import { Approvals } from './approvals';
import { DroppedFiles } from './files';
import { History } from './history';
import { JobsTable, swatch } from './jobs';
import { ClusterMap, type Pick } from './map';
import { Cluster, type Flow, kStaging, linksOf, type SnapshotFile, type Step } from './model';
import { Player } from './play';
import { type Scenario, WhatIf } from './what_if';

/// What is on the map when no plan is tried: the server's cluster, or files of the reader's own.
interface Base {
  file: SnapshotFile;
  flows: Flow[];
  own: boolean;
}
/// A plan on a cluster of its own: a what-if, a plan that waits, one of the journal.
interface Shown {
  title: string;
  file: SnapshotFile;
  rounds: Step[][];
  before: Flow[];
  after: Flow[];
}

const kPoll_ms = 5000;

let base: Base | null = null;
let shown: Shown | null = null;
let cluster: Cluster | null = null;
let moved = new Set<string>();
let mode: api.Status['mode'] = 'view';
let observed: number | null = null;

const map = new ClusterMap(byId('map') as HTMLCanvasElement, { pick: choose, hover });
const jobs = new JobsTable(byId('jobs'), (job) =>
  choose(job === null ? null : { rack: -1, node: null, job }),
);
const player = new Player({ show: showRounds, fly: flyRound });
const whatIf = new WhatIf(byId('what-if'), player.element, {
  snapshot: () => (base?.own ? base.file : undefined),
  show: showScenario,
});
const pastPlayer = new Player({ show: showRounds, fly: flyRound });
const waitingPlayer = new Player({ show: showRounds, fly: flyRound });
const players = [player, pastPlayer, waitingPlayer];
const approvals = new Approvals(byId('plans'), waitingPlayer.element, {
  show: (plan) => void showPlan(plan, waitingPlayer),
  done: () => void refresh(true),
});
const past = new History(byId('history'), pastPlayer.element, {
  show: (plan) => void showPlan(plan, pastPlayer),
});
const dropped = new DroppedFiles();

function trouble(text: string): void {
  setText(byId('trouble'), text);
  byId('trouble').hidden = text === '';
}

const words = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/// ---- what is on the map

function display(next: Cluster, flows: readonly Flow[]): void {
  cluster = next;
  map.show(next, linksOf(next, flows));
  jobs.show(next, shown ? new Set(shown.rounds.flat().map((step) => step.job)) : moved);
  read();
}

/// The line above the map, and what screen readers hear of it.
function read(): void {
  if (!cluster) return;
  const now = cluster;
  const over = now.racksOver();
  const count = (n: number, what: string): string => `${n} ${what}${n === 1 ? '' : 's'}`;
  const text =
    `${count(now.racks.length, 'rack')}, ${count(now.nodes.length, 'node')}, ` +
    `${count(cluster.jobs.filter((_, job) => now.racksOfJob(job).length > 0).length, 'job')}; ` +
    (over === 0
      ? 'every rack within its bound'
      : `${count(over, 'rack')} over ${over === 1 ? 'its' : 'their'} bound`);
  setText(byId('reading'), text);
  update(byId('reading'), { 'data-over': over > 0 });
  update(byId('map'), { 'aria-label': `Map of the cluster: ${text}` });
  byId('shown').hidden = !shown && !base?.own;
  setText(
    byId('shown').firstElementChild ?? byId('shown'),
    shown
      ? `${shown.title}, not the cluster as it is.`
      : 'Your own files, not the cluster of this server.',
  );
  showRack();
}

function showBase(): void {
  shown = null;
  map.marked = new Set();
  for (const each of players) each.load([]);
  if (base) display(new Cluster(base.file), base.flows);
}

function begin(next: Shown, where: Player): void {
  shown = next;
  const fresh = new Cluster(next.file);
  map.marked = new Set(
    next.rounds
      .flat()
      .flatMap((step) => [step.from, step.to])
      .filter((name) => name !== kStaging)
      .flatMap((name) => fresh.nodeByName.get(name) ?? []),
  );
  for (const each of players) each.load(each === where ? next.rounds : []);
  display(fresh, next.before);
}

function showScenario(scenario: Scenario | null): void {
  if (!scenario) return showBase();
  const before = scenario.answer.routes_before?.flows ?? [];
  begin(
    {
      title: 'A what-if',
      file: scenario.snapshot,
      rounds: scenario.rounds,
      before,
      after: scenario.answer.routes_after?.flows ?? before,
    },
    player,
  );
}

/// The uplinks of all flows, by the server's own routing.
async function flowsOf(snapshot: SnapshotFile): Promise<Flow[]> {
  try {
    const answer = await api.whatIf({ snapshot, changes: [], best_effort: false });
    return answer.routes_before?.flows ?? [];
  } catch {
    return []; // busy; the moves are worth showing without
  }
}

/// A plan of the journal on the cluster that it was made for.
async function showPlan(plan: api.PlanDetail, where: Player): Promise<void> {
  try {
    const file = JSON.parse(await api.planSnapshot(plan.id)) as SnapshotFile;
    const rounds = plan.plan?.rounds ?? [];
    const later = new Cluster(file);
    for (const round of rounds) later.move(round);
    const before = await flowsOf(file);
    const after = await flowsOf(later.toFile());
    begin({ title: `Plan ${plan.id}`, file, rounds, before, after }, where);
  } catch (error) {
    trouble(words(error));
  }
}

function showRounds(count: number): void {
  if (!shown) return;
  const next = new Cluster(shown.file);
  for (const round of shown.rounds.slice(0, count)) next.move(round);
  display(next, count === shown.rounds.length ? shown.after : shown.before);
}

async function flyRound(round: number): Promise<void> {
  const at = shown;
  const steps = at?.rounds[round];
  if (!at || !steps || !cluster) return;
  const now = cluster;
  await map.fly(steps, () => now.move(steps));
  if (shown === at && cluster === now)
    display(now, round + 1 === at.rounds.length ? at.after : at.before);
}

/// ---- choosing

function choose(pick: Pick | null): void {
  const rack = pick && pick.rack >= 0 ? pick.rack : pick ? map.selectedRack : null;
  map.select(rack, pick?.job ?? null);
  jobs.select(pick?.job ?? null);
  const job = cluster?.jobs[pick?.job ?? -1];
  const name = cluster?.racks[rack ?? -1]?.name;
  if (job) whatIf.offerJob(job.id);
  if (name !== undefined) whatIf.offerRack(name);
  showRack();
}

function describe(pick: Pick): string {
  if (!cluster) return '';
  const node = cluster.nodes[pick.node ?? -1];
  const rack = cluster.racks[pick.rack];
  const job = cluster.jobs[pick.job ?? -1];
  if (!node)
    return `${rack?.name}: degree ${cluster.degree(pick.rack)}, bound ${cluster.bound(pick.rack)}`;
  const kind = node.kind === 'default' ? '' : `, class ${node.kind}`;
  return `${rack?.name}, node ${node.name} (${node.state}${kind}): ${job ? `job ${job.id} ${job.name}` : 'free'}`;
}

function hover(pick: Pick | null): void {
  setText(byId('hover'), pick ? describe(pick) : '');
}

/// The rack that is selected, in words: what the map says by colour and place.
function showRack(): void {
  const root = byId('rack');
  const at = map.selectedRack;
  const rack = cluster?.racks[at ?? -1];
  if (!cluster || !rack || at === null) {
    root.replaceChildren();
    return;
  }
  const here = new Map<number, number>();
  const states = new Map<string, number>();
  for (const id of rack.nodes) {
    const state = cluster.nodes[id]?.state ?? 'up';
    states.set(state, (states.get(state) ?? 0) + 1);
    for (const holder of cluster.holders[id] ?? [])
      here.set(holder.job, (here.get(holder.job) ?? 0) + 1);
  }
  const now = cluster;
  const list = [...here].map(([job, workers]) =>
    el(
      'li',
      {},
      swatch(job),
      ` ${now.jobs[job]?.id} ${now.jobs[job]?.name}: ${workers} ${workers === 1 ? 'worker' : 'workers'} here` +
        (now.fragmented(job) ? `, ${now.racksOfJob(job).length} racks in all` : ''),
    ),
  );
  root.replaceChildren(
    el('h2', {}, `Rack ${rack.name}`),
    el(
      'p',
      { 'data-over': now.over(at) },
      `Degree ${now.degree(at)}, bound ${now.bound(at)}${now.over(at) ? ': over its bound' : ''}. ` +
        `Nodes: ${[...states].map(([state, count]) => `${count} ${state}`).join(', ')}.` +
        (rack.failed.length > 0 ? ` Failed uplinks: ${rack.failed.join(', ')}.` : ''),
    ),
    el('ul', {}, ...list),
  );
}

/// ---- where it comes from

/// Looks again; redraws only what has changed. `all`: also the journal.
async function refresh(all: boolean): Promise<void> {
  const status = await api.status();
  mode = status.mode;
  const live = mode !== 'view';
  for (const name of ['plans', 'history']) byId(`tab-${name}`).hidden = !live;
  setText(
    byId('state'),
    base?.own
      ? 'your own files'
      : live
        ? `${status.scheduler}, mode ${mode}${status.paused ? ', paused' : ''}${status.ready ? '' : `; not ready: ${status.trouble}`}`
        : status.scheduler,
  );
  if (live && all) {
    moved = await past.refresh();
    await approvals.refresh(status);
    setText(
      byId('tab-plans'),
      status.waiting.length > 0 ? `Approvals (${status.waiting.length})` : 'Approvals',
    );
  }
  if (base?.own || (status.observed_s === observed && base && !all)) return;
  const [text, routes] = await Promise.all([api.snapshot(), api.routes()]);
  observed = status.observed_s;
  base = { file: JSON.parse(text) as SnapshotFile, flows: routes.flows, own: false };
  if (!shown) display(new Cluster(base.file), base.flows);
}

let turn: Promise<void> = Promise.resolve();
let queued = false;
let wantsAll = false;
/// One look at a time; those asked for meanwhile are one.
function soon(all: boolean): void {
  wantsAll ||= all;
  if (queued) return;
  queued = true;
  turn = turn.then(async () => {
    await new Promise((done) => setTimeout(done, 150));
    queued = false;
    const everything = wantsAll;
    wantsAll = false;
    try {
      await refresh(everything);
      trouble('');
    } catch (error) {
      trouble(words(error));
    }
  });
}

async function takeFiles(files: readonly File[]): Promise<void> {
  if (files.length === 0) return;
  try {
    const got = await dropped.take(files);
    if (typeof got === 'string') return trouble(got);
    // The server's reader checks it, and routes it.
    const answer = await api.whatIf({ snapshot: got.snapshot, changes: [], best_effort: false });
    base = {
      file: JSON.parse(answer.files.snapshot) as SnapshotFile,
      flows: answer.routes_before?.flows ?? [],
      own: true,
    };
    setText(byId('state'), 'your own files');
    whatIf.reset();
    trouble(got.warnings.join('\n'));
  } catch (error) {
    trouble(words(error));
  }
}

/// ---- the page

function openTab(name: string, focus = false): void {
  for (const tab of document.querySelectorAll<HTMLElement>('[role=tab]')) {
    const open = tab.id === `tab-${name}`;
    update(tab, { 'aria-selected': String(open), tabindex: open ? 0 : -1 });
    byId(tab.id.slice(4)).hidden = !open;
    if (open && focus) tab.focus();
  }
}

function tabKey(event: KeyboardEvent): void {
  const tabs = [...document.querySelectorAll<HTMLElement>('[role=tab]:not([hidden])')];
  const at = tabs.findIndex((tab) => tab.getAttribute('aria-selected') === 'true');
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (step === undefined) return;
  event.preventDefault();
  const next = tabs[(at + step + tabs.length) % tabs.length];
  if (next) openTab(next.id.slice(4), true);
}

for (const tab of document.querySelectorAll<HTMLElement>('[role=tab]')) {
  tab.addEventListener('click', () => openTab(tab.id.slice(4)));
  tab.addEventListener('keydown', tabKey);
}
openTab('jobs');
byId('zoom-in').addEventListener('click', () => map.zoom(1.4));
byId('zoom-out').addEventListener('click', () => map.zoom(1 / 1.4));
byId('zoom-all').addEventListener('click', () => map.fit());
byId('as-it-is').addEventListener('click', () => {
  if (!shown) {
    base = null;
    observed = null;
    soon(true);
  }
  whatIf.reset();
});
byId('theme').addEventListener('click', () => setTheme(isDark() ? 'light' : 'dark'));
onThemeChange(() => map.recolor());
const files = byId('files') as HTMLInputElement;
byId('open').addEventListener('click', () => files.click());
files.addEventListener('change', () => {
  void takeFiles([...(files.files ?? [])]);
  files.value = '';
});
document.addEventListener('dragover', (event) => event.preventDefault());
document.addEventListener('drop', (event) => {
  event.preventDefault();
  void takeFiles([...(event.dataTransfer?.files ?? [])]);
});

async function start(): Promise<void> {
  try {
    await refresh(true);
  } catch (error) {
    trouble(words(error));
  }
  update(document.body, { 'data-ready': true });
  if (mode === 'view' && base) return;
  setInterval(() => {
    if (!document.hidden) soon(false);
  }, kPoll_ms);
  void api.listen(
    () => soon(true),
    (connected) => {
      update(document.body, { 'data-live': connected });
      trouble(connected ? '' : 'The connection to the controller is lost; trying again.');
      if (connected) soon(true);
    },
  );
}
void start();
