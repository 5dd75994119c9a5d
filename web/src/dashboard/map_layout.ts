import { hasBoxPerSlot } from './cells';
import type { Cluster } from './model';

/// Where each rack is on the map, in the map's own measure: blocks of racks, a pod each.

export const kCell = 18;
export const kPitch = 20;
export const kHead = 22;
export const kLink = 15;
export const kPad = 6;
const kGap = 14;

export interface Tile {
  x: number;
  y: number;
}
interface Pod {
  name: string;
  x: number;
  y: number;
  racks: number[];
}
export interface Layout {
  tiles: readonly Tile[]; // by rack
  tileWidth: number;
  tileHeight: number;
  perSlot: boolean; // a box for each slot, not for each node
  perRow: number; // boxes
  pods: readonly Pod[]; // none where there is only one
  podHead: number; // height of a pod's name
  width: number; // of all
  height: number;
}

/// Of no cluster.
export const kNoLayout: Layout = {
  tiles: [],
  tileWidth: 0,
  tileHeight: 0,
  perSlot: true,
  perRow: 1,
  pods: [],
  podHead: 0,
  width: 1,
  height: 1,
};

/// For a window of that width and height.
export function layOut(cluster: Cluster, width: number, height: number): Layout {
  const slots = cluster.nodes.reduce((most, node) => Math.max(most, node.slots), 1);
  const most = cluster.racks.reduce((sofar, rack) => Math.max(sofar, rack.nodes.length), 1);
  const perSlot = hasBoxPerSlot(cluster);
  const places = perSlot ? slots * most : most;
  let perRow = Math.max(4, places <= 64 ? Math.min(8, places) : 16);
  if (perSlot && perRow % slots !== 0) perRow = slots * Math.max(1, Math.floor(8 / slots));
  const tileWidth = perRow * kPitch + 2 * kPad;
  const tileHeight = kHead + Math.ceil(places / perRow) * kPitch + 2 * kLink + 2 * kPad;
  const stepX = tileWidth + kGap;
  const stepY = tileHeight + kGap;
  const aspect = Math.max(0.3, width / Math.max(1, height));
  const columns = Math.max(
    1,
    Math.min(
      cluster.racks.length,
      Math.round(Math.sqrt((cluster.racks.length * aspect * stepY) / stepX)),
    ),
  );
  const byPod = new Map<string, number[]>();
  for (const [id, rack] of cluster.racks.entries()) {
    const there = byPod.get(rack.pod);
    if (there) there.push(id);
    else byPod.set(rack.pod, [id]);
  }
  const tiles = new Array<Tile>(cluster.racks.length);
  const pods: Pod[] = [];
  // Blocks of racks, a pod each, side by side until a row is full.
  const many = byPod.size > 1;
  const rowWidth = kGap + columns * stepX;
  // Large enough to read with all racks in view.
  const podHead = Math.min(2.5 * stepY, Math.max(30, (16 * rowWidth) / width));
  let x = kGap;
  let y = kGap;
  let rowHeight = 0;
  let worldWidth = rowWidth;
  for (const [name, racks] of byPod) {
    const wide = many
      ? Math.max(1, Math.round(Math.sqrt((racks.length * aspect * stepY) / stepX)))
      : columns;
    if (x > kGap && x + wide * stepX > rowWidth + stepX) {
      x = kGap;
      y += rowHeight;
      rowHeight = 0;
    }
    if (many) pods.push({ name, x, y, racks });
    const top = many ? y + podHead : y;
    for (const [at, rack] of racks.entries()) {
      tiles[rack] = { x: x + (at % wide) * stepX, y: top + Math.floor(at / wide) * stepY };
    }
    x += wide * stepX + (many ? 2 * kGap : 0);
    worldWidth = Math.max(worldWidth, x);
    rowHeight = Math.max(rowHeight, top - y + Math.ceil(racks.length / wide) * stepY + kGap);
  }
  return {
    tiles,
    tileWidth,
    tileHeight,
    perSlot,
    perRow,
    pods,
    podHead,
    width: worldWidth,
    height: y + rowHeight,
  };
}

/// The corner of a box of a rack.
export function cellAt(layout: Layout, tile: Tile, at: number): { x: number; y: number } {
  return {
    x: tile.x + kPad + (at % layout.perRow) * kPitch,
    y: tile.y + kHead + Math.floor(at / layout.perRow) * kPitch,
  };
}

/// The rack that an arrow leads to from one; null for another key.
export function neighbour(layout: Layout, at: number | null, key: string): number | null {
  const direction = {
    ArrowLeft: [-1, 0],
    ArrowRight: [1, 0],
    ArrowUp: [0, -1],
    ArrowDown: [0, 1],
  }[key];
  if (!direction || layout.tiles.length === 0) return null;
  if (at === null) return 0;
  const from = layout.tiles[at];
  if (!from) return 0;
  const [dx = 0, dy = 0] = direction;
  let best: number | null = null;
  let nearest = Infinity;
  for (const [rack, tile] of layout.tiles.entries()) {
    const along = (tile.x - from.x) * dx + (tile.y - from.y) * dy;
    const aside = Math.abs((tile.x - from.x) * dy) + Math.abs((tile.y - from.y) * dx);
    if (along <= 0 || along + 4 * aside >= nearest) continue;
    nearest = along + 4 * aside;
    best = rack;
  }
  return best ?? at;
}
