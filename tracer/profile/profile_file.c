/* A profile in a file. See profile_file.h. */

#include "tracer/profile/profile_file.h"

#include "proto/clock.h"
#include "proto/names.h"
#include "proto/record.h"
#include "tracer/base/buffer.h"
#include "tracer/recording/recording_write.h"
#include "tracer/stream/decode.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define COMMAND_LINE_MAX 4096
#define FILE_SESSIONS_MAX 65536u /* each makes us remember something up to the end */

struct profile_writer {
	struct output *output;
	struct recording_writer *recording;
	uint32_t rate_hz;
	uint64_t began_ns;
	pid_t *pids; /* of each session */
	uint32_t count;
	msgpack_sbuffer packed, record;
};

struct profile_writer *profile_writer_new(struct output *output, uint32_t rate_hz)
{
	struct profile_writer *writer = memory_zeroed(sizeof(*writer));

	writer->output = output;
	writer->recording = recording_write_open(output);
	writer->rate_hz = rate_hz;
	writer->began_ns = clock_ns(CLOCK_REALTIME);
	msgpack_sbuffer_init(&writer->packed);
	msgpack_sbuffer_init(&writer->record);
	return writer;
}

void profile_writer_free(struct profile_writer *writer)
{
	if (!writer)
		return;
	recording_write_free(writer->recording);
	msgpack_sbuffer_destroy(&writer->packed);
	msgpack_sbuffer_destroy(&writer->record);
	free(writer->pids);
	free(writer);
}

static void write_head(const struct profile_writer *writer)
{
	char host[256] = "";
	struct recording_head head = {.version = RECORDING_VERSION, .began_ns = writer->began_ns, .rate_hz = writer->rate_hz};

	if (gethostname(host, sizeof(host) - 1) == 0)
		head.host = (struct slice){host, strlen(host)};
	head.program = (struct slice){RBPROBE_VERSION, strlen(RBPROBE_VERSION)};
	recording_write_head(writer->recording, &head);
}

/* The file begins with the first one: where there is none, it is what it was. */
static uint32_t session_of(struct profile_writer *writer, const struct target *target)
{
	char command[COMMAND_LINE_MAX];
	struct recording_session session = {.number = writer->count,
	                                    .pid = (uint32_t)target->pid,
	                                    .began_ns = clock_ns(CLOCK_REALTIME),
	                                    .ruby_version = {target->ruby_version, strlen(target->ruby_version)}};

	for (uint32_t i = 0; i < writer->count; i++)
		if (writer->pids[i] == target->pid)
			return i;
	if (!writer->count)
		write_head(writer);
	target_command_line(target, command, sizeof(command));
	session.command = (struct slice){command, strlen(command)};
	recording_write_session(writer->recording, &session);
	writer->pids = memory_resize(writer->pids, (writer->count + 1) * sizeof(*writer->pids));
	writer->pids[writer->count] = target->pid;
	return writer->count++;
}

void profile_write(struct profile_writer *writer, const struct target *target, const msgpack_object *map)
{
	struct recording_block block = {.session = session_of(writer, target)};
	struct record record = {.kind = RECORD_DATA};
	msgpack_packer packer;

	msgpack_sbuffer_clear(&writer->packed);
	msgpack_sbuffer_clear(&writer->record);
	msgpack_packer_init(&packer, &writer->packed, msgpack_sbuffer_write);
	if (msgpack_pack_object(&packer, *map) < 0)
		return;
	record.data.packed = (struct slice){writer->packed.data, writer->packed.size};
	record_encode(&writer->record, &record);
	block.size = (uint32_t)writer->record.size;
	recording_write_block(writer->recording, block, writer->record.data);
	output_flush(writer->output);
}

/* --- Reading */

struct reading {
	struct profile *profile;
	pid_t pid;
	uint32_t session;
	struct stream *stream;
};

static int on_data(void *owner, const struct record_data *data, struct error *err)
{
	struct reading *reading = owner;

	reading->stream->answered = 0; /* it is no answer in memory: a block at a time */
	return profile_add(reading->profile, profile_process(reading->profile, reading->pid, reading->session), data->object,
	                   err);
}

static const struct stream_handler handler = {.data = on_data};

struct sessions {
	struct reading **items;
	uint32_t count;
};

static void session_begin(struct sessions *sessions, struct profile *profile, const struct recording_session *session)
{
	struct reading *reading = memory_zeroed(sizeof(*reading));

	*reading = (struct reading){.profile = profile, .pid = (pid_t)session->pid, .session = sessions->count};
	reading->stream = stream_new(reading->pid, NULL, NULL, &handler, reading);
	sessions->items = memory_resize(sessions->items, (sessions->count + 1) * sizeof(*sessions->items));
	sessions->items[sessions->count++] = reading;
}

static int block_read(const struct sessions *sessions, uint32_t number, const struct buffer *records, struct error *err)
{
	if (number >= sessions->count)
		return error_set(err, -EBADMSG, "a block is of no session");
	return stream_feed(sessions->items[number]->stream, records->bytes, records->size, err);
}

int profile_read(struct profile *profile, struct recording_reader *reader, struct error *err)
{
	struct sessions sessions = {0};
	struct buffer records = {0};
	struct recording_item item;
	int status;

	while ((status = recording_next(reader, &item, err)) > 0) {
		if (item.part == RECORDING_HEAD) {
			status = error_set(err, -EBADMSG, "a recording was appended to the profile; it cannot be read with it");
			break;
		}
		if (item.part == RECORDING_SESSION && sessions.count < FILE_SESSIONS_MAX)
			session_begin(&sessions, profile, &item.session);
		if (item.part != RECORDING_BLOCK)
			continue;
		status = recording_unpack(reader, &records, err);
		if (status == 0)
			status = block_read(&sessions, item.block.session, &records, err);
		profile->received += records.size;
		if (status < 0)
			break;
	}
	for (uint32_t i = 0; i < sessions.count; i++) {
		stream_free(sessions.items[i]->stream);
		free(sessions.items[i]);
	}
	free(sessions.items);
	buffer_free(&records);
	return status < 0 ? status : 0;
}
