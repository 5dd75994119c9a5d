import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { type Browser, type Page } from 'playwright-core';
import {
  assertAccessible,
  closePage,
  kWeb,
  openBrowser,
  openPage,
  picture,
  program,
  type WatchedPage,
} from './lib/browser';
import { Folder, Running, startController } from './lib/servers';

/// The page beside running controllers.

const kToken = '0123456789abcdef-secret';
const digest = (secret: string): string => createHash('sha256').update(secret).digest('hex');
const kPolicy =
  'policy: {min_age_s: 0, min_left_s: 0, cool_down_s: 0, loop_s: 0, pay_back: 0,\n' +
  '         moves_per_job: 1000, moves_per_hour: 10000}\n';
const kPatience_ms = Number(process.env['MONKEYTREE_PATIENCE_MS'] ?? 240_000);

let browser: Browser;
before(async () => {
  browser = await openBrowser();
});
after(async () => {
  await browser.close();
});

async function open(address: string): Promise<WatchedPage> {
  const watched = await openPage(browser, address, {
    reducedMotion: 'reduce',
    viewport: { width: 1280, height: 900 },
  });
  watched.page.setDefaultTimeout(kPatience_ms);
  await watched.page.waitForSelector('body[data-ready]');
  return watched;
}
const tab = (page: Page, name: string): Promise<void> => page.getByRole('tab', { name }).click();
const says = (page: Page, selector: string, text: string | RegExp): Promise<void> =>
  page.locator(selector, { hasText: text }).first().waitFor();

async function waitFor(met: () => boolean | Promise<boolean>): Promise<void> {
  const limit = Date.now() + kPatience_ms;
  while (!(await met())) {
    assert.ok(Date.now() < limit, 'it never came');
    await new Promise((done) => setTimeout(done, 50));
  }
}

/// Snapshots that a controller reads one after the other: a job comes and goes.
function recorded(folder: Folder): string {
  const all = JSON.parse(readFileSync(join(kWeb, '..', 'examples', 'four_racks.json'), 'utf8')) as {
    jobs: unknown[];
  };
  const fewer = { ...all, jobs: all.jobs.slice(0, 2) };
  const names = [all, fewer].map((snapshot, i) =>
    folder.write(`${i}.json`, JSON.stringify(snapshot)),
  );
  const list = Array.from({ length: 400 }, (_, i) => names[i % 2]).join(', ');
  return `scheduler: {kind: recorded, snapshots: [${list}], every_s: 2}\npoll_s: 0.5\n`;
}

