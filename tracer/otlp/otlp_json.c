/*
 * OTLP's JSON. See otlp_json.h. Messages are walked as they are on the wire, by a table of their fields: so parts that were
 * packed one by one need not be unpacked. OTLP differs from protobuf's usual JSON: ids are hexadecimal, and enums are numbers.
 */

#include "tracer/otlp/otlp_json.h"

#include "proto/slice.h"
#include "tracer/base/json.h"

enum type {
	TEXT,
	HEX,    /* the ids of spans */
	NUMBER, /* a varint of up to 32 bits: a number of JSON */
	ZIGZAG, /* the same, of sint32 */
	BIG,    /* a varint of 64 bits: a string, as JSON's numbers are too short */
	FIXED,  /* fixed64: likewise */
	REAL,
	BOOLEAN,
	MESSAGE,
};

/* A field of a message; the last one of a table has no name. */
struct field {
	unsigned number;
	const char *name;
	enum type type;
	bool repeated;
	const struct field *fields; /* MESSAGE */
};

enum wire { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

/* --- The messages, from the inside out */

static const struct field any_value[] = {
	{1, "stringValue", TEXT, false, NULL}, {3, "intValue", BIG, false, NULL}, {4, "doubleValue", REAL, false, NULL}, {0}};
static const struct field key_value[] = {{1, "key", TEXT, false, NULL}, {2, "value", MESSAGE, false, any_value}, {0}};
static const struct field resource[] = {{1, "attributes", MESSAGE, true, key_value}, {0}};
static const struct field scope[] = {{1, "name", TEXT, false, NULL}, {2, "version", TEXT, false, NULL}, {0}};

static const struct field span_event[] = {{1, "timeUnixNano", FIXED, false, NULL},
                                          {2, "name", TEXT, false, NULL},
                                          {3, "attributes", MESSAGE, true, key_value},
                                          {0}};
static const struct field span_link[] = {
	{1, "traceId", HEX, false, NULL}, {2, "spanId", HEX, false, NULL}, {4, "attributes", MESSAGE, true, key_value}, {0}};
static const struct field span_status[] = {{2, "message", TEXT, false, NULL}, {3, "code", NUMBER, false, NULL}, {0}};
static const struct field span[] = {{1, "traceId", HEX, false, NULL},
                                    {2, "spanId", HEX, false, NULL},
                                    {4, "parentSpanId", HEX, false, NULL},
                                    {5, "name", TEXT, false, NULL},
                                    {6, "kind", NUMBER, false, NULL},
                                    {7, "startTimeUnixNano", FIXED, false, NULL},
                                    {8, "endTimeUnixNano", FIXED, false, NULL},
                                    {9, "attributes", MESSAGE, true, key_value},
                                    {10, "droppedAttributesCount", NUMBER, false, NULL},
                                    {11, "events", MESSAGE, true, span_event},
                                    {12, "droppedEventsCount", NUMBER, false, NULL},
                                    {13, "links", MESSAGE, true, span_link},
                                    {15, "status", MESSAGE, false, span_status},
                                    {0}};
static const struct field scope_spans[] = {{1, "scope", MESSAGE, false, scope}, {2, "spans", MESSAGE, true, span}, {0}};
static const struct field resource_spans[] = {
	{1, "resource", MESSAGE, false, resource}, {2, "scopeSpans", MESSAGE, true, scope_spans}, {0}};
static const struct field traces[] = {{1, "resourceSpans", MESSAGE, true, resource_spans}, {0}};

static const struct field number_point[] = {{7, "attributes", MESSAGE, true, key_value},
                                            {2, "startTimeUnixNano", FIXED, false, NULL},
                                            {3, "timeUnixNano", FIXED, false, NULL},
                                            {4, "asDouble", REAL, false, NULL},
                                            {6, "asInt", FIXED, false, NULL},
                                            {0}};
static const struct field histogram_point[] = {{9, "attributes", MESSAGE, true, key_value},
                                               {2, "startTimeUnixNano", FIXED, false, NULL},
                                               {3, "timeUnixNano", FIXED, false, NULL},
                                               {4, "count", FIXED, false, NULL},
                                               {5, "sum", REAL, false, NULL},
                                               {6, "bucketCounts", FIXED, true, NULL},
                                               {7, "explicitBounds", REAL, true, NULL},
                                               {11, "min", REAL, false, NULL},
                                               {12, "max", REAL, false, NULL},
                                               {0}};
static const struct field buckets[] = {{1, "offset", ZIGZAG, false, NULL}, {2, "bucketCounts", BIG, true, NULL}, {0}};
static const struct field exponential_point[] = {{1, "attributes", MESSAGE, true, key_value},
                                                 {2, "startTimeUnixNano", FIXED, false, NULL},
                                                 {3, "timeUnixNano", FIXED, false, NULL},
                                                 {4, "count", FIXED, false, NULL},
                                                 {5, "sum", REAL, false, NULL},
                                                 {6, "scale", ZIGZAG, false, NULL},
                                                 {7, "zeroCount", FIXED, false, NULL},
                                                 {8, "positive", MESSAGE, false, buckets},
                                                 {12, "min", REAL, false, NULL},
                                                 {13, "max", REAL, false, NULL},
                                                 {0}};
static const struct field gauge[] = {{1, "dataPoints", MESSAGE, true, number_point}, {0}};
static const struct field sum[] = {{1, "dataPoints", MESSAGE, true, number_point},
                                   {2, "aggregationTemporality", NUMBER, false, NULL},
                                   {3, "isMonotonic", BOOLEAN, false, NULL},
                                   {0}};
static const struct field histogram[] = {
	{1, "dataPoints", MESSAGE, true, histogram_point}, {2, "aggregationTemporality", NUMBER, false, NULL}, {0}};
static const struct field exponential[] = {
	{1, "dataPoints", MESSAGE, true, exponential_point}, {2, "aggregationTemporality", NUMBER, false, NULL}, {0}};
static const struct field metric[] = {{1, "name", TEXT, false, NULL},
                                      {2, "description", TEXT, false, NULL},
                                      {3, "unit", TEXT, false, NULL},
                                      {5, "gauge", MESSAGE, false, gauge},
                                      {7, "sum", MESSAGE, false, sum},
                                      {9, "histogram", MESSAGE, false, histogram},
                                      {10, "exponentialHistogram", MESSAGE, false, exponential},
                                      {0}};
static const struct field scope_metrics[] = {{1, "scope", MESSAGE, false, scope}, {2, "metrics", MESSAGE, true, metric}, {0}};
static const struct field resource_metrics[] = {
	{1, "resource", MESSAGE, false, resource}, {2, "scopeMetrics", MESSAGE, true, scope_metrics}, {0}};
static const struct field metrics[] = {{1, "resourceMetrics", MESSAGE, true, resource_metrics}, {0}};

/* --- The wire */

struct value {
	unsigned number;
	enum wire wire;
	uint64_t integer;
	struct slice bytes;
};

static bool read_varint(struct slice *from, uint64_t *number)
{
	*number = 0;
	for (unsigned shift = 0; shift < 64 && from->size; shift += 7) {
		uint8_t byte = (uint8_t)*from->bytes++;

		from->size--;
		*number |= (uint64_t)(byte & 127) << shift;
		if (byte < 128)
			return true;
	}
	return false;
}

/* A field of a message; false: it is over, or broken. */
static bool read_value(struct slice *from, struct value *value)
{
	uint64_t key, size = 0;

	*value = (struct value){.bytes = {"", 0}};
	if (!from->size || !read_varint(from, &key))
		return false;
	value->number = (unsigned)(key >> 3);
	value->wire = (enum wire)(key & 7);
	switch (value->wire) {
	case WIRE_VARINT:
		return read_varint(from, &value->integer);
	case WIRE_FIXED64:
		size = sizeof(uint64_t);
		break;
	case WIRE_FIXED32:
		size = sizeof(uint32_t);
		break;
	case WIRE_BYTES:
		if (!read_varint(from, &size))
			return false;
		break;
	default:
		return false;
	}
	if (size > from->size)
		return false;
	value->bytes = (struct slice){from->bytes, (size_t)size};
	from->bytes += size;
	from->size -= (size_t)size;
	if (value->wire == WIRE_FIXED64)
		memcpy(&value->integer, value->bytes.bytes, sizeof(uint64_t));
	return true;
}

/* --- JSON */

static void add_message(struct buffer *to, const struct field *fields, struct slice message);

static void add_hex(struct buffer *to, struct slice bytes)
{
	json_separate(to);
	buffer_add_char(to, '"');
	for (size_t i = 0; i < bytes.size; i++)
		buffer_add_format(to, "%02x", (uint8_t)bytes.bytes[i]);
	buffer_add_char(to, '"');
}

static void add_big(struct buffer *to, int64_t number)
{
	json_separate(to);
	buffer_add_format(to, "\"%lld\"", (long long)number);
}

static void add_value(struct buffer *to, const struct field *field, const struct value *value)
{
	double real;

	switch (field->type) {
	case TEXT:
		json_add_text(to, value->bytes);
		break;
	case HEX:
		add_hex(to, value->bytes);
		break;
	case NUMBER:
		json_add_int(to, (int32_t)value->integer);
		break;
	case ZIGZAG:
		json_add_int(to, (int32_t)(value->integer >> 1) ^ -(int32_t)(value->integer & 1));
		break;
	case BIG:
	case FIXED:
		add_big(to, (int64_t)value->integer);
		break;
	case REAL:
		memcpy(&real, &value->integer, sizeof(real));
		json_add_real(to, real);
		break;
	case BOOLEAN:
		json_add_bool(to, value->integer != 0);
		break;
	case MESSAGE:
		add_message(to, field->fields, value->bytes);
		break;
	}
}

/* Numbers of a repeated field are in one piece. */
static void add_packed(struct buffer *to, const struct field *field, struct slice packed)
{
	struct value value = {0};

	while (packed.size) {
		if (field->type == BIG || field->type == NUMBER) {
			if (!read_varint(&packed, &value.integer))
				return;
		} else if (packed.size >= sizeof(uint64_t)) {
			memcpy(&value.integer, packed.bytes, sizeof(uint64_t));
			packed.bytes += sizeof(uint64_t);
			packed.size -= sizeof(uint64_t);
		} else {
			return;
		}
		add_value(to, field, &value);
	}
}

static void add_field(struct buffer *to, const struct field *field, struct slice message)
{
	bool found = false;
	struct value value;

	while (read_value(&message, &value)) {
		if (value.number != field->number)
			continue;
		if (!found)
			json_key(to, field->name);
		if (!found && field->repeated)
			json_open_array(to);
		else if (found && !field->repeated)
			continue;
		found = true;
		if (field->repeated && value.wire == WIRE_BYTES && field->type != MESSAGE && field->type != TEXT)
			add_packed(to, field, value.bytes);
		else
			add_value(to, field, &value);
	}
	if (found && field->repeated)
		json_close_array(to);
}

static void add_message(struct buffer *to, const struct field *fields, struct slice message)
{
	json_open_object(to);
	for (; fields->name; fields++)
		add_field(to, fields, message);
	json_close_object(to);
}

void otlp_json_add(struct buffer *to, enum otlp_signal signal, const struct buffer *packed)
{
	add_message(to, signal == OTLP_METRICS ? metrics : traces, (struct slice){packed->bytes, packed->size});
}
