/* What threads waited for. See waits.h. */

#include "tracer/recording/waits.h"

#include "tracer/base/json.h"
#include "tracer/recording/waits_parts.h"
#include "tracer/recording/words.h"

#include <stdlib.h>

struct waits *waits_new(void)
{
	return memory_zeroed(sizeof(struct waits));
}

void waits_free(struct waits *waits)
{
	if (!waits)
		return;
	for (uint32_t i = 0; i < waits->count; i++) {
		struct waits_process *process = &waits->processes[i];

		for (uint32_t k = 0; k < process->thread_count; k++)
			free(process->threads[k].name);
		free(process->threads);
		free(process->spans);
		free(process->calls);
	}
	free(waits->processes);
	words_free(&waits->words);
	free(waits);
}

static uint32_t process_of(struct waits *waits, const struct stream *stream)
{
	for (uint32_t i = waits->count; i-- > 0;)
		if (waits->processes[i].stream == stream)
			return i;
	waits->processes = memory_resize(waits->processes, (waits->count + 1) * sizeof(*waits->processes));
	waits->processes[waits->count] = (struct waits_process){.stream = stream, .pid = stream->pid};
	return waits->count++;
}

static void set_name(const struct waits_process *process, struct waits_thread *thread)
{
	struct buffer name = {0};

	free(thread->name);
	thread->name = NULL;
	if (!thread->native_id)
		return;
	thread_states_add_name(process->stream, thread->native_id, &name);
	buffer_add_char(&name, '\0');
	thread->name = name.bytes;
}

void waits_name_threads(const struct waits_process *process)
{
	for (uint32_t i = 0; i < process->thread_count; i++)
		set_name(process, &process->threads[i]);
}

void waits_drop_spans(struct waits *waits, struct waits_process *process)
{
	waits->memory -= process->span_room * sizeof(*process->spans) + process->call_room * sizeof(*process->calls);
	free(process->spans);
	free(process->calls);
	process->spans = NULL;
	process->calls = NULL;
	process->span_count = process->span_room = process->call_count = process->call_room = 0;
}

void waits_end(struct waits *waits, pid_t pid)
{
	for (uint32_t i = 0; i < waits->count; i++) {
		struct waits_process *process = &waits->processes[i];

		if (process->pid != pid || !process->stream)
			continue;
		/* Some may have got their name after their last stretch of time. */
		waits_name_threads(process);
		process->stream = NULL;
	}
}

/* Room for one more; NULL: there is none. */
static void *one_more(struct waits *waits, void *items, uint32_t count, uint32_t *room, size_t size)
{
	if (count < *room)
		return items;
	if (waits->memory > WAITS_MEMORY_MAX)
		return NULL;
	*room = *room ? 2 * *room : 256;
	waits->memory += (*room - count) * size;
	return memory_resize(items, *room * size);
}

/* Numbers come one after the other. */
static struct waits_thread *thread_of(struct waits *waits, struct waits_process *process, const struct thread_span *span)
{
	struct waits_thread *thread;

	while (process->thread_count <= span->number) {
		struct waits_thread *threads = one_more(waits, process->threads, process->thread_count, &process->thread_room,
		                                        sizeof(*process->threads));

		if (!threads)
			return NULL;
		process->threads = threads;
		process->threads[process->thread_count++] = (struct waits_thread){0};
	}
	thread = &process->threads[span->number];
	if (span->native_id && (span->first || thread->native_id != span->native_id)) {
		thread->native_id = span->native_id;
		set_name(process, thread);
	}
	return thread;
}

bool waits_span(struct waits *waits, const struct stream *stream, const struct thread_span *span)
{
	uint32_t at = process_of(waits, stream);
	struct waits_process *process = &waits->processes[at];
	struct waits_thread *thread = thread_of(waits, process, span);
	uint64_t ns = span->to_ns - span->from_ns;
	struct waits_span *spans;

	process->rate_hz = stream->states_rate_hz;
	if (!thread) {
		waits->left_out++;
		return false;
	}
	thread->shared = thread->shared || span->shared;
	thread->ns[span->doing] += ns;
	if (span->doing == THREAD_WAITS) {
		thread->waits++;
		thread->longest_ns = ns > thread->longest_ns ? ns : thread->longest_ns;
	}
	spans = one_more(waits, process->spans, process->span_count, &process->span_room, sizeof(*spans));
	if (!spans) {
		waits->left_out++;
		return false;
	}
	process->spans = spans;
	spans[process->span_count++] = (struct waits_span){span->from_ns, span->to_ns, span->number, span->doing};
	return true;
}

void waits_lost(struct waits *waits, uint64_t lost)
{
	waits->lost += lost;
}

void waits_call_left(void *owner, const struct stream *stream, const struct fiber *fiber, const struct method *method,
                     uint64_t start_ns, uint64_t duration_ns)
{
	struct waits *waits = owner;
	struct waits_process *process;
	struct waits_held *calls;
	uint32_t at;

	if (duration_ns < WAITS_CALL_NS)
		return;
	at = process_of(waits, stream);
	process = &waits->processes[at];
	calls = one_more(waits, process->calls, process->call_count, &process->call_room, sizeof(*calls));
	if (!calls) {
		waits->left_out++;
		return;
	}
	process->calls = calls;
	calls[process->call_count++] = (struct waits_held){start_ns, start_ns + duration_ns, fiber->native_id,
	                                                   words_number(&waits->words, method->shown)};
}

