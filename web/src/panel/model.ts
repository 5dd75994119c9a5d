/// A panel: a few racks of slots, and the jobs whose workers sit in them. Each job is one group
/// with one ring; each slot holds one worker.

export type Slot = number | null; // the job whose worker sits there
export type Placement = readonly (readonly Slot[])[]; // rack, slot

/// counts[job][rack]: workers of the job on the rack. All that congestion depends on.
export type Counts = readonly (readonly number[])[];

export interface SlotId {
  rack: number;
  slot: number;
}

/// One rack a string: a letter is a worker of that job, anything else a free slot.
export function parsePlacement(rows: readonly string[]): Placement {
  return rows.map((row) =>
    [...row].map((cell) => (/[A-Z]/.test(cell) ? cell.charCodeAt(0) - 65 : null)),
  );
}

export function countsOf(placement: Placement, jobs: number): number[][] {
  return Array.from({ length: jobs }, (_, job) =>
    placement.map((rack) => rack.filter((slot) => slot === job).length),
  );
}

export const sum = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0);

/// Whether a job with these counts has workers in several racks: then its ring sends one flow out
/// of each of them.
export const isFragmented = (row: readonly number[]): boolean =>
  row.filter((n) => n > 0).length > 1;

/// Fragmentation degree of each rack: jobs with a worker in it and a worker outside.
export function degreesOf(counts: Counts, racks: number): number[] {
  const spread = counts.filter(isFragmented);
  return Array.from(
    { length: racks },
    (_, rack) => spread.filter((row) => (row[rack] ?? 0) > 0).length,
  );
}

/// Workers that change their rack between two placements, ½ Σ |w − w₀|: a move takes a worker from
/// one entry and adds it to another.
export const movesBetween = (before: Counts, after: Counts): number =>
  sum(before.map((row, job) => distance(row, after[job] ?? [])));

/// The same for one job.
export const distance = (before: readonly number[], after: readonly number[]): number =>
  sum(before.map((n, rack) => Math.max(0, n - (after[rack] ?? 0))));
