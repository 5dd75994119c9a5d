export type Theme = 'auto' | 'light' | 'dark';

const kDark = '(prefers-color-scheme: dark)';
const listeners: (() => void)[] = [];

/// Follows the system, or stays light or dark. Kept for this page only: nothing is stored.
export function setTheme(theme: Theme): void {
  if (theme === 'auto') document.documentElement.removeAttribute('data-theme');
  else document.documentElement.setAttribute('data-theme', theme);
  for (const listener of listeners) listener();
}

export function isDark(): boolean {
  const theme = document.documentElement.getAttribute('data-theme');
  return theme ? theme === 'dark' : matchMedia(kDark).matches;
}

/// Called after the page has turned light or dark; colours on a canvas must be drawn anew.
export function onThemeChange(listener: () => void): void {
  if (listeners.length === 0) {
    matchMedia(kDark).addEventListener('change', () => {
      for (const each of listeners) each();
    });
  }
  listeners.push(listener);
}

/// The reader's wish for little motion: what would glide, jumps.
export function wantsLittleMotion(): boolean {
  return matchMedia('(prefers-reduced-motion: reduce)').matches;
}
