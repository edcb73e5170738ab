/* Lies about calls and what else happens, and streams that are none. */

#include "tests/security/liar/lie.h"

#include <sys/socket.h>

void methods_for_ever(struct lie *lie)
{
	for (uint32_t ref = 0; lie_flush(lie); ref++)
		lie_add_method(lie, ref);
}

void one_method_for_ever(struct lie *lie)
{
	while (lie_flush(lie))
		lie_add_method(lie, 1);
}

/* Names that take most when they are shown, and a call in each. */
void harmful_fibers_for_ever(struct lie *lie)
{
	static char name[4000];
	struct slice names = {name, sizeof(name)};
	struct record record = {.kind = RECORD_FIBER};

	memset(name, 1, sizeof(name));
	lie_add_method(lie, 1);
	for (uint32_t ref = 0; lie_flush(lie); ref++) {
		struct batch_event event = {.kind = EVENT_CALL, .method = 1, .fiber = ref};
		struct batch batch;

		record.fiber = (struct record_fiber){.ref = ref, .thread_id = 1, .thread_name = names, .created_at = names};
		record_encode(&lie->records, &record);
		batch_begin(&batch, &lie->records, 0);
		batch_add(&batch, &event);
		batch_end(&batch);
	}
}

/* A batch of as many calls as fit, of one method with a name as long as can be: three bytes that become many. */
void deep_for_ever(struct lie *lie)
{
	static char name[4000];
	struct record record = {.kind = RECORD_METHOD};

	memset(name, 1, sizeof(name));
	lie_add_fiber(lie, 1);
	record.method = (struct record_method){.ref = 1,
	                                       .class_name = {name, sizeof(name)},
	                                       .separator = '#',
	                                       .method_name = {name, sizeof(name)},
	                                       .engine = ENGINE_TARGET};
	record_encode(&lie->records, &record);
	while (lie_flush(lie)) {
		struct batch_event event = {.kind = EVENT_START, .method = 1, .fiber = 1};
		struct batch batch;

		batch_begin(&batch, &lie->records, 0);
		for (int i = 0; i < 4000; i++)
			batch_add(&batch, &event);
		batch_end(&batch);
	}
}

void fibers_for_ever(struct lie *lie)
{
	for (uint32_t ref = 0; lie_flush(lie); ref++)
		for (int i = 0; i < 100; i++)
			lie_add_fiber(lie, ref * 100 + (uint32_t)i);
}

/* What else happens in fibers: of methods and kinds that there are not, with values that are none. */
void odd_marks(struct lie *lie)
{
	static const char values[] = "\x9c\xa7\x1b[2Jabc\xc0\x01\xa1\xff\xa5-1e99\xa0\xa2\xe2\x80\xa3"
				     "9;9\xc0\xa1\n\xa2\xc2\x9b\x91\x01";
	struct record record = {.kind = RECORD_METHOD};

	for (uint32_t kind = 0; kind < 8; kind++) {
		record.method = (struct record_method){.ref = MARK_REF(kind),
		                                       .class_name = text("\x1b[31m"),
		                                       .method_name = text("\x9b"),
		                                       .mark = kind < 7 ? kind : UINT32_MAX};
		record_encode(&lie->records, &record);
	}
	lie_add_fiber(lie, 1);
	for (uint32_t kind = 0; kind < 8; kind++)
		for (unsigned what = EVENT_START; what <= EVENT_MARK; what++) {
			struct batch_event event = {.kind = (enum event_kind)what,
			                            .method = MARK_REF(kind),
			                            .fiber = 1,
			                            .values = {values, sizeof(values) - 1}};
			struct batch batch;

			batch_begin(&batch, &lie->records, UINT64_MAX);
			batch_add(&batch, &event);
			batch_end(&batch);
		}
	for (uint32_t kind = 0; kind < 8; kind++) {
		record.kind = RECORD_TOTALS;
		record.totals = (struct record_totals){.mark = kind,
		                                       .native_id = kind % 2 ? UINT32_MAX : 0,
		                                       .thread_name = text("\x1b]0;title\a"),
		                                       .elapsed_ns = kind % 3 ? 1 : 0,
		                                       .count = kind,
		                                       .numbers = {UINT64_MAX, UINT64_MAX}};
		record_encode(&lie->records, &record);
	}
	lie_end(lie);
}

void mark_of_nothing(struct lie *lie)
{
	struct batch_event event = {.kind = EVENT_MARK, .method = 77, .fiber = 1};
	struct batch batch;

	lie_add_fiber(lie, 1);
	batch_begin(&batch, &lie->records, 0);
	batch_add(&batch, &event);
	batch_end(&batch);
	lie_flush(lie);
}

