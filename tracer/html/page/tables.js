/* The table of methods, and the slowest calls. */

const ROWS_SHOWN = 300;

class Table {
  /* columns: {title, value, show (of a value), text (is no number), bar (its share is drawn)}; open: what a click does. */
  constructor(app, place, columns, open) {
    Object.assign(this, { app, columns, open, rows: [], sorted: columns.findIndex((column) => column.first), falling: true });
    this.note = make('p', place, null, 'note');
    const scroll = make('div', place, null, 'scroll');
    this.element = make('table', scroll);
    const head = make('tr', make('thead', this.element));
    this.heads = columns.map((column, index) => {
      const cell = make('th', head, null, column.text ? '' : 'number');
      button(cell, column.title, 'Sort', () => this.sort(index));
      return cell;
    });
    this.body = make('tbody', this.element);
    this.more = button(scroll, '', 'Show more rows', () => {
      this.limit += 1000;
      this.fill();
    });
    this.more.className = 'more';
    this.limit = ROWS_SHOWN;
  }

  sort(index) {
    this.falling = this.sorted === index ? !this.falling : !this.columns[index].text;
    this.sorted = index;
    this.fill();
  }

  load(rows) {
    this.rows = rows;
    this.fill();
  }

  fill() {
    const column = this.columns[this.sorted];
    const sign = this.falling ? -1 : 1;
    const rows = this.rows.filter((row) => !this.app.matches || this.app.matches.has(row.id));
    rows.sort((a, b) => {
      const one = column.value(a), other = column.value(b);
      return sign * (one < other ? -1 : one > other ? 1 : 0);
    });
    this.heads.forEach((head, index) => {
      if (index === this.sorted) head.setAttribute('aria-sort', this.falling ? 'descending' : 'ascending');
      else head.removeAttribute('aria-sort');
    });
    const most = this.columns.map((each) => (each.bar ? rows.reduce((max, row) => Math.max(max, each.value(row)), 0) : 0));
    this.body.replaceChildren();
    for (const row of rows.slice(0, this.limit)) {
      const line = make('tr', this.body);
      line.tabIndex = 0;
      this.columns.forEach((each, index) => {
        const value = each.value(row);
        const cell = make('td', line, each.show ? each.show(value, row) : value, each.text ? 'name' : 'number');
        if (each.bar && most[index] > 0) {
          const bar = make('span', null, null, 'bar');
          bar.style.width = `${100 * value / most[index]}%`;
          cell.prepend(bar);
        }
        if (each.hint) cell.title = each.hint(row);
      });
      line.addEventListener('click', () => this.open(row, line));
      line.addEventListener('keydown', (event) => event.key === 'Enter' && this.open(row, line));
    }
    this.more.hidden = rows.length <= this.limit;
    this.more.textContent = `${count(Math.max(rows.length - this.limit, 0))} more`;
  }
}

function methodTable(app, place) {
  const whole = () => app.flame.root.total || 1;
  const amount = (value) => app.weight.show(value);
  const columns = [
    { title: app.model.about.of_objects ? 'Method or class' : 'Method', value: (row) => row.name, text: true,
      hint: (row) => whereOf(row.file, row.line) },
    { title: 'Self', value: (row) => row.self, show: amount, first: true, bar: true,
      hint: (row) => percent(row.self, whole()) },
    { title: 'Total', value: (row) => row.total, show: amount, bar: true, hint: (row) => percent(row.total, whole()) },
  ];
  if (!app.model.isProfile)
    columns.push(
      { title: 'Calls', value: (row) => row.calls, show: count },
      { title: 'Mean', value: (row) => row.mean, show: time },
      { title: 'Median', value: (row) => row.median, show: time },
      { title: '99 %', value: (row) => row.rare, show: time },
      { title: 'Longest', value: (row) => row.most, show: time },
      { title: 'Raised', value: (row) => row.errors, show: (errors) => (errors ? count(errors) : '') },
    );
  else
    columns.push({ title: 'Self %', value: (row) => row.self, show: (self) => percent(self, whole()) });
  const table = new Table(app, place, columns, (row) => {
    const lines = [row.name, `itself ${amount(row.self)} (${percent(row.self, whole())}), ` +
      `with what it calls ${amount(row.total)} (${percent(row.total, whole())})`];
    lines.push(whereOf(row.file, row.line));
    app.detail(lines, null, [['Show in the flame graph', () => app.searchFor(row.name, 0)]]);
  });
  table.note.textContent = app.model.about.of_objects
    ? 'Self: what the method itself made, or all of the class. Total: also what it called made; a recursive one counts once.'
    : app.model.isProfile
    ? 'Self: time in the method itself. Total: also in what it called; a recursive one counts once.'
    : 'Self: without the recorded calls inside. Total: with them; of a method that calls itself, the outermost call.';
  return table;
}

const valuesText = (values) => values.map(([name, value]) => (name ? `${name}=${value}` : value)).join(', ');

function outcomeText(call) {
  if (call.exception !== undefined) return `! ${call.exception}${call.message ? `: ${call.message}` : ''}`;
  if (call.result !== undefined) return `=> ${call.result}`;
  return call.ended === 'returned' ? '' : call.ended;
}

function slowTable(app, place) {
  const columns = [
    { title: 'Took', value: (call) => call.duration, show: time, first: true, bar: true },
    { title: 'Method', value: (call) => call.method, text: true },
    { title: 'Arguments', value: (call) => valuesText(call.args), text: true },
    { title: 'Result', value: outcomeText, text: true },
    { title: 'Began', value: (call) => call.at, show: time },
    { title: 'Thread', value: (call) => app.model.threads[call.thread] ? app.model.threads[call.thread].label : '', text: true },
  ];
  if (app.model.spans.size)
    columns.splice(1, 0, { title: 'Waited for the GVL', show: (waited) => (waited ? time(waited) : ''),
      value: (call) => app.waits.waited(call.thread, call.at, call.at + call.duration) });
  const table = new Table(app, place, columns, (call) => {
    const found = app.timeline.find(call);
    const actions = found === undefined ? [] : [['Show in the timeline', () => {
      app.open('timeline');
      app.timeline.showCall(found);
    }]];
    app.detail([call.method, `${time(call.duration)}, from ${time(call.at)} on`], call, actions);
  });
  const { counts, heads, slowest } = app.model.about;
  const without = heads.length && !heads[0].args;
  table.note.textContent = `The ${plural(slowest.length, 'slowest call').replace(/^1 /, '')} of ${count(counts.calls)}.` +
    (without ? ' Arguments and results were not recorded: `rbprobe record --args --return` does.' : '') +
    ' Choose one for its values, and its place in the timeline.';
  return table;
}
