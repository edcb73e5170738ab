/*
 * The timeline: a block of rows for each thread (and each of its other fibers), a row for each level of calls. Only what is on
 * the screen is drawn, at most one call a pixel and row: so a million calls cost no more than a thousand.
 */

const LEVEL = 16, HEAD = 22, STRIP = 7, AXIS = 24, MAP = 30, LEVELS_SHOWN = 64;

/* Of spans one after the other, the first that ends after that time. */
function firstAfter(spans, at) {
  let low = 0, high = spans.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (spans[middle].start + spans[middle].duration <= at) low = middle + 1;
    else high = middle;
  }
  return low;
}

/* Calls of a row come one after the other, too. */
function firstEnding(row, start, duration, at) {
  let low = 0, high = row.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (start[row[middle]] + duration[row[middle]] <= at) low = middle + 1;
    else high = middle;
  }
  return low;
}

class Timeline {
  constructor(app, place) {
    this.app = app;
    this.calls = app.model.calls;
    this.span = Math.max(app.model.about.span, 1);
    this.tools = make('div', place, null, 'tools');
    this.scroll = make('div', place, null, 'scroll timeline');
    this.sticky = make('div', this.scroll, null, 'sticky');
    this.canvas = make('canvas', this.sticky);
    this.spacer = make('div', this.scroll);
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute('role', 'application');
    this.canvas.setAttribute('aria-label', 'Timeline. A and D or the arrow keys move, W and S or + and - zoom, 0 shows all.');
    this.draw = soon(() => this.drawNow());
    this.from = 0;
    this.to = this.span;
    button(this.tools, '+', 'Zoom in (W or +, Ctrl and the wheel)', () => this.zoom(0.5));
    button(this.tools, '−', 'Zoom out (S or -)', () => this.zoom(2));
    button(this.tools, '◀', 'Earlier (A)', () => this.pan(-0.3));
    button(this.tools, '▶', 'Later (D)', () => this.pan(0.3));
    this.resetButton = button(this.tools, 'All', 'Show all (0)', () => this.show(0, this.span));
    button(this.tools, 'Slowest call', 'Zoom to it', () => {
      const slowest = this.app.model.about.slowest.map((slow) => this.find(slow)).find((call) => call !== undefined);
      if (slowest !== undefined) this.showCall(slowest);
    });
    this.shown = make('output', this.tools);
    for (const one of this.app.model.done) make('span', this.tools, one.short, `legend ${one.color}`);
    this.arrange();
    this.listen();
  }

  /* Where the lanes are, one below the other. */
  arrange() {
    let y = 0;
    const marks = new Map();
    for (const mark of this.app.model.marks) {
      if (!marks.has(mark.lane)) marks.set(mark.lane, []);
      marks.get(mark.lane).push(mark);
    }
    this.lanes = this.calls.lanes.map((lane, index) => {
      const levels = Math.min(Math.max(lane.rows.length, 1), LEVELS_SHOWN);
      const one = { lane, index, y, levels, marks: marks.get(index) || [] };
      const thread = this.app.model.threads[lane.thread];
      one.spans = lane.number ? [] : this.app.model.spans.get(lane.thread) || [];
      one.title = lane.number ? `${thread.label}, another fiber` : thread.label;
      one.more = lane.rows.length - levels;
      y += HEAD + STRIP + levels * LEVEL + 8;
      return one;
    }).filter((one) => one.lane.calls || one.marks.length || one.spans.length);
    y = 0;
    for (const one of this.lanes.sort((a, b) => a.lane.thread - b.lane.thread || a.lane.number - b.lane.number)) {
      one.y = y;
      y += HEAD + STRIP + one.levels * LEVEL + 8;
    }
    this.height = y;
  }

