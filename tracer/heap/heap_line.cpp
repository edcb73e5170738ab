/*
 * Parsing a line of a heap dump with simdjson, whose On-Demand interface visits each byte once. The only file in C++:
 * simdjson has no interface for C. See heap_line.h.
 */

#define SIMDJSON_EXCEPTIONS 0
#include "tracer/heap/heap_line.h"

#include <cerrno>
#include <cstring>
#include <new>
#include <simdjson.h>
#include <string>
#include <utility>

using namespace simdjson;

static_assert(HEAP_LINE_PADDING >= SIMDJSON_PADDING, "simdjson reads that far behind its input");

struct heap_parser {
	ondemand::parser json;
	std::string ascii; /* a line that is not UTF-8, with other bytes in the place of those */
};

namespace
{

using value_reader = error_code (*)(ondemand::value &value, heap_line &line);

/* What stands between the quotes. */
error_code raw_text(ondemand::value &value, slice &text)
{
	std::string_view token = value.raw_json_token();
	size_t end = token.rfind('"');

	if (token.size() < 2 || token[0] != '"' || end == 0)
		return INCORRECT_TYPE;
	text.bytes = token.data() + 1;
	text.size = end - 1;
	return SUCCESS;
}

template <slice heap_line::*member> error_code read_text(ondemand::value &value, heap_line &line)
{
	return raw_text(value, line.*member);
}

template <uint64_t heap_line::*member> error_code read_number(ondemand::value &value, heap_line &line)
{
	return value.get_uint64().get(line.*member);
}

template <bool heap_line::*member> error_code read_flag(ondemand::value &value, heap_line &line)
{
	return value.get_bool().get(line.*member);
}

/* Ruby writes "0x7f43216fbce0". */
template <uint64_t heap_line::*member> error_code read_address(ondemand::value &value, heap_line &line)
{
	slice text;
	uint64_t number = 0;
	error_code error = raw_text(value, text);

	if (error)
		return error;
	if (text.size < 3 || text.size > 18 || text.bytes[0] != '0' || text.bytes[1] != 'x')
		return INCORRECT_TYPE;
	for (size_t i = 2; i < text.size; i++) {
		unsigned char c = static_cast<unsigned char>(text.bytes[i]);
		unsigned digit = c - '0';

		if (digit > 9) {
			digit = (c | 0x20u) - 'a';
			if (digit > 5)
				return INCORRECT_TYPE;
			digit += 10;
		}
		number = number << 4 | digit;
	}
	line.*member = number;
	return SUCCESS;
}

error_code read_object_address(ondemand::value &value, heap_line &line)
{
	line.has_address = true;
	return read_address<&heap_line::address>(value, line);
}

error_code read_shape(ondemand::value &value, heap_line &line)
{
	line.has_shape = true;
	return read_number<&heap_line::shape>(value, line);
}

error_code read_bytesize(ondemand::value &value, heap_line &line)
{
	line.has_bytesize = true;
	return read_number<&heap_line::bytesize>(value, line);
}

error_code read_length(ondemand::value &value, heap_line &line)
{
	line.has_length = true;
	return read_number<&heap_line::length>(value, line);
}

error_code read_generation(ondemand::value &value, heap_line &line)
{
	line.has_generation = true;
	return read_number<&heap_line::generation>(value, line);
}

/* Code of eval may have negative ones; Ruby writes the two's complement. */
error_code read_source_line(ondemand::value &value, heap_line &line)
{
	uint64_t number = 0;
	int64_t negative = 0;
	error_code error = value.get_uint64().get(number);

	if (error && !(error = value.get_int64().get(negative)))
		number = static_cast<uint64_t>(negative);
	line.source_line = static_cast<int32_t>(number);
	return error;
}

error_code read_value(ondemand::value &value, heap_line &line)
{
	/* Only that of strings is of use; others may be anything. */
	line.has_value = raw_text(value, line.value) == SUCCESS;
	return SUCCESS;
}

error_code read_references(ondemand::value &value, heap_line &line)
{
	ondemand::array array;
	std::string_view text;
	error_code error;

	if ((error = value.get_array().get(array)) || (error = array.raw_json().get(text)))
		return error;
	line.references.bytes = text.data();
	line.references.size = text.size();
	return SUCCESS;
}

struct field {
	std::string_view key;
	value_reader read;
};

/* By first letter, so that few are compared. All others are skipped. */
constexpr field fields[] = {
	{"address", read_object_address},
	{"bytesize", read_bytesize},
	{"class", read_address<&heap_line::class_address>},
	{"complex_shape", read_flag<&heap_line::too_complex>}, // as too_complex_shape is called from 4.1 on
	{"depth", read_number<&heap_line::depth>},
	{"edge_name", read_text<&heap_line::edge_name>},
	{"edges", read_number<&heap_line::edges>},
	{"end_mark", read_flag<&heap_line::end_mark>},
	{"file", read_text<&heap_line::file>},
	{"generation", read_generation},
	{"id", read_number<&heap_line::shape>},
	{"imemo_type", read_text<&heap_line::imemo_type>},
	{"length", read_length},
	{"line", read_source_line},
	{"memsize", read_number<&heap_line::memsize>},
	{"name", read_text<&heap_line::name>},
	{"parent_id", read_number<&heap_line::parent_shape>},
	{"real_class_name", read_text<&heap_line::real_class_name>},
	{"references", read_references},
	{"root", read_text<&heap_line::root>},
	{"shape_id", read_shape},
	{"singleton", read_flag<&heap_line::singleton>},
	{"size", read_length},
	{"struct", read_text<&heap_line::struct_name>},
	{"superclass", read_address<&heap_line::superclass_address>},
	{"too_complex_shape", read_flag<&heap_line::too_complex>},
	{"type", read_text<&heap_line::type>},
	{"value", read_value},
};
constexpr bool LITTLE_ENDIAN_ORDER = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
constexpr size_t field_count = sizeof(fields) / sizeof(*fields);

/* The first 8 bytes of a key with its closing quote, as they are in memory, so that most keys are compared at once. */
struct key_start {
	uint64_t word = 0, mask = 0;
};

struct field_index {
	uint8_t first[257] = {}; /* where each letter begins in the table */
	key_start starts[field_count] = {};

