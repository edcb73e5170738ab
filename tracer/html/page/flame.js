/*
 * The flame graph, hanging down from the outermost calls: a frame is as wide as its time. A click zooms; what is narrower than
 * half a pixel is not drawn until one zooms.
 */

const ROW = 20;

class Flame {
  constructor(app, place) {
    this.app = app;
    this.tools = make('div', place, null, 'tools');
    this.path = make('div', place, null, 'path');
    this.scroll = make('div', place, null, 'scroll');
    this.canvas = make('canvas', this.scroll);
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute('role', 'application');
    this.canvas.setAttribute('aria-label', 'Flame graph. Arrow keys move, Enter zooms, Escape resets.');
    this.draw = soon(() => this.drawNow());
    this.canvas.addEventListener('click', (event) => this.zoomAt(event));
    this.canvas.addEventListener('mousemove', (event) => this.tip(event));
    this.canvas.addEventListener('mouseleave', () => showTip(null, null));
    this.canvas.addEventListener('keydown', (event) => this.key(event));
    new ResizeObserver(this.draw).observe(this.scroll);
    this.addTools();
  }

  addTools() {
    const model = this.app.model;
    if (model.threads.length > 1) {
      const label = make('label', this.tools, 'Thread ');
      const select = make('select', label);
      make('option', select, 'all together').value = '';
      model.threads.forEach((thread, index) => { make('option', select, thread.label).value = index; });
      select.id = 'flame-thread';
      select.addEventListener('change', () => {
        this.thread = select.value === '' ? null : Number(select.value);
        this.load();
      });
    }
    if (model.weights.length > 1) {
      const label = make('label', this.tools, model.about.of_objects ? 'Show ' : 'Time ');
      const select = make('select', label);
      for (const weight of model.weights) make('option', select, weight.title).value = weight.name;
      select.id = 'flame-weight';
      select.addEventListener('change', () => {
        this.app.weight = model.weights.find((weight) => weight.name === select.value);
        this.app.weightChanged();
      });
    }
    this.resetButton = button(this.tools, 'Reset zoom', 'Show all again (Escape)', () => this.zoom(this.root));
    this.thread = null;
  }

  load() {
    this.root = callTree(this.app.weight.tree, this.thread);
    this.zoom(this.root);
  }

  title(one) {
    return one.name < 0 ? 'all' : this.app.model.methods[one.name][0];
  }

  zoom(one) {
    this.zoomed = one;
    this.selected = one;
    this.resetButton.disabled = one === this.root;
    this.path.replaceChildren();
    const parts = [];
    for (let at = one; at; at = at.parent) parts.unshift(at);
    parts.forEach((part, index) => {
      if (index) make('span', this.path, ' › ', 'dim');
      button(this.path, this.title(part), 'Zoom to it', () => this.zoom(part)).className = 'link';
    });
    this.app.detail(one === this.root ? null : this.lines(one));
    this.draw();
  }

  lines(one) {
    const whole = this.root.total;
    const show = this.app.weight.show;
    const lines = [this.title(one), `${show(one.total)} (${percent(one.total, whole)}), itself ${show(one.self)} ` +
      `(${percent(one.self, whole)})`];
    if (one.calls) lines.push(`${plural(one.calls, 'call')} here, ${time(one.total / one.calls)} each` +
      (one.errors ? `, ${count(one.errors)} raised` : ''));
    const method = this.app.model.methods[one.name];
    if (method && method[1]) lines.push(whereOf(method[1], method[2]));
    return lines;
  }

  /* Frames as they are drawn: [frame, x, width], by depth. */
  layout(width) {
    const rows = [];
    const add = (one, x, size) => {
      (rows[one.depth] = rows[one.depth] || []).push([one, x, size]);
    };
    for (let at = this.zoomed.parent; at; at = at.parent) add(at, 0, width);
    const todo = [[this.zoomed, 0, width]];
    while (todo.length) {
      const [one, x, size] = todo.pop();
      add(one, x, size);
      const whole = Math.max(one.total, one.inside);
      let at = x;
      for (const child of one.children) {
        const part = whole > 0 ? size * child.total / whole : 0;
        if (part >= 0.5) todo.push([child, at, part]);
        at += part;
      }
    }
    for (const row of rows) row.sort((a, b) => a[1] - b[1]);
    return rows;
  }

