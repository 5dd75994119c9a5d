import { colorOf, type JobLook, kColors, lookOf, type Pattern } from '../lib/palette';
import { type Cell, linkBoxes } from './cells';
import { cellAt, kCell, kHead, kLink, kPad, kPitch, type Layout, type Tile } from './map_layout';
import type { Cluster, Flow, Links } from './model';

/// Draws the map: a rack is from very far one square, as dark as it is full, from far a bar of its
/// jobs, nearer its rows, nearest its slots with letters.

/// A worker between two boxes.
export interface Flight {
  job: number;
  fromX: number;
  fromY: number;
  toX: number;
  toY: number;
}

/// What is to be drawn, and the part of it that is in the window.
export interface Scene {
  cluster: Cluster;
  links: Links[] | null; // null: not known
  layout: Layout;
  cells: readonly Cell[][];
  selectedRack: number | null;
  selectedJob: number | null;
  marked: ReadonlySet<number>; // nodes
  flights: readonly Flight[];
  flown: number; // 0 … 1
  scale: number;
  x: number; // of the map's origin, in CSS pixels
  y: number;
  width: number; // of the window
  height: number;
}

/// The page's colours, light or dark, and patterns of them.
export class Inks {
  readonly patterns = new Map<string, CanvasPattern>();
  readonly colors = {
    page: colorOf('--page'),
    card: colorOf('--card'),
    ink: colorOf('--ink'),
    soft: colorOf('--soft'),
    line: colorOf('--edge'),
    warn: colorOf('--warn'),
    warnBack: colorOf('--warn-back'),
    accent: colorOf('--accent'),
    onJob: colorOf('--on-job'),
    jobs: Array.from({ length: kColors }, (_, i) => colorOf(`--job-${i}`)),
  };
}

export class Painter {
  constructor(
    private readonly ctx: CanvasRenderingContext2D,
    private readonly inks: Inks,
    private readonly scene: Scene,
  ) {}

  draw(): void {
    const { ctx, scene } = this;
    const { layout } = scene;
    const ratio = devicePixelRatio;
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    ctx.clearRect(0, 0, scene.width, scene.height);
    const scale = ratio * scene.scale;
    ctx.setTransform(scale, 0, 0, scale, ratio * scene.x, ratio * scene.y);
    const left = -scene.x / scene.scale;
    const top = -scene.y / scene.scale;
    const right = left + scene.width / scene.scale;
    const bottom = top + scene.height / scene.scale;
    const near = kPitch * scene.scale >= 10;
    const width = layout.tileWidth * scene.scale;
    ctx.textBaseline = 'middle';
    for (const [rack, tile] of layout.tiles.entries()) {
      if (tile.x > right || tile.x + layout.tileWidth < left) continue;
      if (tile.y > bottom || tile.y + layout.tileHeight < top) continue;
      if (width < 14) this.drawSquare(rack, tile);
      else if (width < 46) this.drawBar(rack, tile);
      else this.drawRack(rack, tile, near);
    }
    ctx.globalAlpha = 1;
    this.drawPods();
    for (const flight of scene.flights) this.drawFlight(flight);
  }

  private drawPods(): void {
    const { ctx } = this;
    const { colors } = this.inks;
    ctx.fillStyle = colors.ink;
    ctx.textAlign = 'left';
    const size = Math.min(this.scene.layout.podHead * 0.8, Math.max(16, 12 / this.scene.scale));
    ctx.font = `600 ${size}px system-ui, sans-serif`;
    for (const pod of this.scene.layout.pods) {
      const over = pod.racks.filter((rack) => this.scene.cluster.over(rack)).length;
      const text = `${pod.name === '' ? 'no pod' : pod.name}${over > 0 ? ` ▲${over}` : ''}`;
      ctx.fillStyle = over > 0 ? colors.warn : colors.ink;
      ctx.fillText(text, pod.x, pod.y + this.scene.layout.podHead - size * 0.65);
    }
  }

  /// A rack from very far: as dark as it is full, in another colour where it is over its bound or has
  /// workers of the job that is selected.
  private drawSquare(rack: number, tile: Tile): void {
    const { ctx } = this;
    const { colors } = this.inks;
    const cells = this.scene.cells[rack] ?? [];
    const held =
      cells.reduce((sum, cell) => cell.shares.reduce((part, share) => part + share.part, sum), 0) /
      Math.max(1, cells.length);
    const chosen =
      rack === this.scene.selectedRack ||
      (this.scene.selectedJob !== null &&
        cells.some((cell) => cell.shares.some((share) => share.job === this.scene.selectedJob)));
    const over = this.scene.cluster.over(rack);
    ctx.globalAlpha = chosen || over ? 1 : 0.15 + 0.6 * held;
    ctx.fillStyle = chosen ? colors.accent : over ? colors.warn : colors.soft;
    ctx.fillRect(tile.x, tile.y, this.scene.layout.tileWidth, this.scene.layout.tileHeight);
  }

