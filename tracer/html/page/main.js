/* The page: its parts, tabs, search, keys. */

const HELP = [
  ['1 2 3 4', 'the views'],
  ['/', 'search; Enter or Escape leaves it'],
  ['Escape', 'show all again; close'],
  ['↑ ↓ ← →, Enter', 'flame graph: move, zoom'],
  ['W S, A D', 'timeline: zoom, move; 0 shows all'],
  ['Ctrl and wheel', 'timeline: zoom where the mouse is; dragging moves'],
  ['Double click', 'timeline: zoom to a call'],
  ['?', 'this help'],
];

class App {
  constructor(model) {
    this.model = model;
    this.matches = null;
    this.weight = model.weights[0];
    this.views = [];
  }

  start() {
    const model = this.model;
    byId('kind').textContent = model.isProfile ? 'profile' : 'recording';
    document.title = `rbprobe: ${baseName(model.about.file)}`;
    const line = facts(model);
    line.forEach((fact) => make('span', byId('facts'), fact));
    byId('facts').title = line.join('\n');
    this.warn(warnings(model));
    this.add('flame', 'Flame graph', (place) => { this.flame = new Flame(this, place); return this.flame; });
    if (!model.isProfile) this.waits = new Waits(model);
    if (!model.isProfile)
      this.add('timeline', 'Timeline', (place) => { this.timeline = new Timeline(this, place); return this.timeline; });
    this.add('methods', 'Methods', (place) => { this.methods = methodTable(this, place); return this.methods; });
    if (!model.isProfile) this.add('slowest', 'Slowest calls', (place) => { this.slowest = slowTable(this, place); });
    this.weightChanged();
    if (this.slowest) {
      const ids = new Map(model.methods.map((method, id) => [method[0], id]));
      for (const call of model.about.slowest) call.id = ids.has(call.method) ? ids.get(call.method) : 0;
      this.slowest.load(model.about.slowest);
    }
    byId('search').addEventListener('input', () => this.search());
    byId('search').addEventListener('keydown', (event) => {
      if (event.key === 'Escape') this.searchFor('');
      if (event.key === 'Escape' || event.key === 'Enter') this.focus();
    });
    document.addEventListener('keydown', (event) => this.key(event));
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
      colors.clear();
      this.redraw();
    });
    this.makeHelp();
    const wanted = location.hash.slice(1);
    this.open(this.views.some((view) => view.name === wanted) ? wanted : 'flame');
    document.documentElement.dataset.ready = 'yes';
  }

  warn(said) {
    const box = byId('warnings');
    box.hidden = !said.length;
    if (!said.length) return;
    const all = make('details', box);
    all.open = said.length === 1;
    make('summary', all, said.length === 1 ? 'Not all is shown' : `Not all is shown: ${said.length} notes`);
    const list = make('ul', all);
    for (const text of said) make('li', list, text);
  }

  add(name, title, fill) {
    const view = { name, title };
    const number = this.views.length + 1;
    view.tab = button(byId('tabs'), title, `${title} (${number})`, () => this.open(name));
    view.tab.setAttribute('role', 'tab');
    view.tab.id = `tab-${name}`;
    view.panel = make('section', byId('panels'), null, 'panel');
    view.panel.id = `panel-${name}`;
    view.panel.setAttribute('role', 'tabpanel');
    view.panel.setAttribute('aria-labelledby', view.tab.id);
    this.views.push(view);
    fill(view.panel);
  }

  open(name) {
    for (const view of this.views) {
      const is = view.name === name;
      view.tab.setAttribute('aria-selected', is);
      view.panel.hidden = !is;
    }
    this.name = name;
    this.detail(null);
    showTip(null, null);
    history.replaceState(null, '', `#${name}`);
    this.redraw();
  }

  focus() {
    const canvas = byId(`panel-${this.name}`).querySelector('canvas, tbody tr');
    if (canvas) canvas.focus();
    else document.activeElement.blur();
  }

  weightChanged() {
    this.flame.load();
    this.methods.load(methodRows(callTree(this.weight.tree, null), this.model.methods));
  }

  redraw() {
    this.flame.draw();
    if (this.timeline) this.timeline.draw();
  }

  search() {
    const wanted = byId('search').value.trim().toLowerCase();
    this.matches = null;
    if (wanted) {
      this.matches = new Set();
      this.model.methods.forEach((method, id) => {
        if (method[0].toLowerCase().includes(wanted)) this.matches.add(id);
      });
    }
    byId('found').textContent = this.matches ? `${plural(this.matches.size, 'method')}, ` +
      `${percent(this.flame.foundTime(), this.flame.root.total)} of the ${this.weight.all}` : '';
    this.methods.fill();
    if (this.slowest) this.slowest.fill();
    this.redraw();
  }

  searchFor(text, view) {
    byId('search').value = text;
    this.search();
    if (view !== undefined) this.open(this.views[view].name);
  }

  /* What is known of the thing that was chosen. slow: with its values. */
  detail(lines, slow, actions = []) {
    const place = byId('detail');
    place.replaceChildren();
    place.hidden = !lines;
    if (!lines) return;
    const head = make('div', place, null, 'head');
    make('strong', head, lines[0]);
    for (const [title, action] of actions) button(head, title, title, action);
    const close = button(head, '×', 'Close', () => this.detail(null));
    close.className = 'close';
    make('p', place, lines.slice(1).join('  ·  '));
    if (!slow) return;
    const list = make('dl', place);
    const add = (name, value) => {
      make('dt', list, name);
      make('dd', list, value);
    };
    for (const [name, value] of slow.args) add(name, value);
    for (const [name, value] of slow.locals || []) add(`${name} (at the end)`, value);
    add('ended', `${slow.ended} ${outcomeText(slow)}`.trim());
    const waited = this.waits.text(slow.thread, slow.at, slow.at + slow.duration);
    if (waited) add('waited for the GVL', `${time(this.waits.waited(slow.thread, slow.at, slow.at + slow.duration))}, ${waited}`);
    if (slow.retries) add('retried', plural(slow.retries, 'time'));
    if (slow.cpu_ns !== undefined && slow.cpu_ns !== null) add('CPU time', time(slow.cpu_ns));
    if (slow.objects !== undefined && slow.objects !== null) add('objects made', count(slow.objects));
    if (slow.gc_ns !== undefined && slow.gc_ns !== null) add('garbage collection', time(slow.gc_ns));
  }

  makeHelp() {
    const help = byId('help');
    make('h2', help, 'Keys');
    const list = make('dl', help);
    for (const [keys, what] of HELP) {
      make('dt', list, keys);
      make('dd', list, what);
    }
    button(help, 'Close', 'Close', () => help.close());
    button(byId('tabs'), '?', 'Help (?)', () => help.showModal()).className = 'help';
  }

  key(event) {
    const typing = event.target.closest('input, select');
    if (typing || event.ctrlKey || event.metaKey || event.altKey || byId('help').open) return;
    const view = this.views[Number(event.key) - 1];
    if (event.key === '/') byId('search').focus();
    else if (event.key === '?') byId('help').showModal();
    else if (view && !(this.name === 'timeline' && event.key === '0')) this.open(view.name);
    else if (event.key === 'Escape' && !event.defaultPrevented) this.detail(null);
    else return;
    event.preventDefault();
  }
}

readModel().then((model) => (window.app = new App(model)).start()).catch((error) => {
  byId('warnings').hidden = false;
  byId('warnings').textContent = `This page cannot be shown: ${error.message}. It needs a browser of 2023 or newer.`;
  document.documentElement.dataset.ready = 'failed';
});
