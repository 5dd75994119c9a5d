import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Cluster, type SnapshotFile } from '../src/dashboard/model';
import { linesOf, randomFrom } from './lib/programs';

/// Racks of four nodes with two slots each, and jobs of a few workers strewn over them; some ids are
/// a letter or a digit.
function drawn(racks: number, jobs: number, seed: number): SnapshotFile {
  const random = randomFrom(seed);
  const node = (rack: number, at: number): string => `r${rack}n${at}`;
  const free = Array.from({ length: racks }, (_, rack) =>
    [0, 1, 2, 3].flatMap((at) => [node(rack, at), node(rack, at)]),
  ).flat();
  const own = [...'zQ7CA0b'];
  const list = [];
  for (let i = 0; i < jobs && free.length > 0; i++) {
    const workers = new Set<string>();
    const near = random(free.length);
    for (let n = 1 + random(4); n > 0 && free.length > 0; n--) {
      const [name = ''] = free.splice(Math.min(near + random(3), free.length - 1), 1);
      if (workers.has(name)) free.push(name);
      else workers.add(name);
    }
    const id = random(6) === 0 ? own.pop() : undefined;
    list.push({ id: id ?? String(1000 + i), workers: [...workers] });
  }
  const all = [...Array(racks).keys()];
  return {
    schema: 'monkeytree/snapshot/v1',
    fabric: {
      racks: all.map((rack) => ({
        name: `r${rack}`,
        uplinks: 1 + random(2),
        nodes: [0, 1, 2, 3].map((at) => node(rack, at)),
      })),
    },
    nodes: Object.fromEntries(
      all.flatMap((rack) => [0, 1, 2, 3].map((at) => [node(rack, at), { slots: 2 }])),
    ),
    jobs: list,
  };
}

/// What the page puts into the slots of a rack, as analyze prints them.
function row(cluster: Cluster, rack: number): string[] {
  return (cluster.racks[rack]?.nodes ?? []).flatMap((node) => {
    const here = (cluster.holders[node] ?? []).map(({ job }) => cluster.jobs[job]?.look.letter);
    return [here[0] ?? '.', here[1] ?? '.'];
  });
}

test('letters are those of monkeytree analyze', () => {
  let rows = 0;
  let beyond = 0;
  for (const [racks, jobs] of [
    [4, 5],
    [12, 30],
    [40, 120],
    [60, 180],
  ] as const) {
    for (let seed = 1; seed <= 4; seed++) {
      const file = drawn(racks, jobs, seed);
      const cluster = new Cluster(file);
      const lines = linesOf('monkeytree', ['analyze', '-'], JSON.stringify(file));
      for (const line of lines) {
        const [, name, cells] = /^(r\d+) +(\S{8}) +\d+\/\d+/.exec(line) ?? [];
        if (name === undefined || cells === undefined) continue;
        rows++;
        row(cluster, cluster.rackByName.get(name) ?? -1).forEach((letter, at) => {
          const there = cells[at];
          if (there === '+') beyond++;
          else assert.equal(letter, there, `${racks} racks, seed ${seed}: ${line}`);
        });
      }
      const letters = cluster.jobs.map((job) => job.look.letter);
      assert.equal(new Set(letters).size, letters.length, 'a letter twice');
    }
  }
  assert.ok(rows > 300 && beyond > 10, `${rows} rows, ${beyond} places without a letter there`);
});
