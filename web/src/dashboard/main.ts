import '../lib/theme.css';
import './dashboard.css';
import { byId, type Child, el, named, setText, update, withoutTurns } from '../lib/dom';
import { lookOf } from '../lib/palette';
import { isDark, onThemeChange, setTheme } from '../lib/theme';
import * as api from './api';
import { Approvals } from './approvals';
import { DroppedFiles } from './files';
import { History } from './history';
import { JobsTable, swatch } from './jobs';
import { Looks } from './looks';
import { ClusterMap, type Pick } from './map';
import {
  Cluster,
  type Flow,
  kStaging,
  type Links,
  linksOf,
  type SnapshotFile,
  type Step,
} from './model';
import { Player } from './play';
import { signIn } from './sign_in';
import { type Scenario, WhatIf } from './what_if';

/// What is on the map when no plan is tried: the server's cluster, or files of the reader's own.
interface Base {
  file: SnapshotFile;
  flows: Flow[] | null; // null: not known
  own: boolean;
}
/// A plan on a cluster of its own: a what-if, a plan that waits, one of the journal.
interface Shown {
  title: string;
  file: SnapshotFile;
  rounds: Step[][];
  before: Flow[] | null;
  after: Flow[] | null; // between the rounds nobody knows them
}

const kPoll_ms = 5000;

let base: Base | null = null;
let shown: Shown | null = null;
let cluster: Cluster | null = null;
let links: Links[] | null = null;
const looks = new Looks();
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
const pastPlayer = new Player(
  { show: showRounds, fly: flyRound, at: (moves) => past.playedTo(moves) },
  'move',
);
const waitingPlayer = new Player({ show: showRounds, fly: flyRound });
const players = [player, pastPlayer, waitingPlayer];
const approvals = new Approvals(byId('plans'), waitingPlayer.element, {
  show: (plan) => void showPlan(plan, plan.plan?.rounds ?? [], waitingPlayer),
  done: () => void refresh(true),
});
const past = new History(byId('history'), pastPlayer.element, {
  show: (plan, rounds, at) => void showPlan(plan, rounds, pastPlayer, at),
});
const dropped = new DroppedFiles();

/// What stands above the page: what the person's own doing led to stays until they do something
/// else, what looking again and again finds stays until it is over.
const notes = { told: '', polled: '', busy: '' };
function note(kind: keyof typeof notes, text: string): void {
  notes[kind] = withoutTurns(text);
  const all = Object.values(notes).filter((line) => line !== '');
  setText(byId('trouble-text'), all.join('\n'));
  byId('trouble').hidden = all.length === 0;
  byId('trouble-close').hidden = notes.told === '';
}
api.onBusy((text) => note('busy', text));
api.onLocked(signIn);

const words = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/// ---- what is on the map

function display(next: Cluster, flows: readonly Flow[] | null): void {
  cluster = next;
  links = flows && linksOf(next, flows);
  map.show(next, links);
  const moves = shown ? new Set(shown.rounds.flat().map((step) => step.job)) : moved;
  jobs.show(next, moves, map.selectedJob);
  read();
}

/// Letters and colours for the jobs of what is shown and of what lies under it, and no others.
function keepLooks(): void {
  const files = [base?.file, shown?.file];
  const ids = files.flatMap((file) => (file?.jobs ?? []).map((job) => job.id));
  looks.keep(new Set(ids));
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
    (shown
      ? `${shown.title}, not the cluster as it is.`
      : 'Your own files, not the cluster of this server.') +
      (links ? '' : ' Which uplinks the flows take here is not known: none are shown.'),
  );
  showChosen();
}

function showBase(): void {
  asked++;
  shown = null;
  map.marked = new Set();
  for (const each of players) each.load([]);
  keepLooks();
  if (base) display(new Cluster(base.file, looks), base.flows);
}

/// On the map and in that player, after the first `at` rounds.
function begin(next: Shown, where: Player, at = 0): void {
  shown = next;
  keepLooks();
  const fresh = new Cluster(next.file, looks);
  map.marked = new Set(
    next.rounds
      .flat()
      .flatMap((step) => [step.from, step.to])
      .filter((name) => name !== kStaging)
      .flatMap((name) => fresh.nodeByName.get(name) ?? []),
  );
  display(fresh, next.before);
  if (at > 0) showRounds(at);
  for (const each of players) each.load(each === where ? next.rounds : [], at);
}

