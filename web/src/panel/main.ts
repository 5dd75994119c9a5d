import '../lib/theme.css';
import './panel.css';
import { byId, el, setText, update } from '../lib/dom';
import { letterOf, lookOf } from '../lib/palette';
import { wantsLittleMotion } from '../lib/theme';
import { type SlotId, sum } from './model';
import {
  kJobChoices,
  kOverheadSeconds,
  kRacks,
  kSlots,
  kUplinkChoices,
  kWireSeconds,
  pauseSeconds,
} from './scenarios';
import { PanelState, type Readings } from './state';
import { type Step } from './steps';
import { counted, listed, rackName, shareSign, slotInWords, uplinkInWords, verdict } from './words';

const kGlideMs = 450;

const state = new PanelState();
let focused: SlotId = { rack: 0, slot: 0 };
/// Ends the animation that runs: what is left of it happens at once.
let hurry = (): void => {};

// The racks are made once; render() only changes what differs.

interface RackView {
  row: HTMLElement;
  degree: HTMLElement;
  slots: HTMLButtonElement[];
  links: HTMLElement;
  linksInWords: HTMLElement;
}

const racks: RackView[] = Array.from({ length: kRacks }, (_, rack) => {
  const slots = Array.from({ length: kSlots }, (_unused, slot) =>
    el('button', {
      type: 'button',
      class: 'slot',
      'data-rack': rack,
      'data-slot': slot,
      on: { click: () => choose({ rack, slot }), focus: () => moveFocus({ rack, slot }) },
    }),
  );
  const degree = el('span', { class: 'degree' });
  const links = el('span', { class: 'links', 'aria-hidden': 'true' });
  const linksInWords = el('span', { class: 'unseen' });
  const row = el(
    'div',
    { role: 'row', class: 'rack' },
    el('span', { role: 'rowheader', class: 'name' }, el('b', {}, rackName(rack)), degree),
    el(
      'span',
      { class: 'slots', role: 'presentation' },
      ...slots.map((button) => el('span', { role: 'gridcell' }, button)),
    ),
    el('span', { role: 'gridcell', class: 'uplinks' }, links, linksInWords),
  );
  return { row, degree, slots, links, linksInWords };
});

const buttonAt = ({ rack, slot }: SlotId): HTMLButtonElement | undefined =>
  racks[rack]?.slots[slot];

function renderSlot(at: SlotId): void {
  const button = buttonAt(at);
  if (!button) return;
  const job = state.at(at);
  const isPicked = state.picked?.rack === at.rack && state.picked.slot === at.slot;
  update(button, {
    'data-job': job === null ? null : letterOf(job),
    'data-color': job === null ? null : lookOf(job).color,
    'data-moved': state.hasMoved(at),
    'data-free': job === null,
    'aria-pressed': job === null ? null : String(isPicked),
    'aria-label': slotInWords(at.rack, at.slot, job),
    tabindex: at.rack === focused.rack && at.slot === focused.slot ? 0 : -1,
  });
  setText(button, job === null ? '' : letterOf(job));
}

function renderUplinks(view: RackView, uplinks: readonly number[][]): void {
  view.links.replaceChildren(
    ...uplinks.map((jobs, i) =>
      el(
        'span',
        { class: 'link', 'data-sharers': jobs.length, 'data-jobs': jobs.map(letterOf).join('') },
        el('i', { class: 'number' }, `↑${i + 1}`),
        el(
          'span',
          { class: 'lanes' },
          ...jobs.map((job) =>
            el(
              'span',
              { class: 'lane', 'data-color': lookOf(job).color },
              el('b', {}, letterOf(job)),
              el('span', { class: 'flow' }),
            ),
          ),
        ),
        jobs.length > 1 && el('i', { class: 'share' }, shareSign(jobs.length)),
      ),
    ),
  );
  setText(view.linksInWords, uplinks.map(uplinkInWords).join('; '));
}

