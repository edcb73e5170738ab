/* What threads do, on the wire. See states.h. */

#include "proto/states.h"

#define STATE_NUMBERS 4u

void states_encode(msgpack_packer *packer, const struct record_states *states)
{
	uint64_t base_ns = UINT64_MAX;

	for (uint32_t i = 0; i < states->count; i++)
		if (states->states[i].time_ns < base_ns)
			base_ns = states->states[i].time_ns;
	msgpack_pack_array(packer, 4);
	msgpack_pack_uint8(packer, RECORD_STATES);
	msgpack_pack_uint64(packer, states->lost);
	msgpack_pack_uint64(packer, states->count ? base_ns : 0);
	msgpack_pack_array(packer, states->count * STATE_NUMBERS);
	for (uint32_t i = 0; i < states->count; i++) {
		const struct thread_state *state = &states->states[i];

		msgpack_pack_uint64(packer, state->thread);
		msgpack_pack_uint64(packer, state->time_ns - base_ns);
		msgpack_pack_uint32(packer, state->native_id);
		msgpack_pack_uint8(packer, (uint8_t)state->event);
	}
}

void states_decode(struct record_states *states, struct fields *fields, msgpack_zone *zone)
{
	struct thread_state *made;
	uint64_t base_ns;
	size_t count;
	struct fields numbers = {.what = "states of threads", .err = fields->err};

	states->lost = fields_uint(fields, UINT64_MAX);
	base_ns = fields_uint(fields, UINT64_MAX);
	numbers.next = fields_array(fields, STATES_MAX * STATE_NUMBERS, &count);
	numbers.left = count;
	states->count = (uint32_t)count / STATE_NUMBERS;
	made = states->count ? msgpack_zone_malloc(zone, states->count * sizeof(*made)) : NULL;
	if (!made)
		states->count = 0;
	for (uint32_t i = 0; i < states->count; i++) {
		made[i].thread = fields_uint(&numbers, UINT64_MAX);
		made[i].time_ns = base_ns + fields_uint(&numbers, UINT64_MAX);
		made[i].native_id = (uint32_t)fields_uint(&numbers, UINT32_MAX);
		made[i].event = (enum state_event)fields_uint(&numbers, STATE_EVENTS - 1);
	}
	states->states = made;
	if (fields_status(&numbers) < 0)
		fields->status = fields_status(&numbers);
}
