/* What is said about the whole: where it is from, and what is not shown. */

function duration(model) {
  if (!model.isProfile) return model.about.span;
  return Math.max(0, ...model.about.sessions.map((session) => session.duration_ns || 0));
}

function facts(model) {
  const about = model.about;
  const parts = [];
  const pids = [...new Set(about.sessions.map((session) => session.pid))];
  parts.push(pids.length === 1 ? `process ${pids[0]}` : plural(pids.length, 'process').replace('processs', 'processes'));
  const rubies = [...new Set(about.sessions.map((session) => session.ruby).filter(Boolean))];
  if (rubies.length) parts.push(`Ruby ${rubies.join(', ')}`);
  if (duration(model)) parts.push(time(duration(model)));
  if (about.of_objects) {
    const made = about.sessions.reduce((sum, session) => sum + (session.made || 0), 0);
    const every = Math.max(1, ...about.sessions.map((session) => session.every || 1));
    parts.push(`${plural(made, 'object')} made`);
    if (every > 1) parts.push(`about 1 of ${count(every)} looked at`);
    if (about.sessions.some((session) => session.retained)) parts.push('shown are those that stayed');
  } else if (model.isProfile) {
    const samples = about.sessions.reduce((sum, session) => sum + (session.samples || 0), 0);
    parts.push(`${plural(samples, 'sample')} at ${count(about.rate_hz)} Hz`);
  } else {
    parts.push(plural(about.counts.calls, 'call'));
    const head = about.heads[0];
    if (head) parts.push(new Date(head.began_ms).toLocaleString());
    if (head && head.host) parts.push(`on ${head.host}`);
  }
  const command = about.sessions.map((session) => session.command).find(Boolean);
  if (command) parts.push(command);
  return parts;
}

/* What a profile of objects of a process does not have. */
function objectWarnings(session) {
  const said = [];
  const off = session.off_ns / (session.duration_ns || 1);
  if (session.ended_early) said.push('the profile ended before it could be seen which objects stay.');
  if (off > 0.02) said.push(`to stay cheap, rbprobe looked for ${(100 * (1 - off)).toFixed(0)} % of the time.`);
  if (session.unwatched_ns) said.push(`${time(session.unwatched_ns)} were not looked at, when the process made Ractors.`);
  if (session.unwatched) said.push(`of ${plural(session.unwatched, 'object')} it is not known whether they stay.`);
  if (session.lost) said.push(`${plural(session.lost, 'object')} missing: there was no room for them or their stacks.`);
  if (session.bytes === false) said.push('this Ruby does not tell how many bytes an object has.');
  return said.map((text) => `Process ${session.pid}: ${text}`);
}

/* All that is not there, and why. */
function warnings(model) {
  const about = model.about;
  const said = [];
  if (model.isProfile) {
    for (const session of about.sessions) {
      if (about.of_objects) said.push(...objectWarnings(session));
      if (session.late_ns) said.push(`Process ${session.pid}: ${time(session.late_ns)} were seen late (long C code, or a busy ` +
        'machine).');
      if (session.no_room) said.push(`Process ${session.pid}: ${plural(session.no_room, 'tick')} had no room.`);
      if (session.threads_left_out) said.push(`Process ${session.pid}: ${plural(session.threads_left_out, 'thread')} left out.`);
      if (session.cut) said.push(`Process ${session.pid}: ${plural(session.cut, 'stack')} cut, as they were too deep.`);
    }
    return [...said, ...about.notes];
  }
  const counts = about.counts;
  if (counts.lost) said.push(`${plural(counts.lost, 'call')} lost while recording: nothing here has them. The timeline shows ` +
    'where.');
  if (counts.left_longest) said.push(`The timeline has the longest ${count(counts.shown_calls)} of ${count(counts.calls)} ` +
    `calls. None that is left out took longer than ${time(counts.left_longest)}.` +
    (about.late ? ' The flame graph has the same calls.' : ' Flame graph and tables have all.'));
  if (counts.left_out) said.push(`${plural(counts.left_out, 'call')} left out while recording, as they did not meet its ` +
    'conditions.');
  if (counts.counted) said.push(`${plural(counts.counted, 'call')} only counted while recording, to take less of the process.`);
  if (counts.other_ractors) said.push(`${plural(counts.other_ractors, 'call')} of other Ractors not recorded.`);
  if (counts.folded) said.push(`${plural(counts.folded, 'call')} in no frame of the flame graph: too many, or deeper than ` +
    `${counts.levels_max} levels. Their time is in the calls around them.`);
  if (counts.crowded) said.push(`${plural(counts.crowded, 'call')} not in the timeline: their thread has too many fibers.`);
  if (counts.marks_lost + counts.marks_left) said.push(`${plural(counts.marks_lost + counts.marks_left, 'event')} beside calls ` +
    'not shown.');
  if (counts.states_lost) said.push(`${plural(counts.states_lost, 'change')} of what threads do lost: it is not known around ` +
    'these.');
  if (counts.states_sampled_hz) said.push(`What threads do was sampled at ${count(counts.states_sampled_hz)} Hz, as this Ruby ` +
    `does not tell it: what is shorter than ${time(1e9 / counts.states_sampled_hz)} may be missing, and a change is known to ` +
    'that.');
  if (counts.spans_left) said.push(`The last ${plural(counts.spans_left, 'change')} of what threads do not shown.`);
  if (counts.lines) said.push(`${plural(counts.lines, 'line')} reached: lines are not shown here, but by \`rbprobe replay\`.`);
  if (counts.gaps_left) said.push(`${plural(counts.gaps_left, 'more gap')} not shown in the timeline.`);
  if (about.sessions.some((session) => session.continued)) said.push('The recording goes on from another file: what came ' +
    'before is not here.');
  return [...said, ...about.notes];
}
