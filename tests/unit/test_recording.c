/* Recordings: what is written is read again; of a file that was cut short or damaged, all whole parts before that. */
#define _GNU_SOURCE

#include "proto/names.h"
#include "tracer/recording/recording_read.h"
#include "tracer/recording/recording_write.h"
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define RECORDS "records of any kind, records of any kind, records of any kind"

static char path[] = "/tmp/rbprobe-test-recording-XXXXXX";
static struct output output;

static int open_file(void **state)
{
	int fd;

	(void)state;
	strcpy(path + sizeof(path) - 7, "XXXXXX");
	fd = mkstemp(path);
	output = (struct output){.fd = -1};
	return fd < 0 || close(fd) != 0 ? -1 : 0;
}

static int remove_file(void **state)
{
	(void)state;
	buffer_free(&output.buffer);
	return unlink(path);
}

static void write_recording(void)
{
	static const struct slice selectors[] = {SLICE("Order#"), SLICE("")};
	static const struct recording_head head = {.program = SLICE(RBPROBE_VERSION),
	                                           .host = SLICE("here"),
	                                           .began_ns = 5,
	                                           .flags = 9,
	                                           .marks = 2,
	                                           .slow = true,
	                                           .selector_count = 2,
	                                           .selectors = selectors};
	struct recording_writer *writer = recording_write_open(&output);

	recording_write_head(writer, &head);
	recording_write_session(writer, &(struct recording_session){.pid = 12,
	                                                            .began_ns = 6,
	                                                            .wall_offset_ns = -7,
	                                                            .ruby_version = SLICE("3.1.7"),
	                                                            .extension_version = SLICE("1"),
	                                                            .command = SLICE("puma"),
	                                                            .counts_lost = true,
	                                                            .continued = true,
	                                                            .open_calls = 4});
	recording_write_block(
		writer, (struct recording_block){.size = sizeof(RECORDS) - 1, .events = 3, .from_ns = 8, .to_ns = 9, .lost = 7},
		RECORDS);
	recording_write_block(writer, (struct recording_block){.size = sizeof(RECORDS) - 1}, RECORDS);
	recording_write_end(writer, &(struct recording_end){.duration_ns = 10, .reason = SLICE("over"), .gone = true});
	recording_write_free(writer);
}

static void save(const char *bytes, size_t size)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, size, file), size);
	assert_int_equal(fclose(file), 0);
}

static void what_is_written_is_read(void **state)
{
	struct recording_reader *reader;
	struct recording_item item;
	struct buffer records = {0};
	struct error err;

	(void)state;
	write_recording();
	save(output.buffer.bytes, output.buffer.size);
	assert_int_equal(recording_open(&reader, path, -1, &err), 0);
	assert_int_equal(recording_next(reader, &item, &err), 1);
	assert_int_equal(item.part, RECORDING_HEAD);
	assert_int_equal(item.head.version, RECORDING_VERSION);
	assert_slice(item.head.program, RBPROBE_VERSION);
	assert_slice(item.head.host, "here");
	assert_int_equal(item.head.began_ns, 5);
	assert_int_equal(item.head.flags, 9);
	assert_int_equal(item.head.marks, 2);
	assert_true(item.head.slow && !item.head.several);
	assert_int_equal(item.head.selector_count, 2);
	assert_slice(item.head.selectors[0], "Order#");
	assert_slice(item.head.selectors[1], "");
	assert_int_equal(recording_next(reader, &item, &err), 1);
	assert_int_equal(item.part, RECORDING_SESSION);
	assert_int_equal(item.session.number, 0);
	assert_int_equal(item.session.pid, 12);
	assert_true(item.session.wall_offset_ns == -7);
	assert_slice(item.session.ruby_version, "3.1.7");
	assert_true(item.session.counts_lost);
	assert_true(item.session.continued);
	assert_int_equal(item.session.open_calls, 4);
	assert_slice(item.session.command, "puma");
	assert_int_equal(recording_next(reader, &item, &err), 1);
	assert_int_equal(item.part, RECORDING_BLOCK);
	assert_int_equal(item.block.events, 3);
	assert_int_equal(item.block.from_ns, 8);
	assert_int_equal(item.block.to_ns, 9);
	assert_int_equal(item.block.lost, 7);
	assert_int_equal(recording_unpack(reader, &records, &err), 0);
	assert_slice((struct slice){records.bytes, records.size}, RECORDS);
	assert_int_equal(recording_next(reader, &item, &err), 1);
	assert_int_equal(item.part, RECORDING_BLOCK); /* and is not unpacked */
	assert_int_equal(recording_next(reader, &item, &err), 1);
	assert_int_equal(item.part, RECORDING_END);
	assert_int_equal(item.end.duration_ns, 10);
	assert_slice(item.end.reason, "over");
	assert_true(item.end.gone);
	assert_int_equal(recording_next(reader, &item, &err), 0);
	recording_close(reader);
	buffer_free(&records);
}

/* Ctrl-C, where a file has no end and nothing to show. */
static void reading_ends_where_a_descriptor_says_so(void **state)
{
	struct recording_reader *reader;
	struct recording_item item;
	struct error err;
	int stop[2];

	(void)state;
	write_recording();
	save(output.buffer.bytes, output.buffer.size);
	assert_int_equal(pipe(stop), 0);
	assert_int_equal(recording_open(&reader, path, stop[0], &err), 0);
	assert_int_equal(recording_next(reader, &item, &err), 1);
	assert_int_equal(write(stop[1], "", 1), 1);
	assert_int_equal(recording_next(reader, &item, &err), -EINTR);
	assert_error(&err, -EINTR, "interrupted: of ");
	recording_close(reader);
	close(stop[0]);
	close(stop[1]);
}