  private lookOf(job: number): JobLook {
    return this.scene.cluster.jobs[job]?.look ?? lookOf(job);
  }

  private colorOf(job: number): string {
    const { colors } = this.inks;
    return colors.jobs[this.lookOf(job).color] ?? colors.soft;
  }

  private alphaOf(job: number): number {
    return this.scene.selectedJob === null || this.scene.selectedJob === job ? 1 : 0.22;
  }

  private frame(rack: number, tile: Tile): void {
    const { ctx } = this;
    const { colors } = this.inks;
    const over = this.scene.cluster.over(rack);
    const selected = rack === this.scene.selectedRack;
    ctx.globalAlpha = 1;
    ctx.lineWidth = (selected ? 3 : over ? 2 : 1) / this.scene.scale;
    ctx.strokeStyle = selected ? colors.accent : over ? colors.warn : colors.line;
    ctx.strokeRect(tile.x, tile.y, this.scene.layout.tileWidth, this.scene.layout.tileHeight);
  }

  /// A rack from far: the shares of its jobs, and a corner where it is over its bound.
  private drawBar(rack: number, tile: Tile): void {
    const { ctx } = this;
    const { colors } = this.inks;
    const cells = this.scene.cells[rack] ?? [];
    ctx.globalAlpha = 1;
    ctx.fillStyle = this.scene.cluster.over(rack) ? colors.warnBack : colors.card;
    ctx.fillRect(tile.x, tile.y, this.scene.layout.tileWidth, this.scene.layout.tileHeight);
    const width = this.scene.layout.tileWidth / Math.max(1, cells.length);
    for (let at = 0; at < cells.length;) {
      const shares = cells[at]?.shares ?? [];
      let end = at + 1;
      const job = wholeOf(cells[at]);
      if (job !== undefined) while (end < cells.length && wholeOf(cells[end]) === job) end++;
      let x = tile.x + at * width;
      for (const share of shares) {
        const wide = share.part * (end - at) * width;
        ctx.globalAlpha = this.alphaOf(share.job);
        ctx.fillStyle = this.colorOf(share.job);
        ctx.fillRect(x, tile.y + kHead, wide, this.scene.layout.tileHeight - 2 * kHead);
        x += wide;
      }
      at = end;
    }
    this.frame(rack, tile);
    if (!this.scene.cluster.over(rack)) return;
    ctx.fillStyle = colors.warn;
    ctx.beginPath();
    ctx.moveTo(tile.x, tile.y);
    ctx.lineTo(tile.x + this.scene.layout.tileWidth / 2, tile.y);
    ctx.lineTo(tile.x, tile.y + this.scene.layout.tileHeight / 2);
    ctx.fill();
  }

  private drawRack(rack: number, tile: Tile, near: boolean): void {
    const { ctx } = this;
    const { colors } = this.inks;
    const { cluster } = this.scene;
    const over = cluster.over(rack);
    ctx.globalAlpha = 1;
    ctx.fillStyle = over ? colors.warnBack : colors.card;
    ctx.fillRect(tile.x, tile.y, this.scene.layout.tileWidth, this.scene.layout.tileHeight);
    ctx.fillStyle = over ? colors.warn : colors.ink;
    ctx.font = '600 13px system-ui, sans-serif';
    const reading = `${over ? '▲ ' : ''}${cluster.degree(rack)}/${cluster.bound(rack)}`;
    ctx.textAlign = 'right';
    ctx.fillText(reading, tile.x + this.scene.layout.tileWidth - kPad, tile.y + kHead / 2 + 1);
    const room = this.scene.layout.tileWidth - 2 * kPad - ctx.measureText(reading).width - 6;
    ctx.textAlign = 'left';
    ctx.fillStyle = colors.ink;
    ctx.fillText(
      shortened(ctx, cluster.racks[rack]?.name ?? '', room),
      tile.x + kPad,
      tile.y + kHead / 2 + 1,
    );
    if (near) this.drawCells(rack, tile);
    else this.drawRows(rack, tile);
    this.drawLinks(rack, tile, near);
    this.frame(rack, tile);
  }

