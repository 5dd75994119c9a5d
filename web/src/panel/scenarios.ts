import { parsePlacement, type Placement } from './model';

/// What a scheduler's placements look like after some jobs have come and gone.
const kPlacements: { readonly [jobs: number]: readonly string[] } = {
  3: ['AAAABB..', 'AAACC...', 'AAABBCC.', 'CCCBB...'],
  4: ['AAAAABB.', 'AAACCCD.', 'AACCCBBD', 'CBBDDD..'],
};

export function schedulerPlacement(jobs: number): Placement {
  return parsePlacement(kPlacements[jobs] ?? []);
}

export const kRacks = 4;
export const kSlots = 8;
export const kJobChoices = [3, 4] as const;
export const kUplinkChoices = [1, 2, 3] as const;
export const kDefaultJobs = 3;
export const kDefaultUplinks = 2;

/// Seconds that one move halts its job, measured on the paper's prototype (Llama3-8B, 12 GB a
/// worker, A100, 100 Gb/s): overhead, and time on the wire.
export const kOverheadSeconds = 9.02;
export const kWireSeconds = 1.07;
export const pauseSeconds = (moves: number): number => moves * (kOverheadSeconds + kWireSeconds);
