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
}

/// The look of the job with that number. Looks repeat after 32 jobs; letters never do:
/// A … Z, then AA, AB, …
export function lookOf(job: number): JobLook {
  return {
    color: job % kColors,
    pattern: kPatterns[Math.floor(job / kColors) % kPatterns.length] ?? 'plain',
    letter: letterOf(job),
  };
}

export function letterOf(job: number): string {
  const last = String.fromCharCode(65 + (job % 26));
  return job < 26 ? last : letterOf(Math.floor(job / 26) - 1) + last;
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
