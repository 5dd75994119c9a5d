import * as api from './api';
import { kStaging, type Step } from './model';

/// The journal as moments that one can go to: of each plan the cluster before it and after each of
/// its moves.

/// The moves of a job that are made together, in one pause.
export interface Moment {
  steps: Step[];
  ended_s: number | null; // null: only planned
  paused_s: number | null;
}

/// What a plan moved, in the order in which the jobs went on; of one that moved nothing, what it
/// would have moved.
export function momentsOf(plan: api.PlanDetail): Moment[] {
  const made = plan.migrations.filter((one) => kMoved.has(one.state));
  if (made.length === 0) return (plan.plan?.rounds ?? []).flatMap(plannedIn);
  const moments = made.map((one) => {
    const steps = plan.steps.filter((step) => step.migration === one.id);
    const pause = steps.find((step) => step.step === 'pause');
    const last = steps.filter((step) => step.step === 'restore' || step.step === 'resume').at(-1);
    const ended_s = last?.ended_s ?? null;
    return {
      steps: one.moves.map((move) => ({ job: one.job, ...move })),
      ended_s,
      paused_s: pause && ended_s !== null ? ended_s - pause.began_s : null,
    };
  });
  return moments.sort((a, b) => (a.ended_s ?? Infinity) - (b.ended_s ?? Infinity));
}

const kMoved = new Set(['restored', 'resumed', 'released']);

function plannedIn(round: readonly Step[]): Moment[] {
  const jobs = [...new Set(round.map((step) => step.job))];
  return jobs.map((job) => ({
    steps: round.filter((step) => step.job === job),
    ended_s: null,
    paused_s: null,
  }));
}

export const timeOf = (seconds: number): string =>
  new Date(seconds * 1000).toISOString().replace('T', ' ').slice(0, 19) + ' UTC';

/// The cluster as a plan found it: when it was made, why, and what became of it.
export function planInWords(plan: api.PlanHead, detail: api.PlanDetail | undefined): string {
  const over = (detail?.decision?.racks_over ?? []).map(
    (rack) => `${rack.rack} ${rack.degree_before} of ${rack.bound}`,
  );
  const few = over.slice(0, kFewRacks).join(', ') + (over.length > kFewRacks ? ', …' : '');
  return (
    `Plan ${plan.id}, ${timeOf(plan.made_s)}: ${plan.moves} ${plan.moves === 1 ? 'move' : 'moves'}, ` +
    `${plan.state}${plan.reason === '' ? '' : `, ${plan.reason}`}` +
    (few === '' ? '' : `. Above their bound: ${few}`)
  );
}

const kFewRacks = 4;

/// Which workers moved, from where to where, when, and how long their job paused for it.
export function momentInWords(moment: Moment): string {
  const job = moment.steps[0]?.job ?? '';
  const moves = moment.steps.map(
    ({ worker, from, to }) => `worker ${worker} from ${placeOf(from)} to ${placeOf(to)}`,
  );
  const when =
    moment.ended_s === null
      ? 'planned only'
      : timeOf(moment.ended_s) +
        (moment.paused_s === null ? '' : `, after a pause of ${moment.paused_s.toFixed(1)} s`);
  return `Job ${job}, ${moves.join(', ')}; ${when}`;
}

const placeOf = (node: string): string => (node === kStaging ? 'staging' : node);
