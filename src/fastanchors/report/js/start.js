// The last module of the page.
import { start } from './main.js';

start();
