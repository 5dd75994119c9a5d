import assert from 'node:assert/strict';
import { mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { type Browser, chromium, type BrowserContextOptions, type Page } from 'playwright-core';

/// The web folder; scripts/web runs the tests there.
export const kWeb = process.cwd();

/// Debian's Chromium, without a window.
export function openBrowser(): Promise<Browser> {
  const asRoot = process.getuid?.() === 0;
  return chromium.launch({
    executablePath: variable('MONKEYTREE_CHROMIUM'),
    args: [...(asRoot ? ['--no-sandbox'] : []), '--disable-dev-shm-usage'],
    timeout: 120_000,
  });
}

export function variable(name: string): string {
  const value = process.env[name];
  assert.ok(value, `${name} is not set; run scripts/web --test`);
  return value;
}

/// A program of the build folder that scripts/web --test was given.
export function program(name: string): string {
  return join(variable('MONKEYTREE_BUILD'), name);
}

/// A page and what it did that a page must not do.
export interface WatchedPage {
  page: Page;
  /// Every request but those for `allowed` addresses.
  strayRequests: string[];
  /// Errors thrown, refusals by the policy, messages of console.error.
  faults: string[];
}

/// Opens an address and notes requests for anything that does not start with `allowed` (the address
/// itself by default).
export async function openPage(
  browser: Browser,
  address: string,
  options: BrowserContextOptions & { allowed?: string } = {},
): Promise<WatchedPage> {
  const { allowed = address, ...context } = options;
  const page = await (await browser.newContext(context)).newPage();
  page.setDefaultTimeout(60_000);
  const watched: WatchedPage = { page, strayRequests: [], faults: [] };
  page.on('request', (request) => {
    if (!request.url().startsWith(allowed)) watched.strayRequests.push(request.url());
  });
  page.on('websocket', (socket) => watched.strayRequests.push(socket.url()));
  page.on('pageerror', (error) => watched.faults.push(String(error)));
  page.on('console', (message) => {
    if (message.type() === 'error') watched.faults.push(message.text());
  });
  await servePages(page, address);
  await page.goto(address);
  return watched;
}

/// With MONKEYTREE_PAGES=FOLDER the dashboard is that of the folder, with the program's own headers:
/// what scripts/web has built can be tried without building the program.
async function servePages(page: Page, address: string): Promise<void> {
  const folder = process.env['MONKEYTREE_PAGES'];
  if (!folder) return;
  for (const [path, file] of [
    ['/', 'index.html'],
    ['/app.js', 'app.js'],
    ['/app.css', 'app.css'],
  ] as const) {
    await page.route(new URL(path, address).href, async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, body: readFileSync(resolve(folder, file), 'utf8') });
    });
  }
}

/// Nothing left the page and nothing went wrong in it; closes it.
export async function closePage(watched: WatchedPage): Promise<void> {
  assert.deepEqual(watched.strayRequests, [], 'requests left the page');
  assert.deepEqual(watched.faults, [], 'the page met errors');
  await watched.page.context().close();
}

const kAxe = readFileSync(createRequire(join(kWeb, 'x.js')).resolve('axe-core'), 'utf8');

interface Finding {
  id: string;
  impact: string | null;
  help: string;
  nodes: { html: string; failureSummary?: string }[];
}

/// axe-core has no serious or critical finding on the page as it stands.
export async function assertAccessible(page: Page, when: string): Promise<void> {
  // Through the debugger, as the page's policy lets no foreign script in.
  await page.evaluate(kAxe);
  const findings = await page.evaluate(async () => {
    const axe = (globalThis as unknown as { axe: { run(): Promise<{ violations: Finding[] }> } })
      .axe;
    return (await axe.run()).violations;
  });
  const grave = findings
    .filter((finding) => finding.impact === 'serious' || finding.impact === 'critical')
    .map((finding) => ({
      id: finding.id,
      help: finding.help,
      where: finding.nodes.slice(0, 3).map((node) => `${node.html} ${node.failureSummary ?? ''}`),
    }));
  assert.deepEqual(grave, [], `axe-core, ${when}`);
}

/// Nothing sticks out sideways.
export async function assertNoSidewaysScroll(page: Page): Promise<void> {
  const { scroll, client } = await page.evaluate(() => ({
    scroll: document.documentElement.scrollWidth,
    client: document.documentElement.clientWidth,
  }));
  assert.ok(scroll <= client, `the page is ${scroll} wide in a window of ${client}`);
}

/// Writes docs/pictures/NAME.png where scripts/web --pictures asked for it; else does nothing.
export async function picture(page: Page, name: string): Promise<void> {
  const folder = process.env['MONKEYTREE_PICTURES'];
  if (!folder) return;
  mkdirSync(folder, { recursive: true });
  await page.screenshot({ path: resolve(folder, `${name}.png`), fullPage: true });
}
