import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { type Browser, type BrowserContextOptions, type Page } from 'playwright-core';
import { parsePlacement, type Placement, sum } from '../src/panel/model';
import {
  assertAccessible,
  assertNoSidewaysScroll,
  closePage,
  kWeb,
  openBrowser,
  openPage,
  picture,
  type WatchedPage,
} from './lib/browser';
import { type Answer, askPlanner } from './lib/planner';
import { randomFrom } from './lib/programs';

const kPanel = `file://${join(kWeb, 'dist', 'panel.html')}`;
const kClicks = 30;

let browser: Browser;
before(async () => {
  browser = await openBrowser();
});
after(async () => {
  await browser.close();
});

const open = (options: BrowserContextOptions = {}): Promise<WatchedPage> =>
  openPage(browser, kPanel, {
    reducedMotion: 'reduce',
    viewport: { width: 1000, height: 900 },
    ...options,
  });

const choose = (page: Page, group: 'jobs' | 'uplinks', n: number): Promise<void> =>
  page.locator(`#${group} label`, { hasText: String(n) }).click();
const slot = (page: Page, rack: number, at: number) =>
  page.locator(`.slot[data-rack="${rack}"][data-slot="${at}"]`);

/// What stands on the page.
interface Reading {
  rows: string[];
  degrees: number[];
  over: number;
  most: number;
  moves: number;
  fewest: string;
  pause: string;
  racksInRed: number[];
  uplinks: string[][]; // letters by rack and uplink
}

function read(page: Page): Promise<Reading> {
  return page.evaluate(() => {
    const text = (id: string): string => document.getElementById(id)?.textContent ?? '';
    const racks = [...document.querySelectorAll('.rack')];
    const letter = (button: Element): string => button.textContent || '.';
    return {
      rows: racks.map((rack) => [...rack.querySelectorAll('.slot')].map(letter).join('')),
      degrees: text('degrees').split(' ').map(Number),
      over: Number(text('over')),
      most: Number(text('most')),
      moves: Number(text('moves')),
      fewest: text('fewest-moves'),
      pause: text('pause'),
      racksInRed: racks.flatMap((rack, i) => (rack.hasAttribute('data-over') ? [i] : [])),
      uplinks: racks.map((rack) =>
        [...rack.querySelectorAll('.link')].map((link) => link.getAttribute('data-jobs') ?? ''),
      ),
    };
  });
}

/// The read-outs are what the planner and the router say of the placement that is shown.
function assertRight(reading: Reading, answer: Answer, uplinks: number, moves: number): void {
  const where = `λ ${uplinks}, ${reading.rows.join('/')}`;
  assert.deepEqual(reading.degrees, answer.degrees, where);
  assert.equal(reading.over, answer.degrees.filter((degree) => degree > uplinks).length, where);
  assert.deepEqual(
    reading.racksInRed,
    answer.degrees.flatMap((degree, rack) => (degree > uplinks ? [rack] : [])),
    where,
  );
  assert.equal(reading.most, answer.mostOnOneUplink, where);
  assert.equal(Math.max(...reading.uplinks.flat().map((jobs) => jobs.length)), reading.most, where);
  reading.uplinks.forEach((links, rack) => {
    assert.equal(links.length, uplinks, where);
    assert.equal(sum(links.map((jobs) => jobs.length)), answer.degrees[rack], where);
  });
  const none = answer.status === 'infeasible';
  assert.equal(reading.fewest, none ? 'none will do' : String(answer.moves), where);
  assert.equal(reading.moves, moves, where);
  assert.equal(reading.pause, `${(moves * 10.09).toFixed(2)} s`, where);
}

/// The rules of clicking, as the panel's text tells them.
class Rules {
  picked: [number, number] | null = null;
  moves = 0;
  constructor(readonly slots: string[][]) {}

  click(rack: number, at: number): void {
    const there = this.slots[rack]?.[at] ?? '.';
    if (!this.picked) {
      if (there !== '.') this.picked = [rack, at];
      return;
    }
    const [fromRack, fromAt] = this.picked;
    const mine = this.slots[fromRack]?.[fromAt] ?? '.';
    if (there === mine) {
      this.picked = fromRack === rack && fromAt === at ? null : [rack, at];
      return;
    }
    this.put(rack, at, mine);
    this.put(fromRack, fromAt, there);
    this.moves += there === '.' ? 1 : 2;
    this.picked = null;
  }

  rows(): string[] {
    return this.slots.map((row) => row.join(''));
  }

  private put(rack: number, at: number, letter: string): void {
    const row = this.slots[rack];
    if (row) row[at] = letter;
  }
}

