/* Who had the GVL while a thread waited for it, and in which call: as `rbprobe report --slowest` tells it. */

const WAITS = 1, HAS_GVL = new Set([0, DOING.length - 1]), MOST = 0.8;

const overlap = (from, to, start, duration) => Math.max(0, Math.min(to, start + duration) - Math.max(from, start));

class Waits {
  constructor(model) {
    this.model = model;
    this.holders = new Map(); /* by PID, what ran, by time */
    this.sums = new Map(); /* by thread, of each of its spans what it had waited at the end of it */
    for (const [thread, spans] of model.spans) {
      let sum = 0;
      this.sums.set(thread, Float64Array.from(spans, (span) => (sum += span.doing === WAITS ? span.duration : 0)));
      for (const span of spans) {
        if (!HAS_GVL.has(span.doing)) continue;
        const pid = model.threads[thread].pid;
        if (!this.holders.has(pid)) this.holders.set(pid, []);
        this.holders.get(pid).push({ start: span.start, duration: span.duration, thread });
      }
    }
    for (const spans of this.holders.values()) spans.sort((a, b) => a.start - b.start);
    this.lanes = new Map();
    for (const lane of model.calls.lanes) {
      if (!this.lanes.has(lane.thread)) this.lanes.set(lane.thread, []);
      this.lanes.get(lane.thread).push(lane);
    }
  }

  /* Of a thread, what it waited for the GVL within a time, as [from, to]. */
  waits(thread, from, to) {
    const spans = this.model.spans.get(thread) || [];
    const result = [];
    for (let i = firstAfter(spans, from); i < spans.length && spans[i].start < to; i++)
      if (spans[i].doing === WAITS)
        result.push([Math.max(from, spans[i].start), Math.min(to, spans[i].start + spans[i].duration)]);
    return result;
  }

  /* { holder, held, call }: a thread, for how long, a call of the timeline; both may be undefined. */
  cause(thread, from, to) {
    const waits = this.waits(thread, from, to);
    const held = new Map();
    const holders = this.holders.get(this.model.threads[thread].pid) || [];
    for (const [start, end] of waits)
      for (let i = firstAfter(holders, start); i < holders.length && holders[i].start < end; i++)
        if (holders[i].thread !== thread)
          held.set(holders[i].thread, (held.get(holders[i].thread) || 0) +
            overlap(start, end, holders[i].start, holders[i].duration));
    const [holder, time] = [...held].reduce((most, one) => (one[1] > most[1] ? one : most), [undefined, 0]);
    return { holder, held: time, call: holder === undefined ? undefined : this.callOf(holder, waits) };
  }

  /* The shortest call that was open for most of the time. */
  callOf(thread, waits) {
    const { start, duration } = this.model.calls;
    const times = new Map();
    for (const lane of this.lanes.get(thread) || [])
      for (const row of lane.rows)
        for (const [from, to] of waits)
          for (let i = firstEnding(row, start, duration, from); i < row.length && start[row[i]] < to; i++)
            times.set(row[i], (times.get(row[i]) || 0) + overlap(from, to, start[row[i]], duration[row[i]]));
    const most = [...times.values()].reduce((one, other) => Math.max(one, other), 0);
    let found;
    for (const [call, time] of times)
      if (time && time >= MOST * most && (found === undefined || duration[call] < duration[found])) found = call;
    return found;
  }

  /* "held by hog for 0.24 s in Hog#hold" */
  text(thread, from, to) {
    if (!this.waited(thread, from, to)) return '';
    const { holder, held, call } = this.cause(thread, from, to);
    if (holder === undefined) return 'nobody is known to have held it';
    const { methods, calls, threads } = this.model;
    const inside = call === undefined ? '' : ` in ${methods[Math.floor(calls.name[call] / 4)][0]}`;
    return `held by ${threads[holder].label} for ${time(held)}${inside}`;
  }

  waited(thread, from, to) {
    return this.waitedUntil(thread, to) - this.waitedUntil(thread, from);
  }

  waitedUntil(thread, at) {
    const spans = this.model.spans.get(thread) || [];
    const i = firstAfter(spans, at);
    const open = i < spans.length && spans[i].doing === WAITS ? Math.max(0, at - spans[i].start) : 0;
    return open + (i ? this.sums.get(thread)[i - 1] : 0);
  }
}