function showScenario(scenario: Scenario | null): void {
  if (!scenario) return showBase();
  note('told', '');
  begin(
    {
      title: 'A what-if',
      file: scenario.snapshot,
      rounds: scenario.rounds,
      before: scenario.answer.routes_before?.flows ?? null,
      after: scenario.answer.routes_after?.flows ?? null,
    },
    player,
  );
}

/// The uplinks of all flows, by the server's own routing.
async function flowsOf(snapshot: SnapshotFile): Promise<Flow[] | null> {
  try {
    const answer = await api.whatIf({ snapshot, changes: [], best_effort: false });
    return answer.routes_before?.flows ?? null;
  } catch {
    return null; // busy; the moves are worth showing without
  }
}

let asked = 0; // for plans; only the last one is shown
/// A plan of the journal on the cluster that it was made for, after the first `at` of its rounds.
async function showPlan(
  plan: api.PlanDetail,
  rounds: Step[][],
  where: Player,
  at = 0,
): Promise<void> {
  const turn = ++asked;
  note('told', '');
  try {
    const file = JSON.parse(await api.planSnapshot(plan.id)) as SnapshotFile;
    const later = new Cluster(file);
    for (const round of rounds) later.move(round);
    const before = await flowsOf(file);
    const after = await flowsOf(later.toFile());
    if (turn === asked) begin({ title: `Plan ${plan.id}`, file, rounds, before, after }, where, at);
  } catch (error) {
    note('told', words(error));
  }
}

/// The flows after that many rounds.
function flowsAfter(plan: Shown, count: number): Flow[] | null {
  return count === 0 ? plan.before : count === plan.rounds.length ? plan.after : null;
}

function showRounds(count: number): void {
  if (!shown) return;
  const next = new Cluster(shown.file, looks);
  for (const round of shown.rounds.slice(0, count)) next.move(round);
  display(next, flowsAfter(shown, count));
}

async function flyRound(round: number): Promise<void> {
  const at = shown;
  const steps = at?.rounds[round];
  if (!at || !steps || !cluster) return;
  const now = cluster;
  await map.fly(steps, () => now.move(steps));
  if (shown === at && cluster === now) display(now, flowsAfter(at, round + 1));
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
  showChosen();
}

const many = (count: number, what: string): string => `${count} ${what}${count === 1 ? '' : 's'}`;

function nameOf(now: Cluster, job: number): Child[] {
  const { id = '', name = '' } = now.jobs[job] ?? {};
  return [named(id), ...(name === '' ? [] : [' ', named(name)])];
}

function describe(pick: Pick): Child[] {
  if (!cluster) return [];
  const now = cluster;
  const node = now.nodes[pick.node ?? -1];
  const rack = named(now.racks[pick.rack]?.name ?? '');
  if (!node) return [rack, `: degree ${now.degree(pick.rack)}, bound ${now.bound(pick.rack)}`];
  const kind = node.kind === 'default' ? [] : [', class ', named(node.kind)];
  const here = [...new Set((now.holders[pick.node ?? -1] ?? []).map((holder) => holder.job))];
  const list = here.flatMap((job, at) => [at > 0 ? ', ' : '', 'job ', ...nameOf(now, job)]);
  return [
    rack,
    ', node ',
    named(node.name),
    ` (${node.state}`,
    ...kind,
    '): ',
    ...(list.length > 0 ? list : ['free']),
  ];
}

function hover(pick: Pick | null): void {
  byId('hover').replaceChildren(...(pick ? el('span', {}, ...describe(pick)).childNodes : []));
}

/// The rack and the job that are chosen, in words: what the map says by colour and place.
function showChosen(): void {
  const now = cluster;
  const job = map.selectedJob;
  const rack = map.selectedRack;
  byId('rack').replaceChildren(
    ...(now && job !== null && now.jobs[job] ? jobInWords(now, job) : []),
    ...(now && rack !== null && now.racks[rack] ? rackInWords(now, rack) : []),
  );
}

const swatchOf = (now: Cluster, job: number): HTMLElement =>
  swatch(now.jobs[job]?.look ?? lookOf(0));

function jobInWords(now: Cluster, job: number): HTMLElement[] {
  const here = now.workersByRack(job);
  const user = now.jobs[job]?.user ?? '';
  return [
    el('h2', {}, 'Job ', ...nameOf(now, job)),
    el(
      'p',
      {},
      swatchOf(now, job),
      ...(user === '' ? [' '] : [' of ', named(user), ', ']),
      `${many(now.gpus(job), 'GPU')}, ${now.fragmented(job) ? 'fragmented' : 'not fragmented'}. `,
      ...[...here].flatMap(([at, workers], i) => [
        i > 0 ? ', ' : 'Workers: ',
        `${workers} in `,
        named(now.racks[at]?.name ?? ''),
      ]),
      '.',
    ),
  ];
}