  /// Neighbours of one job in a row as one block.
  private drawRows(rack: number, tile: Tile): void {
    const { ctx } = this;
    const { colors } = this.inks;
    const cells = this.scene.cells[rack] ?? [];
    const stateOf = (cell: Cell | undefined): string | undefined =>
      this.scene.cluster.nodes[cell?.node ?? -1]?.state;
    for (let at = 0; at < cells.length;) {
      const cell = cells[at];
      const shares = cell?.shares ?? [];
      const job = wholeOf(cell);
      const state = stateOf(cell);
      const row = Math.floor(at / this.scene.layout.perRow);
      let end = at + 1;
      const alike = (other: Cell | undefined): boolean =>
        job !== undefined
          ? wholeOf(other) === job
          : shares.length === 0 && other?.shares.length === 0 && stateOf(other) === state;
      while (
        end < cells.length &&
        Math.floor(end / this.scene.layout.perRow) === row &&
        alike(cells[end])
      ) {
        end++;
      }
      const { x, y } = cellAt(this.scene.layout, tile, at);
      const width = (end - at) * kPitch - (kPitch - kCell);
      let left = x;
      for (const share of shares) {
        ctx.globalAlpha = this.alphaOf(share.job);
        ctx.fillStyle = this.colorOf(share.job);
        ctx.fillRect(left, y, share.part * width, kCell);
        left += share.part * width;
      }
      if (shares.length === 0 && state !== 'up') {
        ctx.globalAlpha = 1;
        ctx.fillStyle = colors.line;
        ctx.fillRect(x, y + kCell / 2 - 1, (end - at) * kPitch - 2, 2);
      }
      at = end;
    }
  }

  private drawCells(rack: number, tile: Tile): void {
    const { ctx } = this;
    const { colors } = this.inks;
    const { cluster } = this.scene;
    const flying = new Set(this.scene.flights.map(({ toX, toY, job }) => `${toX},${toY},${job}`));
    ctx.textAlign = 'center';
    for (const [at, cell] of (this.scene.cells[rack] ?? []).entries()) {
      const { x, y } = cellAt(this.scene.layout, tile, at);
      const node = cluster.nodes[cell.node];
      if (wholeOf(cell) === undefined || flying.size > 0) {
        ctx.globalAlpha = 1;
        ctx.lineWidth = 1;
        ctx.strokeStyle = colors.line;
        ctx.strokeRect(x + 0.5, y + 0.5, kCell - 1, kCell - 1);
      }
      let left = x;
      for (const share of cell.shares) {
        const width = Math.min(share.part * kCell, x + kCell - left);
        if (!flying.has(`${x},${y},${share.job}`)) this.drawWorker(share.job, left, y, width);
        left += width;
      }
      if (node && node.state !== 'up') this.drawState(node.state, x, y);
      if (this.scene.marked.has(cell.node)) {
        ctx.globalAlpha = 1;
        ctx.lineWidth = 2;
        ctx.strokeStyle = colors.accent;
        ctx.strokeRect(x - 1, y - 1, kCell + 2, kCell + 2);
      }
    }
  }

  private drawState(state: string, x: number, y: number): void {
    const { ctx } = this;
    const { colors } = this.inks;
    ctx.globalAlpha = 1;
    ctx.fillStyle = colors.ink;
    ctx.font = '700 9px system-ui, sans-serif';
    ctx.textAlign = 'right';
    ctx.fillText({ drain: '−', down: '!', reserved: '=' }[state] ?? '?', x + kCell, y + 4);
    ctx.textAlign = 'center';
  }

  private drawWorker(job: number, x: number, y: number, width = kCell): void {
    const { ctx } = this;
    const { colors } = this.inks;
    const look = this.lookOf(job);
    ctx.globalAlpha = this.alphaOf(job);
    ctx.fillStyle = this.patternOf(look.color, look.pattern);
    ctx.fillRect(x, y, width, kCell);
    const letters = look.letter.length;
    const size = Math.min(letters > 2 ? 7 : letters > 1 ? 9 : 12, (1.3 * width) / letters);
    if (size < 5) return;
    ctx.fillStyle = colors.onJob;
    ctx.textAlign = 'center';
    ctx.font = `600 ${size}px system-ui, sans-serif`;
    ctx.fillText(look.letter, x + width / 2, y + kCell / 2 + 1);
  }