function renderRack(rack: number, readings: Readings): void {
  const view = racks[rack];
  if (!view) return;
  const degree = readings.degrees[rack] ?? 0;
  update(view.row, { 'data-over': degree > state.uplinks });
  setText(view.degree, `f = ${degree}${degree > state.uplinks ? ` > ${state.uplinks}` : ''}`);
  for (let slot = 0; slot < kSlots; slot++) renderSlot({ rack, slot });
  renderUplinks(view, readings.uplinks[rack] ?? []);
}

// Read-outs: a name, and what stands there now.

const kReadouts: readonly { id: string; name: string; read: (r: Readings) => string }[] = [
  {
    id: 'degrees',
    name: 'Fragmentation degree, R1 to R4',
    read: (r) => r.degrees.join(' '),
  },
  { id: 'over', name: 'Racks over λ', read: (r) => String(r.racksOver) },
  { id: 'most', name: 'Most jobs on one uplink', read: (r) => String(r.mostOnOneUplink) },
  { id: 'moves', name: 'Moves made', read: () => String(state.moves) },
  {
    id: 'fewest-moves',
    name: 'Fewest moves to comply',
    read: (r) => (r.fewestMoves === null ? 'none will do' : String(r.fewestMoves)),
  },
  {
    id: 'pause',
    name: `Pause, ${kOverheadSeconds} + ${kWireSeconds} s a move`,
    read: () => `${pauseSeconds(state.moves).toFixed(2)} s`,
  },
];

const readouts = kReadouts.map(({ id, name, read }) => ({ read, name, value: el('dd', { id }) }));

function render(): Readings {
  const readings = state.readings();
  for (let rack = 0; rack < kRacks; rack++) renderRack(rack, readings);
  update(byId('racks'), { 'data-picking': state.picked !== null });
  const congested = readings.racksOver > 0;
  update(byId('verdict'), { 'data-congested': congested });
  setText(byId('verdict'), verdict(readings.degrees, state.uplinks, readings.uplinks));
  for (const { read, value } of readouts) setText(value, read(readings));
  update(byId('over'), { 'data-bad': congested });
  update(byId('most'), { 'data-bad': readings.mostOnOneUplink > 1 });
  return readings;
}

/// What was done, for everybody; where that leads, for those who do not see the read-outs.
function say(done: string, readings: Readings | null = null): void {
  const rest = readings && [
    verdict(readings.degrees, state.uplinks, readings.uplinks),
    ...readouts.map(({ name, read }) => `${name}: ${read(readings)}.`),
  ];
  byId('message').replaceChildren(
    el('span', {}, done),
    ...(rest ? [el('span', { class: 'unseen' }, ` ${rest.join(' ')}`)] : []),
  );
}

// What the reader does.

function choose(slot: SlotId): void {
  hurry();
  const before = state.picked;
  const step = state.choose(slot);
  if (step) {
    perform(step);
    return;
  }
  render();
  const job = state.picked && state.at(state.picked);
  if (job !== null) {
    const name = letterOf(job);
    say(`A worker of ${name} is picked. Choose a free slot, or another job’s worker to swap with.`);
  } else {
    say(before ? 'Let go.' : 'That slot is free. Pick a worker first.');
  }
}

function perform(step: Step): void {
  const [first, second] = step;
  if (!first) return;
  state.perform(step);
  const readings = render();
  void glide(step);
  const from = rackName(first.from.rack);
  const to = rackName(first.to.rack);
  const name = letterOf(first.job);
  if (second)
    say(`Swapped ${name} in ${from} and ${letterOf(second.job)} in ${to}: 2 moves.`, readings);
  else if (from === to)
    say(`${name} moved within ${from}: a pause that changes no uplink.`, readings);
  else say(`${name} moved from ${from} to ${to}.`, readings);
}

