'use strict';

/*
 * The page of a recording or a profile. What the process has written is hostile: it becomes text by textContent and fillText
 * alone, never HTML. rbprobe has made control characters and those that reorder a line visible as escapes.
 */

const byId = (id) => document.getElementById(id);

function make(tag, parent, text, className) {
  const element = document.createElement(tag);
  if (text !== undefined && text !== null) element.textContent = text;
  if (className) element.className = className;
  if (parent) parent.append(element);
  return element;
}

function button(parent, text, title, action) {
  const element = make('button', parent, text);
  element.type = 'button';
  element.title = title;
  element.addEventListener('click', action);
  return element;
}

const count = (number) => number.toLocaleString('en');
const plural = (number, what) => `${count(number)} ${what}${number === 1 ? '' : 's'}`;
const percent = (part, whole) => whole > 0 ? `${(100 * part / whole).toFixed(part === whole ? 0 : 2)} %` : '–';

/* ns, for people: three digits or more. */
function time(ns) {
  const size = Math.abs(ns);
  if (size < 1e3) return `${Math.round(ns)} ns`;
  const [unit, name] = size < 1e6 ? [1e3, 'µs'] : size < 1e9 ? [1e6, 'ms'] : [1e9, 's'];
  const number = ns / unit;
  return `${number.toFixed(Math.abs(number) < 10 ? 2 : Math.abs(number) < 100 ? 1 : 0)} ${name}`;
}

function bytes(number) {
  if (number < 1024) return plural(number, 'byte');
  const [unit, name] = number < 2 ** 20 ? [1024, 'KiB'] : number < 2 ** 30 ? [2 ** 20, 'MiB'] : [2 ** 30, 'GiB'];
  return `${(number / unit).toFixed(number / unit < 10 ? 2 : 1)} ${name}`;
}

/* What a profile is of, by its unit: how an amount is shown, and what all of it is called. */
const UNITS = {
  nanoseconds: { show: time, all: 'time' },
  bytes: { show: bytes, all: 'bytes' },
  none: { show: (number) => plural(number, 'object'), all: 'objects' },
};

/* A short name of a file, and the whole one for whoever asks. */
const baseName = (path) => path.slice(path.lastIndexOf('/') + 1);

const isDark = () => matchMedia('(prefers-color-scheme: dark)').matches;

function hash(text) {
  let value = 2166136261;
  for (let i = 0; i < text.length; i++) value = Math.imul(value ^ text.charCodeAt(i), 16777619);
  return value >>> 0;
}

/* Methods of a class have about the same hue. */
const colors = new Map();
function colorOf(name) {
  const known = colors.get(name);
  if (known) return known;
  const separator = Math.max(name.lastIndexOf('#'), name.lastIndexOf('.'));
  const of = hash(separator > 0 ? name.slice(0, separator) : name);
  const shade = hash(name) % 12;
  const hue = (of % 72) * 5 + (hash(name) >>> 8) % 7 * 6;
  const color = isDark() ? `hsl(${hue} 38% ${34 + shade}%)` : `hsl(${hue} 62% ${70 + shade}%)`;
  colors.set(name, color);
  return color;
}

/* A canvas in the pixels of the screen. Returns its context, scaled to those of the page. */
function fit(canvas, width, height) {
  const scale = devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * scale)) canvas.width = Math.round(width * scale);
  if (canvas.height !== Math.round(height * scale)) canvas.height = Math.round(height * scale);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext('2d');
  context.setTransform(scale, 0, 0, scale, 0, 0);
  return context;
}

/* Colours of the style sheet. */
const themed = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/* As much of a text as fits in the context's font, whose characters are as wide as each other. */
function clip(text, width, context) {
  const room = Math.floor(width / context.measureText('M').width);
  return text.length <= room ? text : room < 3 ? '' : `${text.slice(0, room - 1)}…`;
}

/* At most once a frame. */
function soon(action) {
  let waits = false;
  return () => {
    if (waits) return;
    waits = true;
    requestAnimationFrame(() => {
      waits = false;
      action();
    });
  };
}

function showTip(event, lines) {
  const tip = byId('tip');
  tip.hidden = !lines;
  if (!lines) return;
  tip.replaceChildren();
  lines.forEach((line, index) => make('div', tip, line, index ? '' : 'title'));
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 8))}px`;
  tip.style.top = `${event.clientY + 18 + box.height > innerHeight ? event.clientY - box.height - 10 : event.clientY + 18}px`;
}
