/* rbprobe replay --info: what a recording has, from its parts alone. See replay_info.h. */

#include "tracer/commands/replay_info.h"

#include "proto/clock.h"
#include "tracer/base/json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MEMORY_MAX (1u << 30) /* millions of sessions */

struct session_info {
	uint32_t pid;
	struct buffer ruby, command, reason; /* as they are in the file */
	uint64_t blocks, events, lost, size, packed, from_ns, to_ns;
	bool counts_lost; /* `lost` is known */
	bool continued;
	uint64_t open_calls; /* where it begins, then */
};

struct info {
	struct output *output;
	bool json;
	bool is_profile; /* which has no events, and says no end */
	struct session_info *sessions;
	size_t count;
	uint64_t memory;              /* bytes that they take */
	struct recording_block block; /* that is counted when its frame is known to be whole */
	bool has_block;
};

static void add_moment(struct buffer *to, uint64_t wall_ns)
{
	time_t seconds = (time_t)(wall_ns / NS_PER_S);
	struct tm local;
	char text[32] = "?";

	if (localtime_r(&seconds, &local))
		strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &local);
	buffer_add_text(to, text);
}

/* Of those of tracers there is no text. */
static void add_selectors(struct buffer *to, const struct recording_head *head)
{
	uint32_t unnamed = 0;

	buffer_add_text(to, head->selector_count ? "\nselectors:" : "");
	for (uint32_t i = 0; i < head->selector_count; i++) {
		unnamed += !head->selectors[i].size;
		if (!head->selectors[i].size)
			continue;
		buffer_add_char(to, ' ');
		buffer_add_printable(to, head->selectors[i].bytes, head->selectors[i].size);
	}
	if (unnamed)
		buffer_add_format(to, "%s %" PRIu32 " of tracers", unnamed < head->selector_count ? " and" : "", unnamed);
}

static void show_head(struct info *info, const struct recording_head *head)
{
	struct buffer *to = &info->output->buffer;

	if (info->json) {
		json_open_object(to);
		json_member_string(to, "type", "recording");
		json_member_text(to, "rbprobe", head->program);
		json_member_text(to, "host", head->host);
		json_member_uint(to, "began_ns", head->began_ns);
		json_open_array(json_key(to, "selectors"));
		for (uint32_t i = 0; i < head->selector_count; i++)
			json_add_text(to, head->selectors[i]);
		json_close_array(to);
		json_close_object(to);
		buffer_add_char(to, '\n');
		return;
	}
	buffer_add_text(to, "recorded by rbprobe ");
	buffer_add_printable(to, head->program.bytes, head->program.size);
	buffer_add_text(to, " on ");
	buffer_add_printable(to, head->host.bytes, head->host.size);
	buffer_add_text(to, ", ");
	add_moment(to, head->began_ns);
	add_selectors(to, head);
	buffer_add_char(to, '\n');
}

static void add_events(struct buffer *to, const struct session_info *session)
{
	uint64_t span_ns = session->to_ns > session->from_ns ? session->to_ns - session->from_ns : 0;

	buffer_add_format(to, "%" PRIu64 " events", session->events);
	if (session->events) {
		buffer_add_text(to, " from ");
		add_moment(to, session->from_ns);
		buffer_add_format(to, " on, %.1f s", (double)span_ns / 1e9);
	}
	if (session->counts_lost)
		buffer_add_format(to, "; %" PRIu64 " call%s lost", session->lost, session->lost == 1 ? "" : "s");
	if (session->continued)
		buffer_add_format(to, "; what came before is not in it, %" PRIu64 " call%s open then", session->open_calls,
		                  session->open_calls == 1 ? " was" : "s were");
}