/// Carries out steps one after the other, each worker gliding to its new slot.
async function play(name: string, steps: readonly Step[]): Promise<void> {
  hurry();
  const left = [...steps];
  let isHurried = wantsLittleMotion();
  hurry = () => {
    isHurried = true;
    for (const step of left.splice(0)) state.perform(step);
    render();
  };
  state.picked = null;
  say(`${name} …`);
  for (let step = left.shift(); step; step = left.shift()) {
    state.perform(step);
    if (isHurried) continue;
    render();
    await glide(step);
  }
  if (isHurried && !wantsLittleMotion()) return; // whoever came between speaks now
  hurry = () => {};
  const moves = sum(steps.map((step) => step.length));
  const pause = pauseSeconds(moves).toFixed(2);
  const jobs = [...new Set(steps.flat().map((move) => letterOf(move.job)))].sort();
  say(`${name}: ${counted(moves, 'move')} of ${listed(jobs)}, ${pause} s of pause.`, render());
}

/// Lets the workers of a step, which are in their new slots already, come from their old ones.
async function glide(step: Step): Promise<void> {
  if (wantsLittleMotion()) return;
  const glides = step.map(({ from, to }) => {
    const button = buttonAt(to);
    const start = buttonAt(from)?.getBoundingClientRect();
    const end = button?.getBoundingClientRect();
    if (!button || !start || !end) return Promise.resolve();
    const offset = `translate(${start.left - end.left}px, ${start.top - end.top}px)`;
    return button.animate(
      [
        { transform: offset, zIndex: 2 },
        { transform: 'none', zIndex: 2 },
      ],
      { duration: kGlideMs, easing: 'ease-in-out' },
    ).finished;
  });
  await Promise.allSettled(glides);
}

// Keyboard: one slot is in the order of tabs, arrows go to the others.

function moveFocus(to: SlotId): void {
  const before = focused;
  focused = to;
  renderSlot(before);
  renderSlot(to);
}

function onKey(event: KeyboardEvent): void {
  const { rack, slot } = focused;
  const within = (n: number, size: number) => Math.max(0, Math.min(size - 1, n));
  const to: { [key: string]: SlotId } = {
    ArrowLeft: { rack, slot: within(slot - 1, kSlots) },
    ArrowRight: { rack, slot: within(slot + 1, kSlots) },
    ArrowUp: { rack: within(rack - 1, kRacks), slot },
    ArrowDown: { rack: within(rack + 1, kRacks), slot },
    Home: { rack, slot: 0 },
    End: { rack, slot: kSlots - 1 },
  };
  const target = to[event.key];
  if (!target) return;
  event.preventDefault();
  buttonAt(target)?.focus();
}

function letGo(): void {
  if (!state.picked) return;
  state.picked = null;
  render();
  say('Let go.');
}

function radios(
  into: string,
  choices: readonly number[],
  current: number,
  change: (n: number) => void,
): void {
  for (const n of choices) {
    const input = el('input', {
      type: 'radio',
      name: into,
      value: n,
      checked: n === current,
      on: { change: () => change(n) },
    });
    byId(into).append(el('label', {}, input, el('span', {}, n)));
  }
}

function backToScheduler(jobs = state.jobs): void {
  hurry();
  state.reset(jobs);
  say('As the scheduler left it.', render());
}

byId('racks').append(...racks.map((rack) => rack.row));
byId('readouts').append(
  ...readouts.map(({ name, value }) => el('div', {}, el('dt', {}, name), value)),
);
byId('racks').addEventListener('keydown', onKey);
document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape') letGo();
});
radios('jobs', kJobChoices, state.jobs, backToScheduler);
radios('uplinks', kUplinkChoices, state.uplinks, (n) => {
  hurry();
  state.uplinks = n;
  say(`${counted(n, 'uplink')} per rack.`, render());
});
byId('scheduler').addEventListener('click', () => backToScheduler());
byId('fill').addEventListener('click', () => {
  hurry();
  const steps = state.stepsToFill();
  if (steps.length === 0) say('It is filled in sequence already.');
  else void play('Sequential fill', steps);
});
byId('fewest').addEventListener('click', () => {
  hurry();
  const steps = state.stepsToFewest();
  if (!steps) say('No placement of these jobs keeps every rack within λ.');
  else if (steps.length === 0) say('Nothing to mend: no rack is over λ.');
  else void play('Fewest moves', steps);
});
render();
say('Pick a worker, or press Fewest moves.');
