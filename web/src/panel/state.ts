/// What is on the panel, without how it is shown.

import { sequentialFill } from './fill';
import { countsOf, degreesOf, type Placement, type SlotId } from './model';
import { mostOnOneUplink, uplinksOf } from './routes';
import { kDefaultJobs, kDefaultUplinks, kRacks, kSlots, schedulerPlacement } from './scenarios';
import { fewestMoves } from './solver';
import { applyStep, type Step, stepsTo } from './steps';

const kCapacity = Array<number>(kRacks).fill(kSlots);

/// All that is read off a placement.
export interface Readings {
  degrees: number[];
  uplinks: number[][][]; // jobs by rack and uplink
  racksOver: number;
  mostOnOneUplink: number;
  fewestMoves: number | null; // from here; null where no placement complies
}

export class PanelState {
  jobs = kDefaultJobs;
  uplinks = kDefaultUplinks;
  placement: Placement = schedulerPlacement(kDefaultJobs);
  moves = 0;
  picked: SlotId | null = null;

  /// As the scheduler left it, nothing moved.
  reset(jobs = this.jobs): void {
    this.jobs = jobs;
    this.placement = schedulerPlacement(jobs);
    this.moves = 0;
    this.picked = null;
  }

  at(slot: SlotId): number | null {
    return this.placement[slot.rack]?.[slot.slot] ?? null;
  }

  /// A worker that is not where the scheduler put it.
  hasMoved(slot: SlotId): boolean {
    const job = this.at(slot);
    return job !== null && schedulerPlacement(this.jobs)[slot.rack]?.[slot.slot] !== job;
  }

  /// What choosing a slot asks for: a step, or null where it only picks a worker or lets it go.
  choose(slot: SlotId): Step | null {
    const from = this.picked;
    const job = this.at(slot);
    if (from === null || job === this.at(from)) {
      const again = from?.rack === slot.rack && from.slot === slot.slot;
      this.picked = job === null || again ? null : slot;
      return null;
    }
    this.picked = null;
    const mover = this.at(from);
    if (mover === null) return null;
    const there = { job: mover, from, to: slot };
    return job === null ? [there] : [there, { job, from: slot, to: from }];
  }

  perform(step: Step): void {
    this.placement = applyStep(this.placement, step);
    this.moves += step.length;
  }

  readings(): Readings {
    const counts = countsOf(this.placement, this.jobs);
    const degrees = degreesOf(counts, kRacks);
    const uplinks = uplinksOf(counts, kRacks, this.uplinks);
    return {
      degrees,
      uplinks,
      racksOver: degrees.filter((degree) => degree > this.uplinks).length,
      mostOnOneUplink: mostOnOneUplink(uplinks),
      fewestMoves: this.solution()?.moves ?? null,
    };
  }

  stepsToFewest(): Step[] | null {
    const solution = this.solution();
    return solution && stepsTo(this.placement, solution.counts);
  }

  stepsToFill(): Step[] {
    return stepsTo(this.placement, sequentialFill(countsOf(this.placement, this.jobs), kCapacity));
  }

  private solution() {
    return fewestMoves({
      counts: countsOf(this.placement, this.jobs),
      capacity: kCapacity,
      bound: Array<number>(kRacks).fill(this.uplinks),
    });
  }
}
