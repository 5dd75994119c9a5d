import '../lib/theme.css';
import { el } from '../lib/dom';

document.getElementById('app')?.append(el('h1', {}, 'MonkeyTree'));
