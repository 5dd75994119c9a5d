/// Which uplink each ring flow takes: Perfect routing (paper §5.4) for a panel.

import { type Counts, degreesOf } from './model';

export interface Flow {
  job: number;
  from: number; // rack it leaves
  to: number; // rack it enters
}

/// A job's ring visits its racks in order, so it leaves each of them once.
export function flowsOf(counts: Counts): Flow[] {
  return counts.flatMap((row, job) => {
    const racks = row.flatMap((n, rack) => (n > 0 ? [rack] : []));
    if (racks.length < 2) return [];
    return racks.map((from, i) => ({ job, from, to: racks[(i + 1) % racks.length] ?? from }));
  });
}

/// Jobs on each uplink: uplinks[rack][uplink], lowest job first.
///
/// Flows are edges from sending to receiving racks, coloured so that two that meet differ; with
/// more colours than uplinks, colour c goes up uplink c mod λ. Of all such colourings one that folds
/// evenly is taken: on both sides of a rack every link carries ⌊degree ÷ λ⌋ flows or one more, so a
/// rack within its bound shares nothing even where another must. One always exists (de Werra); a
/// search that takes the first uplink with room, and goes back where it is stuck, finds it.
export function uplinksOf(counts: Counts, racks: number, uplinks: number): number[][][] {
  const flows = flowsOf(counts).sort((a, b) => a.from - b.from || a.job - b.job);
  const degrees = degreesOf(counts, racks);
  const none = () => Array.from({ length: racks }, () => Array<number>(uplinks).fill(0));
  const up = none();
  const down = none();
  const chosen: number[] = [];

  const hasRoom = (links: readonly number[], degree: number, link: number): boolean => {
    const few = Math.floor(degree / uplinks);
    const n = links[link] ?? 0;
    return n < few || (n === few && links.filter((m) => m > few).length < degree % uplinks);
  };
  const route = (): boolean => {
    const flow = flows[chosen.length];
    if (!flow) return true;
    const out = up[flow.from] ?? [];
    const into = down[flow.to] ?? [];
    for (let link = 0; link < uplinks; link++) {
      if (!hasRoom(out, degrees[flow.from] ?? 0, link)) continue;
      if (!hasRoom(into, degrees[flow.to] ?? 0, link)) continue;
      out[link] = (out[link] ?? 0) + 1;
      into[link] = (into[link] ?? 0) + 1;
      chosen.push(link);
      if (route()) return true;
      chosen.pop();
      out[link] = (out[link] ?? 0) - 1;
      into[link] = (into[link] ?? 0) - 1;
    }
    return false;
  };
  if (!route()) throw new Error('no even folding, although one always exists');

  const jobs = Array.from({ length: racks }, () =>
    Array.from({ length: uplinks }, (): number[] => []),
  );
  flows.forEach((flow, i) => jobs[flow.from]?.[chosen[i] ?? 0]?.push(flow.job));
  return jobs;
}

export const mostOnOneUplink = (uplinks: readonly number[][][]): number =>
  Math.max(0, ...uplinks.flat().map((jobs) => jobs.length));
