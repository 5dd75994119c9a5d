/// What the panel says in words.

import { letterOf } from '../lib/palette';
import { sum } from './model';

export const rackName = (rack: number): string => `R${rack + 1}`;
export const counted = (n: number, one: string, more = `${one}s`): string =>
  `${n} ${n === 1 ? one : more}`;

export function listed(words: readonly string[]): string {
  if (words.length < 2) return words.join('');
  return `${words.slice(0, -1).join(', ')} and ${words[words.length - 1]}`;
}

const kShares = ['', 'full', 'half', 'a third of their', 'a quarter of their'];
export const shareSign = (jobs: number): string => ['', '', '½', '⅓', '¼'][jobs] ?? `1/${jobs}`;

/// Who shares which uplink, and why: the one sentence that the panel is about.
export function verdict(
  degrees: readonly number[],
  uplinks: number,
  routed: readonly number[][][],
): string {
  const over = degrees.flatMap((degree, rack) => (degree > uplinks ? [rack] : []));
  const [first] = over;
  if (first === undefined) return 'No uplink is shared: every ring runs at full speed.';
  if (over.length > 1) {
    const shared = sum(routed.map((rack) => rack.filter((jobs) => jobs.length > 1).length));
    return (
      `${listed(over.map(rackName))} have more spread jobs than uplinks, so ` +
      `${counted(shared, 'uplink is', 'uplinks are')} shared and the jobs on ` +
      `${shared === 1 ? 'it' : 'them'} run slower.`
    );
  }
  const shared = (routed[first] ?? []).flatMap((jobs, i) =>
    jobs.length < 2
      ? []
      : `${listed(jobs.map(letterOf))} share ↑${i + 1} at ${kShares[jobs.length] ?? 'little'} speed`,
  );
  return `${rackName(first)} needs ${degrees[first]} uplinks and has ${uplinks}: ${listed(shared)}.`;
}

/// An uplink for those who do not see it.
export function uplinkInWords(jobs: readonly number[], uplink: number): string {
  const name = `uplink ${uplink + 1}`;
  if (jobs.length === 0) return `${name} idle`;
  if (jobs.length === 1) return `${name}: ${letterOf(jobs[0] ?? 0)}`;
  return `${name} shared by ${listed(jobs.map(letterOf))}`;
}

export function slotInWords(rack: number, slot: number, job: number | null): string {
  const place = `${rackName(rack)} slot ${slot + 1}`;
  return job === null ? `${place}, free` : `${place}, worker of ${letterOf(job)}`;
}
