/* What the page has, from what rbprobe has packed into it. */

async function unpack(about) {
  const text = atob(byId('columns').textContent);
  let bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  if (about.packed)
    bytes = new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate')))
      .arrayBuffer());
  const columns = new Map();
  let at = 0;
  for (const [name, size] of about.columns) {
    columns.set(name, bytes.subarray(at, at + size));
    at += size;
  }
  return columns;
}

/* Seven bits a byte, the lowest first. */
function numbers(bytes) {
  let total = 0;
  for (let i = 0; i < bytes.length; i++) if (bytes[i] < 128) total++;
  const result = new Float64Array(total);
  for (let i = 0, at = 0; i < total; i++) {
    let value = 0, unit = 1;
    for (; bytes[at] >= 128; at++, unit *= 128) value += (bytes[at] - 128) * unit;
    result[i] = value + bytes[at++] * unit;
  }
  return result;
}

/* Nodes by number; 0 is all. Those below it are threads. */
function readTree(columns, prefix) {
  const tree = {};
  for (const name of ['parent', 'name', 'calls', 'errors', 'total', 'self']) tree[name] = numbers(columns.get(prefix + name));
  return tree;
}

function frame(name, parent) {
  return { name, parent, depth: parent ? parent.depth + 1 : 0, calls: 0, errors: 0, total: 0, self: 0, children: [] };
}

/* The tree of all threads together, or of one. What a thread has without any frame, as while it begins, is all's own. */
function callTree(tree, thread) {
  const root = frame(-1, null);
  const frames = new Array(tree.parent.length + 1);
  const known = new Map();
  for (let i = 0; i < tree.parent.length; i++) {
    const parent = frames[tree.parent[i]];
    if (tree.parent[i] === 0) {
      if (thread !== null && thread !== tree.name[i]) continue;
      frames[i + 1] = root;
      root.self += tree.self[i];
      continue;
    }
    if (!parent) continue;
    let names = known.get(parent);
    if (!names) known.set(parent, names = new Map());
    let one = names.get(tree.name[i]);
    if (!one) {
      names.set(tree.name[i], one = frame(tree.name[i], parent));
      parent.children.push(one);
    }
    frames[i + 1] = one;
    one.calls += tree.calls[i];
    one.errors += tree.errors[i];
    one.total += tree.total[i];
    one.self += tree.self[i];
  }
  /* Children come after their parents: so what is inside is known first from the end. */
  const order = [root];
  for (let i = 0; i < order.length; i++) for (const child of order[i].children) order.push(child);
  for (let i = order.length - 1; i >= 0; i--) {
    const one = order[i];
    one.inside = one.children.reduce((sum, child) => sum + child.total, 0);
    if (one === root) one.total = one.inside + one.self;
    one.children.sort((a, b) => b.total - a.total);
  }
  root.depths = order.reduce((most, one) => Math.max(most, one.depth), 0);
  return root;
}

/* Of what is no method, its kind stands for the file. */
const KINDS = { '': 'written in C', '(objects)': 'a class of which objects were made', '(state)': 'what the VM did',
  '(native)': 'a native function' };
const whereOf = (file, line) => KINDS[file] || `${file}:${line}`;

/* A row for each method; the time of one that calls itself counts once. */
function methodRows(root, methods) {
  const rows = new Map();
  const open = new Map();
  const stack = [[root, false]];
  while (stack.length) {
    const [one, done] = stack.pop();
    if (one.name >= 0) {
      if (done) {
        open.set(one.name, open.get(one.name) - 1);
        continue;
      }
      const file = methods[one.name][1];
      let row = rows.get(one.name);
      if (!row) {
        const [name, , line, least, most, median, rare] = methods[one.name];
        row = { id: one.name, name, file, line, calls: 0, errors: 0, total: 0, all: 0, self: 0, least, most, median, rare };
        rows.set(one.name, row);
      }
      row.calls += one.calls;
      row.errors += one.errors;
      row.self += one.self;
      /* Objects are also those of the method that makes them. */
      const by = file === '(objects)' ? rows.get(one.parent.name) : undefined;
      if (by) by.self += one.self;
      row.all += one.total;
      if (!open.get(one.name)) row.total += one.total;
      open.set(one.name, (open.get(one.name) || 0) + 1);
      stack.push([one, true]);
    }
    for (const child of one.children) stack.push([child, false]);
  }
  for (const row of rows.values()) row.mean = row.calls ? row.all / row.calls : 0;
  return [...rows.values()];
}