  drawNow() {
    const width = this.scroll.clientWidth;
    if (!width || !this.root) return;
    this.rows = this.layout(width);
    const context = fit(this.canvas, width, Math.max(this.rows.length * ROW + 2, 40));
    const matches = this.app.matches;
    const dark = isDark();
    context.clearRect(0, 0, width, this.rows.length * ROW + 2);
    context.font = '12px ui-monospace, monospace';
    context.textBaseline = 'middle';
    for (const row of this.rows)
      for (const [one, x, size] of row) {
        const title = this.title(one);
        const found = matches && one.name >= 0 && matches.has(one.name);
        const around = one.depth < this.zoomed.depth;
        context.globalAlpha = matches && !found ? 0.35 : around ? 0.55 : 1;
        context.fillStyle = found ? themed('--found') : one.name < 0 ? themed('--all') : colorOf(title);
        context.fillRect(x, one.depth * ROW, Math.max(size - 0.6, 0.5), ROW - 1);
        if (one === this.selected && one !== this.root) {
          context.globalAlpha = 1;
          context.strokeStyle = themed('--ink');
          context.lineWidth = 2;
          context.strokeRect(x + 1, one.depth * ROW + 1, Math.max(size - 2.6, 1), ROW - 3);
        }
        if (size < 30) continue;
        context.globalAlpha = matches && !found ? 0.6 : 1;
        context.fillStyle = found ? '#fff' : dark ? '#f4f4f4' : '#1c1c1c';
        context.fillText(clip(title, size - 8, context), x + 4, one.depth * ROW + ROW / 2);
      }
    context.globalAlpha = 1;
    if (!this.root.total) {
      context.fillStyle = themed('--ink');
      context.fillText(this.app.model.isProfile ? `No such ${this.app.weight.all} were seen.`
        : 'No call has ended in this recording.', 8, 12);
    }
    this.canvas.dataset.frames = this.rows.reduce((sum, row) => sum + row.length, 0);
  }

  at(event) {
    const box = this.canvas.getBoundingClientRect();
    const x = event.clientX - box.left;
    const row = (this.rows || [])[Math.floor((event.clientY - box.top) / ROW)] || [];
    const found = row.find(([, from, size]) => x >= from && x < from + size);
    return found && found[0];
  }

  zoomAt(event) {
    const one = this.at(event);
    if (one) this.zoom(one);
  }

  tip(event) {
    const one = this.at(event);
    showTip(event, one ? this.lines(one) : null);
  }

  key(event) {
    const one = this.selected;
    const siblings = one.parent ? one.parent.children : [one];
    const place = siblings.indexOf(one);
    const next = {
      ArrowUp: () => one.parent,
      ArrowDown: () => one.children[0],
      ArrowLeft: () => siblings[place - 1],
      ArrowRight: () => siblings[place + 1],
    }[event.key];
    if (next) {
      const to = next();
      if (to) {
        if (to.depth < this.zoomed.depth) this.zoom(to);
        this.selected = to;
        this.app.detail(to === this.root ? null : this.lines(to));
        this.draw();
      }
    } else if (event.key === 'Enter') {
      this.zoom(one);
    } else if (event.key === 'Escape') {
      this.zoom(this.root);
    } else {
      return;
    }
    event.preventDefault();
  }

  /* Time in frames that match, those inside others counted once. */
  foundTime() {
    let sum = 0;
    const todo = [this.root];
    while (todo.length) {
      const one = todo.pop();
      if (one.name >= 0 && this.app.matches.has(one.name)) sum += one.total;
      else for (const child of one.children) todo.push(child);
    }
    return sum;
  }
}
