import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { sequentialFill } from '../src/panel/fill';
import { countsOf, degreesOf, movesBetween, type Placement, sum } from '../src/panel/model';
import { flowsOf, mostOnOneUplink, uplinksOf } from '../src/panel/routes';
import { kSlots, schedulerPlacement } from '../src/panel/scenarios';
import { repaired } from '../src/panel/repair';
import { fewestMoves, type Problem } from '../src/panel/solver';
import { applyStep, stepsTo } from '../src/panel/steps';
import { kWeb } from './lib/browser';
import { askPlanner, type Question, rowsOf } from './lib/planner';
import { linesOf, randomFrom } from './lib/programs';

const kPanels = 10_000;

/// Four racks of eight slots, three or four jobs of any size, from nearly empty to full, strewn or
/// in lumps as schedulers leave them.
function drawPanels(): Question[] {
  const random = randomFrom(20261130);
  return Array.from({ length: kPanels }, () => {
    const jobs = 3 + random(2);
    const workers = jobs + random(4 * kSlots - jobs + 1);
    const slots: (number | null)[] = [];
    for (let i = 0; i < 4 * kSlots; i++)
      slots.push(i < jobs ? i : i < workers ? random(jobs) : null);
    const swaps = random(2) === 0 ? 200 : random(12);
    if (swaps < 200) slots.sort((a, b) => (a ?? jobs) - (b ?? jobs));
    for (let i = 0; i < swaps; i++) {
      const [a, b] = [random(slots.length), random(slots.length)];
      [slots[a], slots[b]] = [slots[b] ?? null, slots[a] ?? null];
    }
    const racks = [0, 1, 2, 3].map((rack) => slots.slice(rack * kSlots, (rack + 1) * kSlots));
    return { placement: racks, uplinks: 1 + random(3) };
  });
}

const jobsOf = (placement: Placement): number =>
  Math.max(...placement.flat().map((s) => s ?? 0)) + 1;
const problemOf = ({ placement, uplinks }: Question): Problem => ({
  counts: countsOf(placement, jobsOf(placement)),
  capacity: placement.map((rack) => rack.length),
  bound: placement.map(() => uplinks),
});

/// What holds for any placement that is called a solution.
function assertSolves(problem: Problem, counts: number[][], moves: number): void {
  const { capacity, bound, rings } = problem;
  assert.deepEqual(counts.map(sum), problem.counts.map(sum), 'workers were lost or made');
  assert.equal(movesBetween(problem.counts, counts), moves);
  capacity.forEach((slots, rack) => {
    assert.ok(sum(counts.map((row) => row[rack] ?? 0)) <= slots, 'a rack is overfull');
  });
  const spread = counts.map((row) => row.filter((n) => n > 0).length > 1);
  bound.forEach((most, rack) => {
    const flows = counts.map((row, job) => (row[rack] && spread[job] ? (rings?.[job] ?? 1) : 0));
    assert.ok(sum(flows) <= most, 'a rack is over its bound');
  });
}

/// The steps move as many workers as counted, into free slots only, and end at the counts.
function assertStepsLead(placement: Placement, counts: number[][], moves: number): void {
  const steps = stepsTo(placement, counts);
  assert.equal(sum(steps.map((step) => step.length)), moves);
  let now = placement;
  for (const step of steps) {
    const left = new Set(step.map(({ from }) => `${from.rack}/${from.slot}`));
    for (const { to, from, job } of step) {
      const free = now[to.rack]?.[to.slot] === null || left.has(`${to.rack}/${to.slot}`);
      assert.ok(free, 'a move into a taken slot');
      assert.equal(now[from.rack]?.[from.slot], job);
    }
    now = applyStep(now, step);
  }
  assert.deepEqual(countsOf(now, counts.length), counts);
}

/// Flows that leave a rack, or enter it, are spread over its links as evenly as whole flows can be.
function assertEven(counts: number[][], racks: number, uplinks: number): void {
  const routed = uplinksOf(counts, racks, uplinks);
  const degrees = degreesOf(counts, racks);
  const down = routed.map((row) => row.map(() => 0));
  for (const flow of flowsOf(counts)) {
    const taken = routed[flow.from]?.findIndex((jobs) => jobs.includes(flow.job)) ?? -1;
    assert.ok(taken >= 0, 'a flow without an uplink');
    const row = down[flow.to];
    if (row) row[taken] = (row[taken] ?? 0) + 1;
  }
  degrees.forEach((degree, rack) => {
    for (const loads of [routed[rack]?.map((jobs) => jobs.length) ?? [], down[rack] ?? []]) {
      assert.equal(sum(loads), degree);
      assert.ok(Math.max(...loads) <= Math.ceil(degree / uplinks));
      assert.ok(Math.min(...loads) >= Math.floor(degree / uplinks));
    }
  });
}