test('what happens in a controller reaches the page, and a stream that breaks is taken up', async () => {
  const folder = new Folder();
  const config = recorded(folder);
  const first = await startController(folder, config);
  const watched = await open(first.address);
  const { page } = watched;
  await says(page, '#state', 'mode observe');
  await page.waitForSelector('body[data-live]');
  // A job comes and goes without anybody touching the page.
  for (const count of ['2 of 2', '3 of 3', '2 of 2']) await says(page, '#jobs .bar', count);
  // What a person's own file led to stays, however often the page looks again.
  await page.locator('#files').setInputFiles(folder.write('notes.txt', 'hello'));
  await says(page, '#trouble', 'notes.txt: expected a snapshot');
  for (const count of ['3 of 3', '2 of 2']) await says(page, '#jobs .bar', count);
  await says(page, '#trouble', 'notes.txt: expected a snapshot');
  await page.getByRole('button', { name: 'Close' }).click();
  // The journal: what moved, when, why.
  await tab(page, 'History');
  await says(page, '#history .events', 'racks above their bound: R3 3 of 2');
  await says(page, '#history .verdict', /^Plan \d+, .* UTC: 2 moves, /);
  // Move by move, by keyboard: the cluster before the first one, and after each.
  const slider = page.getByLabel('Moves in the journal');
  await slider.press('Home');
  await page.getByRole('button', { name: 'Show' }).click();
  await says(page, '#history .verdict', /, mode is observe. Above their bound: R3 3 of 2\.$/);
  await says(page, '#history pre', 'Why: racks above their bound');
  await says(page, '#reading', '1 rack over its bound');
  await slider.press('ArrowRight');
  await says(
    page,
    '#history .verdict',
    /Move 1 of 1: Job B, worker 2 from r3n4 to r1n7, worker 3 .*; planned only\.$/,
  );
  await says(page, '#history .player', 'after move 1 of 1');
  await says(page, '#reading', 'every rack within its bound');
  await page.locator('#history').getByRole('button', { name: 'Back' }).click();
  await says(page, '#reading', '1 rack over its bound');
  assert.equal(await slider.inputValue(), '0'); // the slider follows
  await page.locator('#history').getByRole('button', { name: 'Play' }).click();
  await says(page, '#history .player', 'after move 1 of 1');
  await says(page, '#reading', 'every rack within its bound');
  assert.equal(await slider.inputValue(), '1');
  await assertAccessible(page, 'history');
  await tab(page, 'Approvals');
  await says(page, '#plans', 'this controller is in mode observe');
  // The controller goes, and comes back at the same address.
  await first.controller.stop();
  await says(page, '#trouble', /lost|does not answer/);
  const again = Running.start('monkeytree', [
    'controller',
    '--config',
    folder.write(
      'again.yaml',
      `${config}journal: ${folder.path}/journal.db\n` +
        `listen: {http: '127.0.0.1:${new URL(first.address).port}', agents: 127.0.0.1:0}\n`,
    ),
  ]);
  await again.printed(/event=(started)/);
  await page.waitForSelector('body[data-live]');
  await page.locator('#trouble').waitFor({ state: 'hidden' });
  // While it was away Chromium noted each try.
  watched.faults = watched.faults.filter((fault) => !/ERR_|Failed to load/.test(fault));
  await closePage(watched);
  await again.stop();
  folder.remove();
});

test('where others than this machine are answered the page asks for a token', async () => {
  const folder = new Folder();
  const config = recorded(folder);
  const tokens = folder.write('tokens', `eve read ${digest(kToken)} 2026-01-01\n`);
  const { controller, address } = await startController(
    folder,
    `${config}insecure: true\ntokens: ${tokens}\n`,
    '0.0.0.0',
  );
  const watched = await openPage(browser, address.replace('0.0.0.0', '127.0.0.1'));
  const { page } = watched;
  const dialog = page.getByRole('dialog', { name: 'Who looks?' });
  await dialog.waitFor();
  assert.doesNotMatch((await page.locator('#jobs').textContent()) ?? '', /of 2/);
  await assertAccessible(page, 'sign in');
  await picture(page, 'dashboard-sign-in');
  await page.keyboard.press('Escape'); // there is nothing behind it
  await dialog.getByLabel('Token').fill('another-token-than-ours');
  await page.keyboard.press('Enter');
  await says(page, '.sign-in .verdict', 'not our token');
  await dialog.getByLabel('Token').fill(kToken);
  await page.keyboard.press('Enter');
  await says(page, '#state', 'mode observe');
  await page.waitForSelector('body[data-live]');
  await says(page, '#jobs .bar', /of [23]/);
  await page.reload();
  await says(page, '#state', 'mode observe');
  assert.equal(await page.getByRole('dialog').count(), 0);
  // No script of the page can read it.
  assert.equal(await page.evaluate(() => document.cookie), '');
  // Chromium notes each refusal as an error; nothing else went wrong.
  for (const fault of watched.faults) assert.match(fault, /status of 401/);
  watched.faults = [];
  await closePage(watched);
  await controller.stop();
});