void waits_call(struct waits *waits, const struct fiber *fiber, const struct method *method, uint64_t start_ns,
                uint64_t duration_ns)
{
	waits_call_left(waits, fiber->stream, fiber, method, start_ns, duration_ns);
}

struct waits_place waits_place(struct waits *waits, const struct fiber *fiber, uint64_t start_ns, uint64_t duration_ns)
{
	return (struct waits_place){process_of(waits, fiber->stream), fiber->native_id, start_ns, duration_ns};
}

bool waits_any(const struct waits *waits)
{
	for (uint32_t i = 0; i < waits->count; i++)
		if (waits->processes[i].thread_count)
			return true;
	return false;
}

uint64_t waits_lost_count(const struct waits *waits)
{
	return waits->lost;
}

uint64_t waits_left_out(const struct waits *waits)
{
	return waits->left_out;
}

/* --- The table */

static const char *const titles[THREAD_DOINGS] = {
	[THREAD_RUNS] = "RUNNING", [THREAD_WAITS] = "WAITING", [THREAD_BLOCKED] = "BLOCKED", [THREAD_IO] = "I/O",
	[THREAD_SLEEPS] = "SLEEP", [THREAD_LOCKED] = "LOCK",   [THREAD_PROCESS] = "CHILD",   [THREAD_GC] = "GC",
};

/* What some thread has done. */
static bool has_column(const struct waits *waits, int doing)
{
	if (doing < THREAD_IO || doing == THREAD_GC)
		return true;
	for (uint32_t i = 0; i < waits->count; i++)
		for (uint32_t k = 0; k < waits->processes[i].thread_count; k++)
			if (waits->processes[i].threads[k].ns[doing])
				return true;
	return false;
}

static void add_seconds(struct buffer *to, uint64_t ns)
{
	buffer_add_format(to, "%8.3fs ", (double)ns / 1e9);
}

static void add_head(const bool *columns, struct buffer *to)
{
	for (int i = 0; i < THREAD_DOINGS; i++)
		if (columns[i])
			buffer_add_format(to, "%9s ", titles[i]);
	buffer_add_text(to, "  WAITS   LONGEST  THREAD\n");
}

static void add_row(const struct waits_process *process, const struct waits_thread *thread, const bool *columns, bool several,
                    struct buffer *to)
{
	for (int i = 0; i < THREAD_DOINGS; i++)
		if (columns[i])
			add_seconds(to, thread->ns[i]);
	buffer_add_format(to, "%7llu ", (unsigned long long)thread->waits);
	add_seconds(to, thread->longest_ns);
	buffer_add_char(to, ' ');
	if (several)
		buffer_add_format(to, "%d: ", (int)process->pid);
	buffer_add_text(to, thread->name ? thread->name : "thread without a native id");
	buffer_add_char(to, '\n');
}

static void add_rate(const struct waits_process *process, bool several, struct buffer *to)
{
	if (!process->rate_hz)
		return;
	if (several)
		buffer_add_format(to, "%d: ", (int)process->pid);
	buffer_add_format(to, "sampled at %u Hz: what is shorter than %.4g ms may be missing\n", process->rate_hz,
	                  1e3 / process->rate_hz);
}

void waits_add_json(const uint64_t *ns, struct buffer *to)
{
	struct buffer key = {0};

	for (int i = 0; i < THREAD_DOINGS; i++) {
		key.size = 0;
		buffer_add_format(&key, "%s_ns", thread_doing_word(i));
		buffer_add_char(&key, '\0');
		json_member_uint(to, key.bytes, ns[i]);
	}
	buffer_free(&key);
}

void waits_add_rate_json(const struct waits_process *process, struct buffer *to)
{
	if (process->rate_hz)
		json_member_uint(to, "sampled_hz", process->rate_hz);
}

static void add_row_json(const struct waits_process *process, const struct waits_thread *thread, struct buffer *to)
{
	json_open_object(to);
	json_member_string(to, "type", "thread_states");
	json_member_uint(to, "pid", (uint64_t)process->pid);
	json_member_uint(to, "thread", thread->native_id);
	if (thread->name)
		json_member_string(to, "name", thread->name);
	waits_add_json(thread->ns, to);
	json_member_uint(to, "waits", thread->waits);
	json_member_uint(to, "longest_wait_ns", thread->longest_ns);
	waits_add_rate_json(process, to);
	json_close_line(to);
}

void waits_table(const struct waits *waits, bool json, struct buffer *to)
{
	bool columns[THREAD_DOINGS];

	for (int i = 0; i < THREAD_DOINGS; i++)
		columns[i] = has_column(waits, i);
	if (!json)
		add_head(columns, to);
	for (uint32_t i = 0; i < waits->count; i++)
		for (uint32_t k = 0; k < waits->processes[i].thread_count; k++)
			if (json)
				add_row_json(&waits->processes[i], &waits->processes[i].threads[k], to);
			else
				add_row(&waits->processes[i], &waits->processes[i].threads[k], columns, waits->count > 1, to);
	for (uint32_t i = 0; i < waits->count && !json; i++)
		add_rate(&waits->processes[i], waits->count > 1, to);
}