test('10,000 random panels: moves, degrees, uplinks and fill are those of the planner', () => {
  const questions = drawPanels();
  const answers = askPlanner(questions);
  assert.equal(answers.length, kPanels);
  const seen = new Map<string, number>();
  let slowest = 0;
  questions.forEach((question, i) => {
    const answer = answers[i];
    assert.ok(answer);
    const problem = problemOf(question);
    const where = `${question.uplinks} ${rowsOf(question.placement).join('/')}`;
    const start = performance.now();
    const solution = fewestMoves(problem);
    slowest = Math.max(slowest, performance.now() - start);
    seen.set(answer.status, (seen.get(answer.status) ?? 0) + 1);
    if (answer.status === 'infeasible') {
      assert.equal(solution, null, where);
    } else {
      assert.equal(solution?.moves, answer.moves, where);
      assert.equal(answer.status, answer.moves === 0 ? 'compliant' : 'optimal', where);
      assertSolves(problem, solution.counts, solution.moves);
      assertStepsLead(question.placement, solution.counts, solution.moves);
    }
    const counts = problem.counts.map((row) => [...row]);
    assert.deepEqual(degreesOf(counts, 4), answer.degrees, where);
    assertEven(counts, 4, question.uplinks);
    assert.equal(
      mostOnOneUplink(uplinksOf(counts, 4, question.uplinks)),
      answer.mostOnOneUplink,
      where,
    );
    const filled = sequentialFill(counts, problem.capacity);
    assert.equal(movesBetween(counts, filled), answer.fillMoves, where);
    assert.deepEqual(degreesOf(filled, 4), answer.fillDegrees, where);
    assertStepsLead(question.placement, filled, answer.fillMoves);
  });
  console.log(JSON.stringify(Object.fromEntries(seen)), `slowest ${slowest.toFixed(0)} ms`);
  for (const status of ['compliant', 'optimal', 'infeasible']) {
    assert.ok((seen.get(status) ?? 0) > 100, `hardly a panel is ${status}`);
  }
});

test('the placements of the paper digest, and the moves it names', () => {
  const moves = (jobs: number, uplinks: number) =>
    fewestMoves(problemOf({ placement: schedulerPlacement(jobs), uplinks }))?.moves;
  assert.deepEqual(
    [1, 2, 3].map((uplinks) => moves(3, uplinks)),
    [9, 2, 0],
  );
  assert.deepEqual(
    [1, 2, 3].map((uplinks) => moves(4, uplinks)),
    [12, 4, 1],
  );
  // Diagram C: two workers of C go from R3 to R4.
  const solution = fewestMoves(problemOf({ placement: schedulerPlacement(3), uplinks: 2 }));
  assert.deepEqual(solution?.counts[2], [0, 2, 0, 5]);
});

/// All but what counts do not say: node classes, workers that must stay, mending some racks only.
test('text cases: moves are those of the planner', () => {
  const folder = join(kWeb, '..', 'tests', 'cases');
  const files = readdirSync(folder)
    .filter((name) => name.endsWith('.case'))
    .map((name) => join(folder, name));
  const lines = linesOf('tests/panel_plans', files);
  const left: string[] = [];
  for (const line of lines) {
    const [place = '', status, moves, json = ''] = line.split(' ');
    const problem = JSON.parse(json) as Problem | null;
    if (!problem) {
      left.push(place.replace(/:.*/, ''));
      continue;
    }
    const solution = fewestMoves(problem);
    if (status === 'infeasible') {
      assert.equal(solution, null, place);
      continue;
    }
    assert.equal(solution?.moves, Number(moves), place);
    assertSolves(problem, solution.counts, solution.moves);
  }
  console.log(`${lines.length} questions, ${left.length} about what counts do not say`);
  assert.deepEqual(
    [...new Set(left)],
    ['mend_one_rack.case', 'node_classes.case', 'pinned_worker.case'],
  );
});

/// The two searches, each on what the other is made for.
test('on random panels moves tried one by one are as few as racks chosen by job', () => {
  let compared = 0;
  for (const question of drawPanels().slice(0, 300)) {
    const problem = problemOf(question);
    const solution = fewestMoves(problem);
    if (!solution || solution.moves > 6) continue;
    const rings = problem.counts.map(() => 1);
    const counts = repaired({ ...problem, rings }, 6);
    assert.ok(counts);
    assertSolves(problem, counts, solution.moves);
    compared++;
  }
  assert.ok(compared > 100, `only ${compared} were compared`);
});