/* What was measured of calls, in numbers that nobody asked for, among texts, or too many; of lines that end. */
void odd_measures(struct lie *lie)
{
	static const struct slice outcomes[] = {
		{"\x90", 1},
		{"\x93\xcf\xff\xff\xff\xff\xff\xff\xff\xff\xcf\xff\xff\xff\xff\xff\xff\xff\xff\xc0", 20},
		{"\x95\x01\x02\x03\x04\x05", 6},
		{"\x93\x01\xa3\x1b[J\x02", 7},
		{"\x92\xd0\xff\xcb\x7f\xf8\0\0\0\0\0\0", 12},
		{"\x94\xa1\x07\xc0\xc0\xc0", 6},
	};
	struct batch batch;

	lie_add_method(lie, 1);
	lie_add_fiber(lie, 1);
	for (size_t i = 0; i < sizeof(outcomes) / sizeof(*outcomes); i++)
		for (unsigned ending = 0; ending < ENDING_COUNT; ending++) {
			struct batch_event whole = {.kind = EVENT_CALL,
			                            .ending = (enum ending)ending,
			                            .method = 1,
			                            .fiber = 1,
			                            .outcome = outcomes[i]};
			struct batch_event start = {.kind = EVENT_START, .method = 1, .fiber = 1, .values = outcomes[i]};
			struct batch_event end = {
				.kind = EVENT_END, .ending = (enum ending)ending, .method = 1, .fiber = 1, .values = outcomes[i]};

			batch_begin(&batch, &lie->records, 0);
			batch_add(&batch, &whole);
			batch_add(&batch, &start);
			batch_add(&batch, &end);
			batch_end(&batch);
		}
	lie_end(lie);
}

void huge_frame(struct lie *lie)
{
	lie_send(lie->socket, "\xff\xff\xff\xff....", 8);
}

void half_frame(struct lie *lie)
{
	lie_send(lie->socket, "\x00\x00\x01\x00....", 8);
	shutdown(lie->socket, SHUT_RDWR);
}

void notes_for_ever(struct lie *lie)
{
	struct record record = {.kind = RECORD_NOTE, .note = {.level = NOTE_INFO, .text = text("a note")}};

	while (lie_flush(lie))
		for (int i = 0; i < 100; i++)
			record_encode(&lie->records, &record);
}

void unknown_kinds_for_ever(struct lie *lie)
{
	static const char record[] = {3, 0, 0, 0, (char)0x91, (char)0xcc, (char)0xc8};

	while (lie_send(lie->socket, record, sizeof(record)))
		;
}

/* Well-formed records of every kind with numbers that mean nothing, some bytes of which are changed; cut anywhere. */
void random_records(struct lie *lie)
{
	for (int i = 0; i < 2000; i++) {
		struct record record = {.kind = (enum record_kind)(1 + lie_random(lie) % 14)};
		struct slice some = {"a text of some length", lie_random(lie) % 22};
		uint32_t number = lie_random(lie) % 4 ? (uint32_t)(lie_random(lie) % 8) : (uint32_t)lie_random(lie);

		switch (record.kind) {
		case RECORD_METHOD:
			record.method = (struct record_method){
				.ref = number, .class_name = some, .separator = '#', .method_name = some, .line = number};
			break;
		case RECORD_FIBER:
			record.fiber = (struct record_fiber){
				.ref = number, .thread_id = number, .thread_name = some, .root = number % 2, .created_at = some};
			break;
		case RECORD_EVENTS: {
			struct batch batch;

			batch_begin(&batch, &lie->records, number);
			for (int k = 0; k < 20; k++) {
				struct batch_event event = {.kind = (enum event_kind)(lie_random(lie) % 3),
				                            .method = number,
				                            .fiber = lie_random(lie) % 3,
				                            .time_ns = lie_random(lie) >> lie_random(lie) % 64};
				batch_add(&batch, &event);
			}
			batch_end(&batch);
			break;
		}
		case RECORD_DATA:
			record.data = (struct record_data){.command_id = lie->request, .packed = {"\x81\xa4type\xa6thread", 13}};
			break;
		case RECORD_OUTPUT:
			record.output =
				(struct record_output){.command_id = lie->request, .stream = 1 + number % 3, .bytes = some};
			break;
		case RECORD_DONE:
			if (i > 1500)
				record.done = (struct record_done){.command_id = lie->request, .text = some};
			else
				record.kind = RECORD_NOTE;
			/* fallthrough */
		default:
			if (record.kind == RECORD_NOTE)
				record.note = (struct record_note){.level = NOTE_INFO, .text = some};
		}
		if (record.kind != RECORD_EVENTS && record.kind != RECORD_HELLO && record.kind != RECORD_END)
			record_encode(&lie->records, &record);
		if (lie_random(lie) % 64 == 0 && lie->records.size)
			lie->records.data[lie_random(lie) % lie->records.size] = (char)lie_random(lie);
		if (lie_random(lie) % 256 == 0)
			lie->records.size = lie_random(lie) % (lie->records.size + 1);
		if (!lie_flush(lie))
			return;
	}
	shutdown(lie->socket, SHUT_RDWR);
}