function rackInWords(now: Cluster, at: number): HTMLElement[] {
  const rack = now.racks[at];
  const here = new Map<number, number>();
  const states = new Map<string, number>();
  for (const id of rack?.nodes ?? []) {
    const state = now.nodes[id]?.state ?? 'up';
    states.set(state, (states.get(state) ?? 0) + 1);
    for (const holder of now.holders[id] ?? [])
      here.set(holder.job, (here.get(holder.job) ?? 0) + 1);
  }
  const list = [...here].map(([job, workers]) =>
    el(
      'li',
      {},
      swatchOf(now, job),
      ' ',
      ...nameOf(now, job),
      `: ${many(workers, 'worker')} here` +
        (now.fragmented(job) ? `, ${now.racksOfJob(job).length} racks in all` : ''),
    ),
  );
  const failed = rack?.failed ?? [];
  return [
    el('h2', {}, 'Rack ', named(rack?.name ?? '')),
    el(
      'p',
      { 'data-over': now.over(at) },
      `Degree ${now.degree(at)}, bound ${now.bound(at)}${now.over(at) ? ': over its bound' : ''}. ` +
        `Nodes: ${[...states].map(([state, count]) => `${count} ${state}`).join(', ')}.` +
        (failed.length > 0 ? ` Failed uplinks: ${failed.join(', ')}.` : ''),
    ),
    el('p', {}, uplinksInWords(now, at)),
    el('ul', {}, ...list),
  ];
}

/// The uplinks of a rack that carry flows, with the letters of the jobs.
function uplinksInWords(now: Cluster, at: number): string {
  const mine = links?.[at];
  if (!mine) return 'Which flow takes which uplink is not known here.';
  const side = (flows: readonly Flow[] | undefined, way: string): string[] => {
    if (!flows) return [];
    const letters = flows.map(
      (flow) => now.jobs[now.jobById.get(flow.job) ?? -1]?.look.letter ?? '',
    );
    return [`${way} ${letters.join(' ')}${flows.length > 1 ? ' (shared)' : ''}`];
  };
  const used = (now.racks[at]?.spines ?? []).flatMap((spine) => {
    const both = [...side(mine.up.get(spine), 'out'), ...side(mine.down.get(spine), 'in')];
    return both.length > 0 ? [`spine ${spine}: ${both.join(', ')}`] : [];
  });
  return used.length > 0 ? `Uplinks: ${used.join('; ')}.` : 'Uplinks: no flow leaves the rack.';
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
        ? `${status.scheduler}, mode ${mode}${status.paused ? ', paused' : ''}${status.ready ? '' : `; not ready: ${withoutTurns(status.trouble)}`}`
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
  keepLooks();
  if (!shown) display(new Cluster(base.file, looks), base.flows);
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
      note('polled', '');
    } catch (error) {
      note('polled', words(error));
    }
  });
}

async function takeFiles(files: readonly File[]): Promise<void> {
  if (files.length === 0) return;
  note('told', '');
  try {
    const got = await dropped.take(files);
    if (typeof got === 'string') return note('told', got);
    // The server's reader checks it, and routes it.
    const answer = await api.whatIf({ snapshot: got.snapshot, changes: [], best_effort: false });
    base = {
      file: JSON.parse(answer.files.snapshot) as SnapshotFile,
      flows: answer.routes_before?.flows ?? null,
      own: true,
    };
    looks.keep(new Set()); // jobs of another cluster
    setText(byId('state'), 'your own files');
    whatIf.reset();
    note('told', got.warnings.join('\n'));
  } catch (error) {
    note('told', words(error));
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
  if (name === 'history') void past.open();
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
byId('trouble-close').addEventListener('click', () => note('told', ''));
byId('as-it-is').addEventListener('click', () => {
  note('told', '');
  if (!shown) {
    base = null;
    observed = null;
    looks.keep(new Set());
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
document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape') choose(null);
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
    note('polled', words(error));
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
      note('polled', connected ? '' : 'The connection to the controller is lost; trying again.');
      if (connected) soon(true);
    },
  );
}
void start();
