import '../lib/theme.css';
import { el } from '../lib/dom';

document.getElementById('panel')?.append(el('h1', {}, 'MonkeyTree'));