/* Calls of the timeline, with how deep each is in others of its lane: those around it began before it and end after it. */
function readCalls(columns, lanes) {
  const perLane = numbers(columns.get('lane_calls'));
  const start = numbers(columns.get('call_start'));
  const duration = numbers(columns.get('call_duration'));
  const name = numbers(columns.get('call_name'));
  const depth = new Uint16Array(start.length);
  const result = [];
  for (let lane = 0, from = 0; lane < lanes.length; lane++) {
    const to = from + perLane[lane];
    const ends = [];
    const perDepth = [];
    for (let i = from, now = 0; i < to; i++) {
      now += start[i];
      start[i] = now;
      const end = now + duration[i];
      while (ends.length && (ends[ends.length - 1] < end || ends[ends.length - 1] <= now)) ends.pop();
      depth[i] = ends.length;
      perDepth[ends.length] = (perDepth[ends.length] || 0) + 1;
      ends.push(end);
    }
    const rows = perDepth.map((size) => new Uint32Array(size));
    const filled = perDepth.map(() => 0);
    for (let i = from; i < to; i++) rows[depth[i]][filled[depth[i]]++] = i;
    result.push({ thread: lanes[lane][0], number: lanes[lane][1], rows, calls: perLane[lane] });
    from = to;
  }
  return { start, duration, name, depth, lanes: result };
}

/* As thread_states.h has them. */
const DOING = [
  { color: 'runs', short: 'runs', text: 'runs' },
  { color: 'gvl', short: 'waits for the GVL', text: 'waits for the GVL' },
  { color: 'blocked', short: 'blocked', text: 'does without the GVL, in what is not known' },
  { color: 'io', short: 'I/O', text: 'is in input or output' },
  { color: 'sleeps', short: 'sleeps', text: 'sleeps' },
  { color: 'locked', short: 'waits for a thread', text: 'waits for another thread: a lock, a queue, or its end' },
  { color: 'child', short: 'waits for a process', text: 'waits for a child process' },
  { color: 'gc', short: 'GC', text: 'collects garbage' },
];

const ENDED = ['returned', 'raised', 'ended otherwise', 'was still running'];

async function readModel() {
  const about = JSON.parse(byId('about').textContent);
  const columns = await unpack(about);
  const model = { about, methods: about.methods, threads: about.threads, isProfile: about.kind === 'profile' };
  model.threads.forEach((thread) => {
    thread.label = model.isProfile ? thread.name : (thread.name || (thread.main ? 'main' : `thread ${thread.id}`));
  });
  if (model.isProfile) {
    model.weights = about.weights.map(([prefix, title, unit]) => (
      { name: prefix.slice(0, -1), title, ...UNITS[unit], tree: readTree(columns, prefix) }));
    for (const method of model.methods) if (method[1] === '(objects)') method[0] += ' (made)';
  } else {
    model.weights = [{ name: 'wall', title: 'wall', ...UNITS.nanoseconds, tree: readTree(columns, '') }];
    model.calls = readCalls(columns, about.lanes);
    const marks = numbers(columns.get('marks'));
    model.marks = [];
    for (let i = 0; i + 4 < marks.length; i += 5)
      model.marks.push({ start: marks[i], duration: marks[i + 1], lane: marks[i + 2], kind: about.mark_kinds[marks[i + 3]],
        text: about.texts[marks[i + 4]] });
    const spans = numbers(columns.get('spans'));
    model.spans = new Map();
    for (let i = 0; i + 2 < spans.length; i += 3) {
      const thread = Math.floor(spans[i + 2] / DOING.length);
      if (!model.spans.has(thread)) model.spans.set(thread, []);
      model.spans.get(thread).push({ start: spans[i], duration: spans[i + 1], doing: spans[i + 2] % DOING.length });
    }
    const done = new Set();
    for (const of of model.spans.values()) {
      of.sort((a, b) => a.start - b.start);
      for (const span of of) done.add(DOING[span.doing]);
    }
    model.done = DOING.filter((one) => done.has(one));
    model.marks.sort((a, b) => a.start - b.start);
    const origin = BigInt(about.origin);
    for (const call of about.slowest) call.at = Number(BigInt(call.start) - origin);
  }
  model.several = new Set(model.threads.map((thread) => thread.pid)).size > 1;
  if (model.several) for (const thread of model.threads) if (!model.isProfile) thread.label = `${thread.pid}: ${thread.label}`;
  return model;
}
