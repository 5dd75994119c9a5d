import type { Flow, PlanFile } from './model';

/// Every call of the page, by the paths of /api/v1/openapi.json.

export interface Status {
  mode: 'observe' | 'recommend' | 'enforce' | 'view';
  paused: boolean;
  ready: boolean;
  trouble: string;
  scheduler: string;
  observed_s: number | null;
  waiting: number[];
  running: number[];
  held_back: Record<string, string>;
}
export interface WhatIfChange {
  do: 'uplinks' | 'fail-uplink' | 'drain' | 'add-job' | 'remove-job';
  [field: string]: string | number;
}
export interface Routes {
  flows: Flow[];
}
export interface WhatIfAnswer {
  changes: string[];
  status: string;
  moves: number;
  lower_bound: number | null;
  gain: { regained_gpu_h: number | null; paused_gpu_h: number };
  explanation: string;
  files: { snapshot: string; plan: string; case: string };
  routes_before: Routes | null;
  routes_after: Routes | null;
}
export interface PlanHead {
  id: number;
  made_s: number;
  ended_s: number | null;
  state: string;
  moves: number;
  reason: string;
  approved_by: string;
}
/// A job's moves in a round of a plan, and how far they have come.
export interface Migration {
  id: string;
  round: number;
  job: string;
  state: string;
  reason: string;
  moves: { group: number; worker: number; from: string; to: string }[];
}
export interface PlanDetail extends PlanHead {
  explanation: string;
  plan: PlanFile | null;
  migrations: Migration[];
  steps: { migration: string; step: string; began_s: number; ended_s: number | null }[];
  decision: {
    racks_over?: { rack: string; bound: number; degree_before: number; degree_after: number }[];
    gain?: {
      regained_gpu_h: number | null;
      paused_gpu_h: number;
      jobs: { job: string; user: string; moves: number }[];
    };
  } | null;
}
export interface JournalEvent {
  id: number;
  time_s: number;
  kind: string;
  text: string;
}

/// The server's own words for what went wrong.
export class ApiError extends Error {}

let sayBusy: (text: string) => void = () => undefined;
/// Hears that the server is busy and is asked again soon, and, with an empty text, that this is over.
export function onBusy(say: (text: string) => void): void {
  sayBusy = say;
}

let signIn: () => Promise<void> = () => Promise.reject(new ApiError('expected a token'));
let signingIn: Promise<void> | null = null;
/// Is called where the server shows itself only to those who have a token; settles once it does.
export function onLocked(unlock: () => Promise<void>): void {
  signIn = unlock;
}
/// However many calls wait for it, the person is asked once.
function unlocked(): Promise<void> {
  signingIn ??= signIn().finally(() => (signingIn = null));
  return signingIn;
}

const kLongestWait_s = 30;

async function ask(path: string, init: RequestInit): Promise<Response> {
  try {
    const options: RequestInit = { ...init, credentials: 'same-origin', cache: 'no-store' };
    const response = await fetch(path, options);
    const hasToken = new Headers(init.headers).has('Authorization');
    if (response.status !== 401 || hasToken) return response;
    await unlocked();
    return await fetch(path, options);
  } catch (error) {
    if (error instanceof ApiError) throw error;
    if (init.signal?.aborted) throw new ApiError('stopped');
    throw new ApiError('the program that serves this page does not answer');
  }
}

/// `again`: a server that is busy and says for how long is asked once more after that.
async function call(path: string, init: RequestInit = {}, again = true): Promise<string> {
  let response = await ask(path, init);
  const wait_s = Number(response.headers.get('Retry-After') ?? NaN);
  const waits = again && response.status === 503 && wait_s >= 0 && wait_s <= kLongestWait_s;
  if (waits) {
    sayBusy(`The server is busy; trying once more in ${wait_s} s.`);
    try {
      await new Promise((done) => setTimeout(done, 1000 * wait_s));
      response = await ask(path, init);
    } finally {
      sayBusy('');
    }
  }
  const text = await response.text();
  if (response.ok) return text;
  let message = `${response.status} ${response.statusText}`;
  try {
    message = (JSON.parse(text) as { error: { message: string } }).error.message;
  } catch {
    // Not one of our answers; its status says enough.
  }
  throw new ApiError(waits ? `${message} (asked twice)` : message);
}