static void show_session(struct info *info, const struct session_info *session)
{
	struct buffer *to = &info->output->buffer;

	if (info->json) {
		json_open_object(to);
		json_member_string(to, "type", "session");
		json_member_uint(to, "pid", session->pid);
		json_member_text(to, "ruby", (struct slice){session->ruby.bytes, session->ruby.size});
		json_member_text(to, "command", (struct slice){session->command.bytes, session->command.size});
		json_member_bool(to, "profile", info->is_profile);
		if (!info->is_profile)
			json_member_uint(to, "events", session->events);
		if (session->counts_lost)
			json_member_uint(to, "lost", session->lost);
		json_member_uint(to, "blocks", session->blocks);
		json_member_uint(to, "bytes", session->size);
		json_member_uint(to, "packed_bytes", session->packed);
		if (!info->is_profile) {
			json_member_uint(to, "from_ns", session->from_ns);
			json_member_uint(to, "to_ns", session->to_ns);
			json_member_bool(to, "continued", session->continued);
			json_member_uint(to, "open_calls", session->open_calls);
		}
		if (session->reason.size)
			json_member_text(to, "reason", (struct slice){session->reason.bytes, session->reason.size});
		json_close_object(to);
		buffer_add_char(to, '\n');
		return;
	}
	buffer_add_format(to, "process %" PRIu32 ": Ruby ", session->pid);
	buffer_add_printable(to, session->ruby.bytes, session->ruby.size);
	buffer_add_text(to, ", ");
	buffer_add_printable(to, session->command.bytes, session->command.size);
	buffer_add_text(to, "\n   ");
	if (info->is_profile)
		buffer_add_text(to, "a profile");
	else
		add_events(to, session);
	buffer_add_text(to, "; ");
	buffer_add_size(to, session->packed);
	buffer_add_format(to, " in %" PRIu64 " block%s, ", session->blocks, session->blocks == 1 ? "" : "s");
	buffer_add_size(to, session->size);
	buffer_add_text(to, " unpacked");
	if (!info->is_profile) {
		buffer_add_text(to, session->reason.size ? "; ended: " : "; its end is missing");
		buffer_add_printable(to, session->reason.bytes, session->reason.size);
	}
	buffer_add_char(to, '\n');
}

static void show_sessions(struct info *info)
{
	for (size_t i = 0; i < info->count; i++) {
		show_session(info, &info->sessions[i]);
		buffer_free(&info->sessions[i].ruby);
		buffer_free(&info->sessions[i].command);
		buffer_free(&info->sessions[i].reason);
	}
	info->count = 0;
	info->memory = 0;
}

static void add_session(struct info *info, const struct recording_session *session)
{
	struct session_info *one;

	info->sessions = memory_resize(info->sessions, (info->count + 1) * sizeof(*info->sessions));
	one = &info->sessions[info->count++];
	*one = (struct session_info){.pid = session->pid,
	                             .counts_lost = session->counts_lost,
	                             .continued = session->continued,
	                             .open_calls = session->open_calls};
	buffer_add_slice(&one->ruby, session->ruby_version);
	buffer_add_slice(&one->command, session->command);
	info->memory += sizeof(*one) + one->ruby.capacity + one->command.capacity;
}

static void add_block(struct session_info *session, const struct recording_block *block)
{
	session->blocks++;
	session->events += block->events;
	session->lost += block->lost;
	session->size += block->size;
	session->packed += block->packed;
	if (!session->from_ns)
		session->from_ns = block->from_ns;
	if (block->to_ns)
		session->to_ns = block->to_ns;
}

static struct session_info *session_at(struct info *info, uint32_t number)
{
	return number < info->count ? &info->sessions[number] : NULL;
}

static void settle_block(struct info *info)
{
	struct session_info *session = info->has_block ? session_at(info, info->block.session) : NULL;

	if (session)
		add_block(session, &info->block);
	info->has_block = false;
}

static int add_part(struct info *info, const struct recording_item *item, struct error *err)
{
	struct session_info *session;

	switch (item->part) {
	case RECORDING_HEAD:
		show_sessions(info);
		info->is_profile = item->head.rate_hz != 0;
		show_head(info, &item->head);
		return 0;
	case RECORDING_SESSION:
		add_session(info, &item->session);
		if (info->memory <= MEMORY_MAX)
			return 0;
		return error_set(err, -ENOMEM, "what is to be said of the recording's %zu sessions takes more than %u MiB",
		                 info->count, MEMORY_MAX >> 20);
	case RECORDING_BLOCK:
		info->block = item->block;
		info->has_block = true;
		return 0;
	case RECORDING_END:
		session = session_at(info, item->end.session);
		if (session && !session->reason.size) {
			buffer_add_slice(&session->reason, item->end.reason);
			info->memory += session->reason.capacity;
		}
		return 0;
	case RECORDING_NOTHING:
		break;
	}
	return 0;
}

int replay_info(struct recording_reader *reader, struct output *output, bool json, struct error *err)
{
	struct info info = {.output = output, .json = json};
	struct recording_item item;
	int status;

	while ((status = recording_next(reader, &item, err)) > 0) {
		settle_block(&info);
		status = add_part(&info, &item, err);
		if (status < 0)
			break;
	}
	if (status == 0)
		settle_block(&info);
	show_sessions(&info);
	free(info.sessions);
	return status;
}
