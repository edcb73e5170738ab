# rbprobe: `make` builds the tracer and, for RUBY, the extension; `make help` lists the rest.

RUBY    ?= ruby
BUILD   ?= build
PREFIX  ?= /usr/local
DESTDIR ?=

CC     ?= cc
# For tracer/heap_line.cpp only: a library that is fast enough has no interface for C.
CXX    ?= c++
CLANG  ?= clang
CFLAGS ?= -O2 -g
CXXFLAGS ?= $(CFLAGS)
WERROR ?=

WARNINGS := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes
# "proto/limits.h" is found from the root; no directory of ours is searched for <limits.h>.
OWN_CXX_FLAGS := -std=gnu++17 -fno-rtti -fno-exceptions -iquote . -Wall -Wextra $(WERROR)
OWN_FLAGS := -std=gnu11 -pthread -iquote . $(WARNINGS) $(WERROR)
# The name of libmsgpack's pkg-config file up to version 5, and since.
MSGPACK := $(shell pkg-config --exists msgpack-c && echo msgpack-c || echo msgpack)
PACKAGES := $(MSGPACK) jansson simdjson zlib libzstd readline libdw
PACKAGE_CFLAGS = $(shell pkg-config --cflags $(PACKAGES))
PACKAGE_LIBS   = $(shell pkg-config --libs $(PACKAGES)) -lstdc++
export CC BUILD RUBY

PROTO_OBJECTS  := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard proto/*.c))
TRACER_OBJECTS := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard tracer/*.c)) $(patsubst %.cpp,$(BUILD)/obj/%.o,$(wildcard tracer/*.cpp))
# The parts of the extension that know no Ruby are unit-tested outside of it.
RUBYLESS_OBJECTS := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard tracee/answer.c tracee/encoder.c tracee/intake.c tracee/patch_layout.c tracee/ring.c tracee/stream.c tracee/tally.c tracee/ticks.c))

.PHONY: all tracer extension
all: tracer extension

tracer: $(BUILD)/rbprobe

$(BUILD)/rbprobe: $(TRACER_OBJECTS) $(PROTO_OBJECTS)
	$(CC) $(CFLAGS) -pthread $(LDFLAGS) -o $@ $^ $(PACKAGE_LIBS)

$(BUILD)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(OWN_FLAGS) $(PACKAGE_CFLAGS) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/obj/%.o: %.cpp
	@mkdir -p $(@D)
	$(CXX) $(OWN_CXX_FLAGS) $(PACKAGE_CFLAGS) $(CPPFLAGS) $(CXXFLAGS) -MMD -MP -c -o $@ $<

-include $(wildcard $(BUILD)/obj/*/*.d)

extension:
	+@mk/extension

# The extension for every Ruby that is found: in PATH, and where the usual managers of Rubies put them.
.PHONY: rubies
rubies:
	+@mk/rubies

# --- Tests

.PHONY: setup demo test truth security check-asan check-tsan lint fuzz bench matrix oracle
setup:
	@mk/setup build

demo:
	@mk/setup build demo
	@+$(MAKE) --no-print-directory all
	@tests/demo

include mk/tests.mk

# --- Installation

.PHONY: install uninstall clean help
install uninstall:
	+@DESTDIR='$(DESTDIR)' PREFIX='$(PREFIX)' mk/$@

clean:
	rm -rf $(BUILD)/rbprobe $(BUILD)/obj $(BUILD)/ext $(BUILD)/tracee $(BUILD)/unit $(BUILD)/fuzz $(BUILD)/security $(BUILD)/asan $(BUILD)/ruby-asan $(BUILD)/tsan $(BUILD)/lint

help:
	@echo 'make                  the tracer (build/rbprobe) and the extension (build/tracee/ABI/) for RUBY (ruby)'
	@echo 'make rubies           the extension for every Ruby that can be found'
	@echo 'make demo             watch a real web application at work'
	@echo 'make test             unit and live tests'
	@echo 'make security         attacks by other local users, a lying target and a lying client (root, as it needs other users)'
	@echo 'make check-asan       unit and live tests under AddressSanitizer and UBSan'
	@echo 'make check-ruby-asan  live tests, truth and soak with a Ruby that is built with AddressSanitizer, too: SESSIONS (300); by hand'
	@echo 'make check-tsan       the unit tests of what runs in several threads under ThreadSanitizer'
	@echo 'make matrix           the live tests on Ruby 2.7, 3.1 and 3.3 in chroots (root), and on RUBIES=/path/a:/path/b'
	@echo 'make truth            what is shown of programs that know what is true of them, by every engine'
	@echo 'make oracle           a million calls of core methods, traced and not: nothing may tell the difference; ENGINE=hook'
	@echo 'make lint             formatting, static analysis, and a compilation with -Werror'
	@echo 'make fuzz             the decoders under libFuzzer, FUZZ_SECONDS each'
	@echo 'make soak             random commands against an application that checks itself: SESSIONS (300), SEED, RUBY; make soak-asan'
	@echo 'make conformance      the test suite of MRI, alone and observed, test by test: FILES, RUBY, RUBY_SOURCE'
	@echo 'make soak-load        load into processes of every kind, SOAK_LOADS (500) each; every one checks its own results'
	@echo 'make bench            what it costs, beside rbtrace and beside nothing: table, bench.json, plots'
	@echo 'make setup            the Debian packages that building needs'
	@echo 'make install          below DESTDIR and PREFIX (/usr/local); make uninstall takes it away'
	@echo 'make clean            all that was built; chroots of the matrix stay'
