/// From counts to workers that move: which worker leaves its slot for which.

import { type Counts, countsOf, type Placement, type Slot, type SlotId } from './model';

export interface Move {
  job: number;
  from: SlotId;
  to: SlotId;
}

/// Moves that are made together, because each waits for a slot that another leaves; mostly one.
export type Step = readonly Move[];

/// The moves that turn the placement into one with these counts, in an order in which slots are
/// free. The last workers of a job in a rack leave it; they take the first free slots.
export function stepsTo(placement: Placement, after: Counts): Step[] {
  const departures = departuresOf(placement, after);
  const slots = placement.map((rack) => [...rack]);
  const steps: Step[] = [];
  const waiting = departures;
  while (waiting.length > 0) {
    const next = waiting.findIndex((departure) => freeSlot(slots, departure.to) !== null);
    if (next >= 0) {
      const [departure] = waiting.splice(next, 1);
      if (departure) steps.push(perform(slots, [departure]));
    } else {
      // Only circles are left in which nobody can begin: everybody steps at once.
      steps.push(perform(slots, waiting.splice(0)));
    }
  }
  return steps;
}

export function applyStep(placement: Placement, step: Step): Placement {
  const slots = placement.map((rack) => [...rack]);
  for (const move of step) set(slots, move.from, null);
  for (const move of step) set(slots, move.to, move.job);
  return slots;
}

interface Departure {
  job: number;
  from: SlotId;
  to: number; // rack
}

function departuresOf(placement: Placement, after: Counts): Departure[] {
  const before = countsOf(placement, after.length);
  return after.flatMap((row, job) => {
    const racks = row.map((n, rack) => n - (before[job]?.[rack] ?? 0));
    const destinations = racks.flatMap((change, rack) =>
      Array<number>(Math.max(0, change)).fill(rack),
    );
    const sources = racks.flatMap((change, rack) => {
      const slots = (placement[rack] ?? []).flatMap((slot, i) => (slot === job ? [i] : []));
      return change < 0 ? slots.slice(change).map((slot) => ({ rack, slot })) : [];
    });
    return sources.map((from, i) => ({ job, from, to: destinations[i] ?? from.rack }));
  });
}

function freeSlot(slots: readonly Slot[][], rack: number): number | null {
  const slot = slots[rack]?.indexOf(null) ?? -1;
  return slot < 0 ? null : slot;
}

function perform(slots: Slot[][], departures: readonly Departure[]): Step {
  for (const departure of departures) set(slots, departure.from, null);
  return departures.map((departure) => {
    const to = { rack: departure.to, slot: freeSlot(slots, departure.to) ?? 0 };
    set(slots, to, departure.job);
    return { job: departure.job, from: departure.from, to };
  });
}

function set(slots: Slot[][], at: SlotId, value: Slot): void {
  const rack = slots[at.rack];
  if (rack) rack[at.slot] = value;
}