test('nothing changes without the token; with it plans are rejected and approved', async () => {
  const folder = new Folder();
  for (const name of ['agents', 'jobs']) mkdirSync(join(folder.path, name));
  const socket = join(folder.path, 'cluster.sock');
  const cluster = Running.start('monkeytree', [
    ...['emulate', '--socket', socket, '--agents', join(folder.path, 'agents')],
    ...['--racks', '4', '--nodes', '4', '--slots', '1', '--uplinks', '1', '--load', '0.85'],
    ...['--every', '3', '--first', '12', '--seed', '2', '--log', join(folder.path, 'workers.log')],
    ...['--', program('monkeytree-worker'), '--folder', join(folder.path, 'jobs')],
    ...['--address', '127.0.0.1'],
  ]);
  await waitFor(() => existsSync(socket));
  const { controller, address, agents } = await startController(
    folder,
    `mode: recommend\ntokens: ${folder.write('tokens', `ann approve ${digest(kToken)} 2026-01-01\n`)}\n` +
      `scheduler: {kind: emulated, socket: ${socket}}\npoll_s: 1\n${kPolicy}`,
  );
  const nodes = [0, 1, 2, 3].flatMap((rack) => [0, 1, 2, 3].map((node) => `r${rack}n${node}`));
  const daemons = nodes.map((node) =>
    Running.start('monkeytree', [
      ...['agent', '--node', node, '--socket', join(folder.path, 'agents', `${node}.sock`)],
      ...['--data', '127.0.0.1', '--controller', agents, '--staging-quota', '64MiB'],
    ]),
  );
  const watched = await open(address);
  const { page } = watched;
  await tab(page, 'Approvals');
  const verdict = async (): Promise<string> =>
    (await page.locator('#plans .verdict').textContent()) ?? '';
  /// Presses it on plans as they come and go, as the cluster does not stand still, until it is so.
  const press = async (name: RegExp, until: () => Promise<boolean>): Promise<void> =>
    waitFor(async () => {
      const button = page.getByRole('button', { name }).first();
      if (await button.isVisible()) await button.click({ timeout: 2000 }).catch(() => undefined);
      await page.waitForTimeout(200);
      return until();
    });
  const says_now = (text: RegExp) => async (): Promise<boolean> => text.test(await verdict());
  await press(/^Reject plan/, says_now(/Type your token first/));
  await says(page, '#plans .card', /Plan \d+: \d+ move/);
  await assertAccessible(page, 'approvals');
  await picture(page, 'dashboard-approvals');
  await page.getByLabel('Token').fill('another-token-than-ours');
  await press(/^Reject plan/, says_now(/not our token/));
  await page.getByLabel('Token').fill(kToken);
  await page.getByLabel('Your name').fill('Alice');
  await press(/^Reject plan/, says_now(/is rejected/));
  const events = async (): Promise<string> =>
    (await page.locator('#history .events').textContent()) ?? '';
  await press(/^Approve plan/, async () => /plan \d+: done/.test(await events()));
  assert.match(await events(), /ann \(Alice\) at 127\.0\.0\.1/);
  // What was moved, when, and how long its job paused.
  await tab(page, 'History');
  const slider = page.getByLabel('Moves in the journal');
  const moment = page.locator('#history .verdict');
  await slider.press('Home');
  await waitFor(async () => {
    await slider.press('ArrowRight');
    return /done.* Move 1 of .*UTC, after a pause of \d+\.\d s\.$/.test(
      (await moment.textContent()) ?? '',
    );
  });
  await says(page, '#history .player', /after move 1 of /);
  await picture(page, 'dashboard-history');
  await tab(page, 'Jobs');
  await page.getByLabel('Which jobs').selectOption('all');
  // Memory only.
  assert.equal(await page.evaluate(() => localStorage.length + sessionStorage.length), 0);
  assert.equal(await page.evaluate(() => document.cookie), '');
  watched.faults = watched.faults.filter((fault) => !/\b4\d\d\b/.test(fault));
  await closePage(watched);
  for (const each of [controller, ...daemons, cluster]) await each.stop();
  folder.remove();
});