const get = async <T>(path: string): Promise<T> => JSON.parse(await call(path)) as T;
const post = async <T>(
  path: string,
  body: unknown,
  token?: string,
  signal: AbortSignal | null = null,
): Promise<T> =>
  JSON.parse(
    await call(
      path,
      {
        method: 'POST',
        body: JSON.stringify(body),
        signal,
        ...(token === undefined ? {} : { headers: { Authorization: `Bearer ${token}` } }),
      },
      token === undefined, // what changes the cluster is asked for once
    ),
  ) as T;

export const status = (): Promise<Status> => get('/api/v1/status');
export const snapshot = (): Promise<string> => call('/api/v1/snapshot');
export const routes = (): Promise<Routes> => get('/api/v1/routes');
export const plans = async (): Promise<PlanHead[]> =>
  (await get<{ plans: PlanHead[] }>('/api/v1/plans?limit=200')).plans;
export const plan = (id: number): Promise<PlanDetail> => get(`/api/v1/plans/${id}`);
export const planSnapshot = (id: number): Promise<string> => call(`/api/v1/plans/${id}/snapshot`);
export const history = async (): Promise<JournalEvent[]> =>
  (await get<{ events: JournalEvent[] }>('/api/v1/history?limit=200')).events;
/// `signal`: nobody waits for it any more, and the server stops planning.
export const whatIf = (
  body: { snapshot?: unknown; changes: WhatIfChange[]; best_effort: boolean },
  signal?: AbortSignal,
): Promise<WhatIfAnswer> => post('/api/v1/what-if', body, undefined, signal);
export const importTexts = (texts: {
  topology: string;
  jobs: string;
  nodes?: string;
}): Promise<{ files: { snapshot: string }; warnings: string[] }> => post('/api/v1/import', texts);
/// Has the server remember the token for what this page reads.
export const openSession = (token: string): Promise<unknown> => post('/api/v1/session', {}, token);
export const approve = (id: number, token: string, by: string, why: string): Promise<unknown> =>
  post(`/api/v1/plans/${id}/approve`, { by, why }, token);
export const cancel = (id: number, token: string, by: string, why: string): Promise<unknown> =>
  post(`/api/v1/plans/${id}/cancel`, { by, why }, token);

/// Hears the journal's events for as long as the page lives; a stream that breaks is taken up again
/// from the event seen last. (EventSource hears only kinds whose names it knows.)
export async function listen(
  onEvent: (event: JournalEvent) => void,
  onState: (connected: boolean) => void,
): Promise<never> {
  let last = '';
  for (let wait_ms = 1000; ; wait_ms = Math.min(2 * wait_ms, 10_000)) {
    try {
      const headers: Record<string, string> = last === '' ? {} : { 'Last-Event-ID': last };
      const response = await ask('/api/v1/events', { headers });
      if (!response.ok || !response.body) throw new ApiError(response.statusText);
      onState(true);
      wait_ms = 500;
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = '';
      for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
        text += piece.value;
        const blocks = text.split('\n\n');
        text = blocks.pop() ?? '';
        for (const block of blocks) {
          const data = /^data: (.*)$/m.exec(block)?.[1];
          if (data === undefined) continue;
          const event = JSON.parse(data) as JournalEvent;
          last = String(event.id);
          onEvent(event);
        }
      }
    } catch {
      // The server is gone or the network is: said by onState, tried again below.
    }
    onState(false);
    await new Promise((done) => setTimeout(done, wait_ms));
  }
}