  listen() {
    const canvas = this.canvas;
    const pointers = new Map();
    let moved = 0, pinch = 0;
    this.scroll.addEventListener('scroll', this.draw);
    new ResizeObserver(this.draw).observe(this.scroll);
    canvas.addEventListener('wheel', (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) this.zoom(event.deltaY > 0 ? 1.25 : 0.8, this.timeAt(event));
      else if (Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey)
        this.pan((event.deltaX || event.deltaY) / this.width);
      else return;
      event.preventDefault();
    }, { passive: false });
    canvas.addEventListener('pointerdown', (event) => {
      pointers.set(event.pointerId, event.clientX);
      moved = 0;
      canvas.setPointerCapture(event.pointerId);
      this.onMap = this.yOf(event) < MAP;
      if (this.onMap) this.centre(event);
    });
    canvas.addEventListener('pointermove', (event) => {
      if (!pointers.has(event.pointerId)) return this.tip(event);
      const by = event.clientX - pointers.get(event.pointerId);
      moved += Math.abs(by);
      pointers.set(event.pointerId, event.clientX);
      showTip(null, null);
      if (pointers.size === 2) {
        const [one, other] = [...pointers.values()];
        const apart = Math.max(Math.abs(one - other), 10);
        if (pinch) this.zoom(pinch / apart);
        pinch = apart;
      } else if (this.onMap) {
        this.centre(event);
      } else {
        this.pan(-by / this.width);
      }
    });
    for (const name of ['pointerup', 'pointercancel'])
      canvas.addEventListener(name, (event) => {
        pointers.delete(event.pointerId);
        pinch = 0;
        if (name === 'pointerup' && moved < 5 && !this.onMap) this.select(this.at(event));
      });
    canvas.addEventListener('pointerleave', () => showTip(null, null));
    canvas.addEventListener('dblclick', (event) => {
      const hit = this.at(event);
      if (hit && hit.call !== undefined) this.showCall(hit.call);
      else this.zoom(0.25, this.timeAt(event));
    });
    canvas.addEventListener('keydown', (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const action = { w: () => this.zoom(0.7), '+': () => this.zoom(0.7), '=': () => this.zoom(0.7), s: () => this.zoom(1.4),
        '-': () => this.zoom(1.4), a: () => this.pan(-0.15), d: () => this.pan(0.15), ArrowLeft: () => this.pan(-0.15),
        ArrowRight: () => this.pan(0.15), 0: () => this.show(0, this.span), Escape: () => this.show(0, this.span),
        Enter: () => this.selected !== undefined && this.showCall(this.selected) }[event.key];
      if (!action) return;
      action();
      event.preventDefault();
    });
  }

  get width() {
    return Math.max(this.scroll.clientWidth, 1);
  }

  show(from, to) {
    const size = Math.min(Math.max(to - from, 100), this.span);
    this.from = Math.max(0, Math.min(from, this.span - size));
    this.to = this.from + size;
    this.draw();
  }

  zoom(factor, around = (this.from + this.to) / 2) {
    this.show(around - (around - this.from) * factor, around + (this.to - around) * factor);
  }

  pan(share) {
    const by = share * (this.to - this.from);
    this.show(this.from + by, this.to + by);
  }

  /* On the strip of the whole. */
  centre(event) {
    const box = this.canvas.getBoundingClientRect();
    const at = (event.clientX - box.left) / this.width * this.span;
    const half = (this.to - this.from) / 2;
    this.show(at - half, at + half);
  }

  showCall(call) {
    const size = Math.max(this.calls.duration[call], 100);
    this.show(this.calls.start[call] - size * 0.3, this.calls.start[call] + size * 1.3);
    const one = this.lanes.find((lane) => lane.lane.rows.some((row) => {
      const place = this.firstFrom(row, this.calls.start[call]);
      for (let i = place; i < row.length && this.calls.start[row[i]] === this.calls.start[call]; i++)
        if (row[i] === call) return true;
      return false;
    }));
    if (one) this.scroll.scrollTop = Math.max(0, one.y - 20);
    this.select({ call });
  }

  /* The call of the list of slow ones, if the timeline has it. */
  find(slow) {
    const lane = this.calls.lanes[slow.lane];
    if (!lane) return undefined;
    for (const row of lane.rows)
      for (let i = this.firstFrom(row, slow.at - 600); i < row.length && this.calls.start[row[i]] <= slow.at + 600; i++)
        if (this.calls.duration[row[i]] === slow.duration) return row[i];
    return undefined;
  }

  /* The first of the row that starts then or later. */
  firstFrom(row, start) {
    let low = 0, high = row.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.calls.start[row[middle]] < start) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  drawNow() {
    if (!this.scroll.clientWidth) return;
    const height = Math.max(this.scroll.clientHeight, 80);
    const context = this.context = fit(this.canvas, this.width, height);
    this.sticky.style.height = `${height}px`;
    this.spacer.style.height = `${Math.max(0, this.height + MAP + AXIS + 10 - height)}px`;
    this.scale = this.width / (this.to - this.from);
    this.colors = {};
    for (const name of ['paper', 'ink', 'dim', 'line', 'found', 'error', 'lost', 'band', ...DOING.map((one) => one.color)])
      this.colors[name] = themed(`--${name}`);
    context.clearRect(0, 0, this.width, height);
    context.textBaseline = 'middle';
    this.drawn = 0;
    this.drawGaps(height);
    this.drawGrid(height);
    for (const one of this.lanes) this.drawLane(one, one.y + MAP + AXIS - this.scroll.scrollTop, height);
    this.drawAxis();
    this.drawMap();
    this.shown.textContent = `${time(this.from)} – ${time(this.to)}`;
    this.resetButton.disabled = this.from === 0 && this.to === this.span;
    this.canvas.dataset.from = this.from;
    this.canvas.dataset.to = this.to;
    this.canvas.dataset.drawn = this.drawn;
  }

  x(at) {
    return (at - this.from) * this.scale;
  }

  drawLane(one, y, height) {
    if (y > height || y + HEAD + STRIP + one.levels * LEVEL < 0) return;
    const context = this.context;
    context.fillStyle = this.colors.band;
    context.fillRect(0, y, this.width, HEAD - 3);
    context.fillStyle = this.colors.ink;
    context.font = '600 12px system-ui, sans-serif';
    const note = one.more > 0 ? `, ${plural(one.more, 'deeper level')} not drawn` : '';
    context.fillText(`${one.title}  ·  ${plural(one.lane.calls, 'call')}${note}`, 6, y + HEAD / 2 - 1);
    this.drawSpans(one, y + HEAD - 1);
    this.drawMarks(one, y + HEAD - 1);
    context.font = '11px ui-monospace, monospace';
    for (let level = 0; level < one.levels; level++)
      if (one.lane.rows[level]) this.drawRow(one.lane.rows[level], y + HEAD + STRIP + level * LEVEL);
  }

  drawRow(row, y) {
    const { start, duration, name } = this.calls;
    const methods = this.app.model.methods, matches = this.app.matches, context = this.context;
    let i = this.firstFrom(row, this.from);
    if (i) i--;
    while (i < row.length) {
      const call = row[i];
      const x = this.x(start[call]);
      if (x > this.width) return;
      const size = duration[call] * this.scale;
      const id = Math.floor(name[call] / 4), ended = name[call] % 4;
      if (x + size >= 0) {
        const found = matches && matches.has(id);
        const left = Math.max(x, 0), right = Math.min(x + Math.max(size, 1), this.width);
        context.globalAlpha = matches && !found ? 0.25 : 1;
        context.fillStyle = found ? this.colors.found : ended === 1 ? this.colors.error : colorOf(methods[id][0]);
        context.fillRect(left, y, Math.max(right - left - (size > 3 ? 0.7 : 0), 0.6), LEVEL - 2);
        this.drawn++;
        if (ended === 3) {
          context.fillStyle = this.colors.ink;
          context.fillRect(right - 2, y, 2, LEVEL - 2);
        }
        if (call === this.selected) {
          context.globalAlpha = 1;
          context.strokeStyle = this.colors.ink;
          context.lineWidth = 2;
          context.strokeRect(left + 1, y, Math.max(right - left - 2, 1), LEVEL - 2);
        }
        if (right - left > 28) {
          context.globalAlpha = matches && !found ? 0.5 : 1;
          context.fillStyle = found || ended === 1 ? '#fff' : isDark() ? '#f4f4f4' : '#1c1c1c';
          context.fillText(clip(methods[id][0], right - left - 6, context), left + 3, y + LEVEL / 2 - 1);
        }
      }
      context.globalAlpha = 1;
      i++;
      /* Short ones that would be drawn into the same pixel are passed over. */
      if (size < 1)
        for (const pixel = 1 / this.scale, to = start[call] + pixel; i < row.length && duration[row[i]] < pixel; i++)
          if (start[row[i]] >= to) break;
    }
  }

  /* Of those that share a pixel, the longest is drawn. */
  drawSpans(one, y) {
    const context = this.context;
    let i = firstAfter(one.spans, this.from);
    while (i < one.spans.length && one.spans[i].start < this.to) {
      let span = one.spans[i];
      const x = this.x(span.start);
      for (i++; i < one.spans.length && this.x(one.spans[i].start) < x + 1; i++)
        if (one.spans[i].duration > span.duration) span = one.spans[i];
      context.fillStyle = this.colors[DOING[span.doing].color];
      const left = Math.max(this.x(span.start), 0);
      context.fillRect(left, y, Math.max(Math.min(this.x(span.start + span.duration), this.width) - left, 1), STRIP - 1);
    }
  }

  drawMarks(one, y) {
    const context = this.context;
    let last = -10;
    for (const mark of one.marks) {
      const x = this.x(mark.start), size = mark.duration * this.scale;
      if (x > this.width || x + Math.max(size, 3) < 0 || (size < 1 && x - last < 1)) continue;
      last = x;
      context.fillStyle = mark.kind === 'raise' ? this.colors.error : mark.kind === 'gvl' ? this.colors.gvl
        : mark.kind.startsWith('gc') ? this.colors.gc : this.colors.dim;
      context.fillRect(x, y, Math.max(size, 2), STRIP - 1);
    }
  }

  drawGaps(height) {
    const context = this.context;
    context.fillStyle = this.colors.lost;
    for (const [start, size] of this.app.model.about.gaps) {
      const x = this.x(start);
      if (x < this.width && x + size * this.scale > 0) context.fillRect(x, MAP, Math.max(size * this.scale, 2), height);
    }
  }

  /* Round times, about 110 pixels apart. */
  ticks() {
    const rough = (this.to - this.from) / Math.max(this.width / 110, 1);
    const unit = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].find((one) => one * unit >= rough) * unit;
    const found = [];
    for (let at = Math.ceil(this.from / step) * step; at <= this.to; at += step) found.push(at);
    return found;
  }

  /* Below the lanes: their text is read, not crossed out. */
  drawGrid(height) {
    this.context.fillStyle = this.colors.line;
    for (const at of this.ticks()) this.context.fillRect(this.x(at), MAP + AXIS - 6, 1, height);
  }

  drawAxis() {
    const context = this.context;
    context.fillStyle = this.colors.paper;
    context.fillRect(0, 0, this.width, MAP + AXIS);
    context.font = '11px system-ui, sans-serif';
    for (const at of this.ticks()) {
      const text = time(at), x = this.x(at);
      context.fillStyle = this.colors.line;
      context.fillRect(x, MAP + AXIS - 6, 1, 6);
      context.fillStyle = this.colors.dim;
      /* Half a time would be a wrong one. */
      if (x + 3 + context.measureText(text).width <= this.width) context.fillText(text, x + 3, MAP + AXIS / 2 - 1);
    }
  }

  /* How much went on, of the whole, and where this part is. */
  drawMap() {
    const context = this.context;
    if (!this.busy || this.busy.length !== Math.ceil(this.width)) this.busy = this.countBusy(Math.ceil(this.width));
    const most = this.busy.reduce((one, other) => Math.max(one, other), 0) || 1;
    context.fillStyle = this.colors.dim;
    for (let x = 0; x < this.busy.length; x++) {
      const size = this.busy[x] ? Math.max(2, (MAP - 6) * this.busy[x] / most) : 0;
      context.fillRect(x, MAP - 2 - size, 1, size);
    }
    context.fillStyle = this.colors.lost;
    for (const [start, size] of this.app.model.about.gaps)
      context.fillRect(start / this.span * this.width, 0, Math.max(size / this.span * this.width, 2), MAP - 2);
    const left = this.from / this.span * this.width, right = this.to / this.span * this.width;
    context.fillStyle = this.colors.band;
    context.fillRect(0, 0, left, MAP - 2);
    context.fillRect(right, 0, this.width - right, MAP - 2);
    context.strokeStyle = this.colors.found;
    context.lineWidth = 1.5;
    context.strokeRect(left + 0.75, 1, Math.max(right - left - 1.5, 3), MAP - 3);
  }

  /* By pixel, the time that outermost calls of all threads took. */
  countBusy(width) {
    const busy = new Float64Array(width);
    const { start, duration } = this.calls;
    const pixel = this.span / width;
    for (const lane of this.calls.lanes)
      for (const call of lane.rows[0] || []) {
        const end = start[call] + duration[call];
        for (let x = Math.floor(start[call] / pixel); x < width && x * pixel < end; x++)
          busy[x] += Math.min(end, (x + 1) * pixel) - Math.max(start[call], x * pixel);
      }
    return busy;
  }

  timeAt(event) {
    return this.from + (event.clientX - this.canvas.getBoundingClientRect().left) / this.scale;
  }

  yOf(event) {
    return event.clientY - this.canvas.getBoundingClientRect().top;
  }

  /* { call } or { mark } or { gap } that is there. */
  at(event) {
    const y = this.yOf(event);
    if (y < MAP + AXIS || this.scale === undefined) return null;
    const at = this.timeAt(event), reach = 2 / this.scale;
    const inside = y - MAP - AXIS + this.scroll.scrollTop;
    const one = this.lanes.find((lane) => inside >= lane.y && inside < lane.y + HEAD + STRIP + lane.levels * LEVEL);
    if (one && inside - one.y >= HEAD - 2) {
      const level = Math.floor((inside - one.y - HEAD - STRIP) / LEVEL);
      if (level < 0) {
        const mark = one.marks.find((each) => at >= each.start - reach && at <= each.start + each.duration + reach);
        if (mark) return { mark };
        const span = one.spans[firstAfter(one.spans, at)];
        if (span && span.start <= at) return { span, thread: one.lane.thread };
      }
      const row = one.lane.rows[level];
      const i = row ? this.firstFrom(row, at + reach) - 1 : -1;
      if (i >= 0 && at <= this.calls.start[row[i]] + this.calls.duration[row[i]] + reach) return { call: row[i] };
    }
    const gap = this.app.model.about.gaps.find(([start, size]) => at >= start - reach && at <= start + size + reach);
    return gap ? { gap } : null;
  }

  lines(hit) {
    if (!hit) return null;
    if (hit.gap) return [`${plural(hit.gap[2], 'call')} lost here`, `within ${time(hit.gap[1])}`];
    if (hit.span) {
      const { start, duration, doing } = hit.span;
      const held = doing === WAITS ? this.app.waits.text(hit.thread, start, start + duration) : '';
      return [`The thread ${DOING[doing].text}`, `${time(duration)}, from ${time(start)} on`, ...(held ? [held] : [])];
    }
    if (hit.mark) return [hit.mark.text, `at ${time(hit.mark.start)}`];
    const { start, duration, name } = this.calls;
    const method = this.app.model.methods[Math.floor(name[hit.call] / 4)];
    const ended = name[hit.call] % 4;
    const lines = [method[0], `${time(duration[hit.call])}, from ${time(start[hit.call])} on; ${ENDED[ended]}`];
    if (method[1]) lines.push(`${method[1]}:${method[2]}`);
    return lines;
  }

  tip(event) {
    showTip(event, this.lines(this.at(event)));
  }

  select(hit) {
    this.selected = hit ? hit.call : undefined;
    const slow = this.selected === undefined ? null
      : this.app.model.about.slowest.find((one) => this.find(one) === this.selected);
    this.app.detail(this.lines(hit), slow);
    this.draw();
  }
}
