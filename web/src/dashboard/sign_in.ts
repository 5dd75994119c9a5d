import { el, setText } from '../lib/dom';
import * as api from './api';

/// Asks for a token until one counts. The server keeps it in a cookie that no script can read and
/// that only reads; what changes the cluster asks for a token of its own.
export function signIn(): Promise<void> {
  return new Promise((done) => {
    const token = el('input', {
      type: 'password',
      id: 'sign-in-token',
      autocomplete: 'current-password',
      required: true,
    });
    const fault = el('p', { class: 'verdict', role: 'alert' });
    const form = el(
      'form',
      { method: 'dialog' },
      el('h2', { id: 'sign-in-title' }, 'Who looks?'),
      el('p', {}, 'This controller shows its cluster to those who have a token.'),
      el('label', { for: 'sign-in-token' }, 'Token'),
      token,
      el('button', { type: 'submit' }, 'Show the cluster'),
      fault,
    );
    const dialog = el(
      'dialog',
      { class: 'card sign-in', 'aria-labelledby': 'sign-in-title' },
      form,
    );
    dialog.addEventListener('cancel', (event) => event.preventDefault());
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      setText(fault, '');
      api.openSession(token.value.trim()).then(
        () => {
          dialog.close();
          dialog.remove();
          done();
        },
        (error: unknown) => {
          setText(fault, error instanceof Error ? error.message : String(error));
          token.select();
        },
      );
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
