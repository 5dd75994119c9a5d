import type { Cluster, Holder } from './model';

/// What stands where on the map, before anything is drawn.

const kMaxSlots = 8; // of a node, to draw each
const kMaxPlaces = 256; // of a rack, to draw each slot
const kMaxLinks = 16; // boxes in the row of uplinks
const kRest = 3; // of these boxes the one of the rest is wide

/// A job in a box, and how much of the box it fills (0 … 1).
export interface Share {
  job: number;
  part: number;
  workers: Holder[];
}
/// A place in a rack: a slot, or a whole node where slots are too many to draw.
export interface Cell {
  node: number;
  shares: readonly Share[];
}

const kEmpty: readonly Share[] = [];

/// Whether each slot has a box of its own; otherwise each node has one, split by its jobs.
export function hasBoxPerSlot(cluster: Cluster): boolean {
  const slots = cluster.nodes.reduce((most, node) => Math.max(most, node.slots), 1);
  const nodes = cluster.racks.reduce((most, rack) => Math.max(most, rack.nodes.length), 1);
  return slots <= kMaxSlots && slots * nodes <= kMaxPlaces;
}

/// The boxes of each rack.
export function cellsOf(cluster: Cluster, perSlot = hasBoxPerSlot(cluster)): Cell[][] {
  return cluster.racks.map((rack) =>
    rack.nodes.flatMap((node) =>
      perSlot ? slotCells(cluster, node) : [{ node, shares: sharesOf(cluster, node) }],
    ),
  );
}

function slotCells(cluster: Cluster, node: number): Cell[] {
  const cells: Cell[] = [];
  const end = cluster.nodes[node]?.slots ?? 1;
  for (const holder of cluster.holders[node] ?? []) {
    const shares = [{ job: holder.job, part: 1, workers: [holder] }];
    const slots = cluster.groups[holder.group]?.slots ?? 1;
    for (let i = 0; i < slots && cells.length < end; i++) cells.push({ node, shares });
  }
  while (cells.length < end) cells.push({ node, shares: kEmpty });
  return cells;
}

/// The jobs of a node by the slots they hold.
function sharesOf(cluster: Cluster, node: number): Share[] {
  const shares = new Map<number, Share>();
  const all = Math.max(1, cluster.nodes[node]?.slots ?? 1);
  for (const holder of cluster.holders[node] ?? []) {
    const share = shares.get(holder.job) ?? { job: holder.job, part: 0, workers: [] };
    share.part += (cluster.groups[holder.group]?.slots ?? 1) / all;
    share.workers.push(holder);
    shares.set(holder.job, share);
  }
  return [...shares.values()];
}

/// Whether two clusters have the same racks, pods, nodes and slots: all that the layout asks.
export function sameLayout(one: Cluster, other: Cluster): boolean {
  return (
    one.racks.length === other.racks.length &&
    one.nodes.length === other.nodes.length &&
    one.racks.every((rack, id) => {
      const there = other.racks[id];
      return (
        rack.name === there?.name &&
        rack.pod === there.pod &&
        rack.nodes.length === there.nodes.length
      );
    }) &&
    one.nodes.every((node, id) => {
      const there = other.nodes[id];
      return node.name === there?.name && node.slots === there.slots;
    })
  );
}

/// A box in the row of uplinks: an uplink, or all those for which there is no room. `at` and `width`
/// are parts of the row.
export interface LinkBox {
  spines: readonly number[];
  at: number;
  width: number;
}

export function linkBoxes(spines: readonly number[]): LinkBox[] {
  const fits = spines.length <= kMaxLinks;
  // The box of the rest says how many they are, and is as wide as that needs.
  const single = fits ? spines.length : kMaxLinks - kRest;
  const units = fits ? spines.length : kMaxLinks;
  const boxes: LinkBox[] = spines
    .slice(0, single)
    .map((spine, at) => ({ spines: [spine], at: at / units, width: 1 / units }));
  if (!fits) boxes.push({ spines: spines.slice(single), at: single / units, width: kRest / units });
  return boxes;
}