	constexpr field_index()
	{
		size_t at = 0;

		for (unsigned letter = 0; letter < 257; letter++) {
			while (at < field_count && static_cast<unsigned char>(fields[at].key[0]) < letter)
				at++;
			first[letter] = static_cast<uint8_t>(at);
		}
		for (size_t i = 0; i < field_count; i++)
			for (size_t j = 0; j < 8 && j <= fields[i].key.size(); j++) {
				uint64_t byte = j < fields[i].key.size() ? static_cast<unsigned char>(fields[i].key[j]) : '"';
				unsigned place = 8 * static_cast<unsigned>(LITTLE_ENDIAN_ORDER ? j : 7 - j);

				starts[i].word |= byte << place;
				starts[i].mask |= uint64_t{0xff} << place;
			}
	}
};
constexpr field_index field_of_letter;

/* raw: the key, and what follows it, of which there is more than any key is long. */
value_reader reader_of(const char *raw)
{
	unsigned char letter = static_cast<unsigned char>(raw[0]);
	uint64_t word;

	memcpy(&word, raw, sizeof(word));
	for (size_t i = field_of_letter.first[letter]; i < field_of_letter.first[letter + 1u]; i++) {
		const key_start &start = field_of_letter.starts[i];
		std::string_view key = fields[i].key;

		if ((word & start.mask) == start.word &&
		    (key.size() < sizeof(word) || (memcmp(raw, key.data(), key.size()) == 0 && raw[key.size()] == '"')))
			return fields[i].read;
	}
	return nullptr;
}

error_code parse(ondemand::parser &json, const char *bytes, size_t size, heap_line &line)
{
	ondemand::document document;
	ondemand::object object;
	error_code error = json.iterate(bytes, size, size + HEAP_LINE_PADDING).get(document);

	if (error || (error = document.get_object().get(object)))
		return error;
	for (auto each : object) {
		ondemand::field pair;
		value_reader read;

		if ((error = std::move(each).get(pair)))
			return error;
		read = reader_of(pair.key().raw());
		if (read && (error = read(pair.value(), line)))
			return error;
	}
	/* Two lines that ran into each other are none. */
	return document.current_location().error() == OUT_OF_BOUNDS ? SUCCESS : TRAILING_CONTENT;
}

/* A slice of the copy becomes the same one of the line. */
void move_slice(slice &text, const char *from, const char *to)
{
	if (text.bytes)
		text.bytes = to + (text.bytes - from);
}

/* Ruby writes names in whatever encoding they are. Only their ASCII matters to the structure. */
error_code parse_other_encoding(heap_parser &parser, const char *bytes, size_t size, heap_line &line)
{
	error_code error;

	parser.ascii.assign(bytes, size);
	for (char &c : parser.ascii)
		if (static_cast<unsigned char>(c) >= 0x80)
			c = '?';
	parser.ascii.append(HEAP_LINE_PADDING, ' ');
	error = parse(parser.json, parser.ascii.data(), size, line);
	for (slice *text : {&line.type, &line.file, &line.name, &line.real_class_name, &line.value, &line.imemo_type,
	                    &line.struct_name, &line.root, &line.edge_name, &line.references})
		move_slice(*text, parser.ascii.data(), bytes);
	return error;
}

} // namespace

struct heap_parser *heap_parser_new(void)
{
	return new (std::nothrow) heap_parser;
}

void heap_parser_free(struct heap_parser *parser)
{
	delete parser;
}

int heap_parser_line(struct heap_parser *parser, const char *bytes, size_t size, struct heap_line *line)
{
	error_code error;

	*line = heap_line{};
	error = parse(parser->json, bytes, size, *line);
	if (error == UTF8_ERROR) {
		*line = heap_line{};
		error = parse_other_encoding(*parser, bytes, size, *line);
	}
	if (error)
		return error == MEMALLOC ? -ENOMEM : -EINVAL;
	/* Every line of a dump has a type; all but roots have an address. */
	if (line->type.size == 0 || (!line->has_address && !heap_line_is(line, "ROOT")))
		return -EINVAL;
	return 0;
}
