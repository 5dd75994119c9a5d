/// How jobs are told apart: eight colours that hold under the common kinds of colour blindness,
/// each in four patterns, and a letter besides. Red is left out: it means a shared uplink. The
/// colours themselves are `--job-0` … `--job-7` in theme.css, light and dark.

export const kColors = 8;

export type Pattern = 'plain' | 'stripes' | 'dots' | 'bars';
const kPatterns: readonly Pattern[] = ['plain', 'stripes', 'dots', 'bars'];

export interface JobLook {
  color: number; // 0 … kColors−1
  pattern: Pattern;
  letter: string;
  order: number; // of letters, as people sort them
}

/// The look of the job with that number. Looks repeat after 32 jobs; letters never do. Colour and
/// letter may have numbers of their own.
export function lookOf(job: number, letter = job): JobLook {
  return {
    color: job % kColors,
    pattern: kPatterns[Math.floor(job / kColors) % kPatterns.length] ?? 'plain',
    letter: letterOf(letter),
    order: letter,
  };
}

/// As src/cluster/picture.cc has them, in their order.
export const kLetters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';

/// One of kLetters, then AA, AB, … ZZ, AAA, …
export function letterOf(number: number): string {
  const one = kLetters[number];
  if (one !== undefined) return one;
  let text = '';
  for (let left = number - kLetters.length + 26; left >= 0; left = Math.floor(left / 26) - 1) {
    text = String.fromCharCode(65 + (left % 26)) + text;
  }
  return text;
}

/// A variable of theme.css as a colour that a canvas understands, as the page shows it now. Ask
/// again when the page turns light or dark (onThemeChange).
export function colorOf(variable: string): string {
  const probe = document.createElement('span');
  probe.hidden = true;
  probe.style.color = `var(${variable})`;
  document.body.append(probe);
  const color = getComputedStyle(probe).color;
  probe.remove();
  return color;
}
