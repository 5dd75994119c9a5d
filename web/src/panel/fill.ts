import { type Counts, sum } from './model';

/// Theorem 1's construction (paper §5.1): the largest job first, fill the racks from the first to
/// the last. Each rack then holds the tail of one job, whole jobs and the head of one job, so its
/// degree is at most 2. All workers must have room.
export function sequentialFill(counts: Counts, capacity: readonly number[]): number[][] {
  const order = counts.map((_, job) => job);
  order.sort((a, b) => sum(counts[b] ?? []) - sum(counts[a] ?? [])); // ties: lowest first
  const out = counts.map((row) => row.map(() => 0));
  const room = [...capacity];
  let rack = 0;
  for (const job of order) {
    const row = out[job] ?? [];
    for (let left = sum(counts[job] ?? []); left > 0;) {
      while ((room[rack] ?? 0) === 0) rack++;
      const n = Math.min(left, room[rack] ?? 0);
      row[rack] = (row[rack] ?? 0) + n;
      room[rack] = (room[rack] ?? 0) - n;
      left -= n;
    }
  }
  return out;
}