static void no_process_has_a_pid_beyond_31_bits(void **state)
{
	struct recording_writer *writer = recording_write_open(&output);
	struct recording_reader *reader;
	struct recording_item item;
	struct error err;

	(void)state;
	recording_write_head(writer, &(struct recording_head){0});
	recording_write_session(writer, &(struct recording_session){.pid = INT32_MAX});
	recording_write_session(writer, &(struct recording_session){.pid = INT32_MAX + 1u});
	recording_write_free(writer);
	save(output.buffer.bytes, output.buffer.size);
	assert_int_equal(recording_open(&reader, path, -1, &err), 0);
	assert_int_equal(recording_next(reader, &item, &err), 1);
	assert_int_equal(recording_next(reader, &item, &err), 1);
	assert_int_equal(item.session.pid, INT32_MAX);
	assert_int_equal(recording_next(reader, &item, &err), -EBADMSG);
	assert_error(&err, -EBADMSG, "no process has such a PID");
	recording_close(reader);
}

/* How many parts are read, and what ends that. */
static unsigned read_all(int *status, struct error *err)
{
	struct recording_reader *reader;
	struct recording_item item;
	struct buffer records = {0};
	unsigned count = 0;

	assert_int_equal(recording_open(&reader, path, -1, err), 0);
	while ((*status = recording_next(reader, &item, err)) > 0) {
		count++;
		if (item.part == RECORDING_BLOCK && (*status = recording_unpack(reader, &records, err)) < 0)
			break;
	}
	recording_close(reader);
	buffer_free(&records);
	return count;
}

static void a_file_that_was_cut_short_is_read_up_to_there(void **state)
{
	unsigned before = 0;

	(void)state;
	write_recording();
	for (size_t size = 0; size <= output.buffer.size; size++) {
		struct error err = {0};
		int status;
		unsigned count;

		save(output.buffer.bytes, size);
		count = read_all(&status, &err);
		assert_true(count >= before && count <= before + 1);
		before = count;
		assert_true(status == 0 || status == -ENODATA || (count == 0 && status == -EBADMSG));
		assert_true(status == 0 || err.text[0]);
	}
	assert_int_equal(before, 5);
}

static void whatever_is_damaged_is_survived(void **state)
{
	(void)state;
	write_recording();
	for (size_t at = 0; at < output.buffer.size; at++)
		for (unsigned bit = 0; bit < 8; bit++) {
			struct error err = {0};
			int status;

			output.buffer.bytes[at] ^= (char)(1u << bit);
			save(output.buffer.bytes, output.buffer.size);
			output.buffer.bytes[at] ^= (char)(1u << bit);
			read_all(&status, &err);
			assert_true(status == 0 || err.text[0]);
		}
}

static void what_is_packed_is_checked(void **state)
{
	struct error err;
	int status;

	(void)state;
	write_recording();
	/* In the first block, whose frame follows its part. */
	char *frame = memmem(output.buffer.bytes, output.buffer.size, "\x28\xb5\x2f\xfd", 4);
	assert_non_null(frame);
	frame[12] ^= 1;
	save(output.buffer.bytes, output.buffer.size);
	assert_int_equal(read_all(&status, &err), 3);
	assert_int_equal(status, -EBADMSG);
	assert_non_null(strstr(err.text, "is damaged at byte"));
}

static void what_others_put_between_is_left_out(void **state)
{
	static const char foreign[] = "\x50\x2a\x4d\x18\x03\0\0\0abc";
	static const char later[] = "\x52\x2a\x4d\x18\x0f\0\0\0\x81\xa7rbprobe\xa5later";
	struct buffer all = {0};
	struct error err;
	int status;

	(void)state;
	write_recording();
	buffer_add(&all, output.buffer.bytes, output.buffer.size);
	buffer_add(&all, foreign, sizeof(foreign) - 1);
	buffer_add(&all, later, sizeof(later) - 1);
	buffer_add(&all, output.buffer.bytes, output.buffer.size); /* appended */
	save(all.bytes, all.size);
	assert_int_equal(read_all(&status, &err), 10);
	assert_int_equal(status, 0);
	buffer_free(&all);
}

static void what_is_no_recording_is_told(void **state)
{
	struct error err;
	int status;

	(void)state;
	save("hello, this is a text", 21);
	assert_int_equal(read_all(&status, &err), 0);
	assert_int_equal(status, -EBADMSG);
	assert_non_null(strstr(err.text, "is no recording"));
	save("", 0);
	read_all(&status, &err);
	assert_int_equal(status, -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_is_written_is_read, open_file, remove_file),
		cmocka_unit_test_setup_teardown(reading_ends_where_a_descriptor_says_so, open_file, remove_file),
		cmocka_unit_test_setup_teardown(no_process_has_a_pid_beyond_31_bits, open_file, remove_file),
		cmocka_unit_test_setup_teardown(a_file_that_was_cut_short_is_read_up_to_there, open_file, remove_file),
		cmocka_unit_test_setup_teardown(whatever_is_damaged_is_survived, open_file, remove_file),
		cmocka_unit_test_setup_teardown(what_is_packed_is_checked, open_file, remove_file),
		cmocka_unit_test_setup_teardown(what_others_put_between_is_left_out, open_file, remove_file),
		cmocka_unit_test_setup_teardown(what_is_no_recording_is_told, open_file, remove_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