const kStarts: { [jobs: number]: string[] } = {
  3: ['AAAABB..', 'AAACC...', 'AAABBCC.', 'CCCBB...'],
  4: ['AAAAABB.', 'AAACCCD.', 'AACCCBBD', 'CBBDDD..'],
};
const placementOf = (rows: readonly string[]): Placement => parsePlacement(rows);

for (const jobs of [3, 4]) {
  for (const uplinks of [1, 2, 3]) {
    test(`${jobs} jobs, λ ${uplinks}: each click, each read-out as the planner has it`, async () => {
      const watched = await open();
      const { page } = watched;
      await choose(page, 'jobs', jobs);
      await choose(page, 'uplinks', uplinks);
      const rules = new Rules((kStarts[jobs] ?? []).map((row) => [...row]));
      const random = randomFrom(jobs * 10 + uplinks);
      const readings: Reading[] = [await read(page)];
      const moves = [0];
      for (let i = 0; i < kClicks; i++) {
        const [rack, at] = [random(4), random(8)];
        await slot(page, rack, at).click();
        rules.click(rack, at);
        const reading = await read(page);
        assert.deepEqual(reading.rows, rules.rows());
        readings.push(reading);
        moves.push(rules.moves);
      }
      assert.ok(rules.moves > 4, 'hardly anything was moved');
      const answers = askPlanner(
        readings.map(({ rows }) => ({ placement: placementOf(rows), uplinks })),
      );
      readings.forEach((reading, i) => {
        const answer = answers[i];
        assert.ok(answer);
        assertRight(reading, answer, uplinks, moves[i] ?? 0);
      });
      await closePage(watched);
    });

    test(`${jobs} jobs, λ ${uplinks}: the buttons`, async () => {
      const watched = await open();
      const { page } = watched;
      await choose(page, 'jobs', jobs);
      await choose(page, 'uplinks', uplinks);
      const start = kStarts[jobs] ?? [];
      const [first] = askPlanner([{ placement: placementOf(start), uplinks }]);
      assert.ok(first);

      await page.click('#fewest');
      const mended = await read(page);
      await page.click('#scheduler');
      const back = await read(page);
      await page.click('#fill');
      const filled = await read(page);
      const [afterMending, afterFill] = askPlanner(
        [mended, filled].map(({ rows }) => ({ placement: placementOf(rows), uplinks })),
      );
      assert.ok(afterMending && afterFill);
      assertRight(mended, afterMending, uplinks, first.moves);
      assert.equal(mended.fewest, '0');
      assert.deepEqual(back.rows, start);
      assertRight(back, first, uplinks, 0);
      assertRight(filled, afterFill, uplinks, first.fillMoves);
      assert.deepEqual(filled.degrees, first.fillDegrees);
      await closePage(watched);
    });
  }
}

test('it opens with three jobs, two uplinks, and the congestion in words', async () => {
  const watched = await open();
  const { page } = watched;
  assert.deepEqual((await read(page)).rows, kStarts[3]);
  assert.equal(
    await page.textContent('#verdict'),
    'R3 needs 3 uplinks and has 2: A and C share ↑2 at half speed.',
  );
  await page.click('#fewest');
  assert.equal(
    await page.textContent('#verdict'),
    'No uplink is shared: every ring runs at full speed.',
  );
  assert.match(
    (await page.textContent('#message')) ?? '',
    /^Fewest moves: 2 moves of C, 20\.18 s of pause\. .*Racks over λ: 0\./,
  );
  assert.equal(await page.locator('.slot[data-moved]').count(), 2);
  await closePage(watched);
});

test('workers glide to their slots one after the other, unless little motion is wished', async () => {
  const glides = () =>
    document.getAnimations().filter((animation) => !(animation instanceof CSSAnimation)).length;
  const watched = await open({ reducedMotion: 'no-preference' });
  const { page } = watched;
  // In one go, as nothing can run in between: the first of two moves is on its way.
  assert.deepEqual(
    await page.evaluate(() => {
      document.getElementById('fewest')?.click();
      const gliding = document.getAnimations().filter((a) => !(a instanceof CSSAnimation)).length;
      return [gliding, document.getElementById('moves')?.textContent];
    }),
    [1, '1'],
  );
  await page.waitForFunction(() => document.getElementById('moves')?.textContent === '2');
  // Whoever acts in between finds the rest done.
  assert.deepEqual(
    await page.evaluate(() => {
      document.getElementById('scheduler')?.click();
      document.getElementById('fewest')?.click();
      document.querySelectorAll<HTMLElement>('.slot')[0]?.click();
      return document.getElementById('moves')?.textContent;
    }),
    '2',
  );
  await closePage(watched);

  const still = await open();
  await still.page.click('#fewest');
  assert.equal(await still.page.evaluate(glides), 0);
  assert.equal((await read(still.page)).moves, 2);
  await closePage(still);
});