  private patternOf(color: number, pattern: Pattern): string | CanvasPattern {
    const { ctx } = this;
    const { colors } = this.inks;
    const plain = colors.jobs[color] ?? colors.soft;
    if (pattern === 'plain') return plain;
    const key = `${color}${pattern}`;
    const known = this.inks.patterns.get(key);
    if (known) return known;
    const tile = document.createElement('canvas');
    tile.width = tile.height = 6;
    const at = tile.getContext('2d');
    if (!at) return plain;
    at.fillStyle = plain;
    at.fillRect(0, 0, 6, 6);
    at.globalAlpha = 0.35;
    at.fillStyle = colors.onJob;
    if (pattern === 'dots') at.fillRect(1, 1, 2, 2);
    else if (pattern === 'bars') at.fillRect(0, 0, 2, 6);
    else for (let i = 0; i < 6; i++) at.fillRect(i, 5 - i, 1.5, 1.5);
    const made = ctx.createPattern(tile, 'repeat');
    if (!made) return plain;
    this.inks.patterns.set(key, made);
    return made;
  }

  /// Flows out of the rack in one row of boxes, into it in another: a box an uplink, and one for all
  /// those beyond. Where the flows are not known, a question mark.
  private drawLinks(rack: number, tile: Tile, near: boolean): void {
    const { ctx } = this;
    const { colors } = this.inks;
    const links = this.scene.links?.[rack];
    const room = this.scene.layout.tileWidth - 2 * kPad;
    const top = tile.y + this.scene.layout.tileHeight - 2 * kLink - 2;
    ctx.textAlign = 'center';
    for (const box of linkBoxes(this.scene.cluster.racks[rack]?.spines ?? [])) {
      const x = tile.x + kPad + box.at * room;
      const width = box.width * room;
      for (const [row, arrow] of ['↑', '↓'].entries()) {
        const side = row === 0 ? links?.up : links?.down;
        const each = box.spines.map((spine) => side?.get(spine) ?? []);
        const flows = each.flat();
        const shared = each.some((there) => there.length > 1);
        const y = top + row * kLink;
        ctx.globalAlpha = this.linkAlpha(flows);
        ctx.fillStyle = shared ? colors.warn : flows.length > 0 ? colors.soft : colors.page;
        ctx.fillRect(x, y, width - 2, kLink - 2);
        if (!near || width * this.scene.scale < 22) continue;
        ctx.fillStyle = flows.length > 0 ? colors.page : colors.soft;
        ctx.font = '600 9px system-ui, sans-serif';
        const text =
          box.spines.length > 1
            ? `+${box.spines.length}`
            : links
              ? this.letters(flows, Math.floor(width / 7) - 1)
              : '?';
        ctx.fillText(`${arrow}${text}`, x + width / 2 - 1, y + kLink / 2 - 0.5);
      }
    }
  }

  private linkAlpha(flows: readonly Flow[]): number {
    if (this.scene.selectedJob === null) return 1;
    const id = this.scene.cluster.jobs[this.scene.selectedJob]?.id;
    return flows.some((flow) => flow.job === id) ? 1 : 0.3;
  }

  private letters(flows: readonly Flow[], room: number): string {
    const text = flows
      .map((flow) => this.lookOf(this.scene.cluster.jobById.get(flow.job) ?? 0).letter)
      .join('');
    return text.length <= room ? text : `${flows.length}`;
  }

  private drawFlight(flight: Flight): void {
    const { ctx } = this;
    const { colors } = this.inks;
    const t = this.scene.flown * this.scene.flown * (3 - 2 * this.scene.flown);
    const x = flight.fromX + (flight.toX - flight.fromX) * t;
    const y = flight.fromY + (flight.toY - flight.fromY) * t;
    ctx.globalAlpha = 1;
    ctx.lineWidth = 2;
    ctx.strokeStyle = colors.accent;
    ctx.beginPath();
    ctx.moveTo(flight.fromX + kCell / 2, flight.fromY + kCell / 2);
    ctx.lineTo(x + kCell / 2, y + kCell / 2);
    ctx.stroke();
    this.drawWorker(flight.job, x, y);
    ctx.strokeRect(x, y, kCell, kCell);
  }
}

/// The job that fills the whole box; undefined where none does.
function wholeOf(cell: Cell | undefined): number | undefined {
  const [share] = cell?.shares ?? [];
  return share && share.part >= 1 ? share.job : undefined;
}

function shortened(ctx: CanvasRenderingContext2D, text: string, room: number): string {
  if (ctx.measureText(text).width <= room) return text;
  let end = text.length;
  while (end > 1 && ctx.measureText(`${text.slice(0, end)}…`).width > room) end--;
  return `${text.slice(0, end)}…`;
}