test('by keyboard alone', async () => {
  const watched = await open();
  const { page } = watched;
  const press = async (...keys: string[]) => {
    for (const key of keys) await page.keyboard.press(key);
  };
  const focus = () => page.evaluate(() => document.activeElement?.getAttribute('aria-label') ?? '');
  const message = async () => (await page.textContent('#message')) ?? '';

  // Jobs, λ, three buttons, then one slot of the racks.
  await press('Tab', 'Tab', 'Tab', 'Tab', 'Tab', 'Tab');
  assert.equal(await focus(), 'R1 slot 1, worker of A');
  await press('ArrowLeft', 'ArrowUp');
  assert.equal(await focus(), 'R1 slot 1, worker of A', 'the edge holds');
  await press('ArrowDown', 'ArrowDown', 'End', 'ArrowLeft');
  assert.equal(await focus(), 'R3 slot 7, worker of C');
  await press('Enter');
  assert.equal(await page.locator('[aria-pressed="true"]').count(), 1);
  await press('Escape');
  assert.equal(await page.locator('[aria-pressed="true"]').count(), 0);
  assert.equal(await message(), 'Let go.');

  // C of R3 to the last slot of R4, then the other C beside it.
  await press('Enter', 'ArrowDown', 'End', 'Enter');
  assert.match(await message(), /^C moved from R3 to R4\./);
  assert.equal(await focus(), 'R4 slot 8, worker of C');
  await press('ArrowUp', 'ArrowLeft', 'ArrowLeft', ' ', 'ArrowDown', 'ArrowRight', 'Enter');
  const reading = await read(page);
  assert.deepEqual(reading.rows, ['AAAABB..', 'AAACC...', 'AAABB...', 'CCCBB.CC']);
  assert.equal(reading.over, 0);
  assert.equal(reading.moves, 2);

  // Back out to the radios: the arrows change them.
  await press('Shift+Tab', 'Shift+Tab', 'Shift+Tab', 'Shift+Tab', 'Shift+Tab', 'ArrowRight');
  assert.deepEqual((await read(page)).rows, kStarts[4]);
  await press('Tab', 'ArrowLeft');
  assert.equal((await read(page)).fewest, '12');
  await closePage(watched);
});

test('axe-core has nothing serious to say, light and dark', async () => {
  for (const colorScheme of ['light', 'dark'] as const) {
    const watched = await open({ colorScheme });
    const { page } = watched;
    await assertAccessible(page, `${colorScheme}, at first`);
    await slot(page, 2, 5).click();
    await assertAccessible(page, `${colorScheme}, a worker picked`);
    await slot(page, 0, 0).click();
    await choose(page, 'jobs', 4);
    await choose(page, 'uplinks', 1);
    await assertAccessible(page, `${colorScheme}, four jobs on one uplink`);
    await page.click('#fewest');
    await assertAccessible(page, `${colorScheme}, mended`);
    await closePage(watched);
  }
});

test('on a phone: nothing sticks out, and a finger finds each slot', async () => {
  for (const width of [320, 360, 412]) {
    const watched = await open({ viewport: { width, height: 720 }, hasTouch: true });
    const { page } = watched;
    await choose(page, 'jobs', 4);
    for (const uplinks of [3, 1]) {
      await choose(page, 'uplinks', uplinks);
      await assertNoSidewaysScroll(page);
    }
    const box = await slot(page, 0, 0).boundingBox();
    assert.ok(box && box.width >= 24 && box.height >= 24, JSON.stringify(box));
    await slot(page, 3, 0).tap();
    await slot(page, 0, 7).tap();
    assert.equal((await read(page)).rows[0], 'AAAAABBC');
    await closePage(watched);
  }
});

test('pictures for the docs', async () => {
  const watched = await open();
  await picture(watched.page, 'panel');
  await watched.page.click('#fewest');
  await picture(watched.page, 'panel-mended');
  await closePage(watched);
  const dark = await open({ colorScheme: 'dark' });
  await choose(dark.page, 'jobs', 4);
  await picture(dark.page, 'panel-dark');
  await closePage(dark);
  const phone = await open({ viewport: { width: 360, height: 720 } });
  await picture(phone.page, 'panel-phone');
  await closePage(phone);
});
