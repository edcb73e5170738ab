# rbprobe: `make` builds the tracer and, for RUBY, the extension; `make help` lists the rest.

RUBY    ?= ruby
BUILD   ?= build
PREFIX  ?= /usr/local
DESTDIR ?=

CC     ?= cc
# For tracer/heap/heap_line.cpp only: a library that is fast enough has no interface for C.
CXX    ?= c++
CLANG  ?= clang
CFLAGS ?= -O2 -g
CXXFLAGS ?= $(CFLAGS)
WERROR ?=
# V=1 prints whole commands.
V ?=
say = $(if $(filter-out 0,$(V)),,@echo '$(1) $(2)';)

WARNINGS := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes
# "proto/limits.h" is found from the root; no directory of ours is searched for <limits.h>.
# The libraries that are there of those that are not needed, HAVE_... in the code; WITHOUT="libdw simdjson" leaves them out.
WITHOUT ?=
# STATIC=1 is how `make static` calls us.
STATIC ?=
LIBRARIES := $(shell WITHOUT='$(WITHOUT)' CC='$(CC)' CXX='$(CXX)' STATIC='$(STATIC)' mk/libraries)
HAVE := $(addprefix -DHAVE_,$(shell echo '$(LIBRARIES)' | tr a-z- A-Z_)) $(if $(STATIC),-DRBPROBE_STATIC)
OWN_CXX_FLAGS := -std=gnu++17 -fno-rtti -fno-exceptions -iquote . -Wall -Wextra $(HAVE) $(WERROR)
OWN_FLAGS := -std=gnu11 -pthread -iquote . $(WARNINGS) $(HAVE) $(WERROR)
# The name of libmsgpack's pkg-config file up to version 5, and since.
MSGPACK := $(shell pkg-config --exists msgpack-c && echo msgpack-c || echo msgpack)
PACKAGES := $(MSGPACK) $(LIBRARIES)
PACKAGE_CFLAGS = $(shell pkg-config --cflags $(PACKAGES)) -isystem $(BUILD)/generated
# Without libcurl, which is loaded when it is needed (tracer/otlp/curl_api.h).
PACKAGE_LIBS   = $(shell pkg-config $(if $(STATIC),--static) --libs $(filter-out libcurl,$(PACKAGES))) -lm -ldl \
	$(if $(filter simdjson,$(LIBRARIES)),-lstdc++)
export CC BUILD RUBY V WITHOUT

PROTO_OBJECTS  := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard proto/*.c))
TRACER_SOURCES := $(wildcard tracer/*.c tracer/*/*.c)
TRACER_CXX_SOURCES := $(if $(filter simdjson,$(LIBRARIES)),$(wildcard tracer/*/*.cpp))
# Messages of protobuf, in C: a file X.proto is <X.pb-c.h>.
SCHEMAS := $(if $(filter libprotobuf-c,$(LIBRARIES)),$(wildcard tracer/*/*.proto))
SCHEMA_SOURCES := $(SCHEMAS:%.proto=$(BUILD)/generated/%.pb-c.c)
SCHEMA_OBJECTS := $(SCHEMA_SOURCES:.c=.o)
TRACER_OBJECTS := $(patsubst %.c,$(BUILD)/obj/%.o,$(TRACER_SOURCES)) $(patsubst %.cpp,$(BUILD)/obj/%.o,$(TRACER_CXX_SOURCES)) \
	$(SCHEMA_OBJECTS)
TRACER_OBJECTS += $(BUILD)/obj/embedded/html_page.o
# The parts of the extension that know no Ruby are unit-tested outside of it.
RUBYLESS_SOURCES := $(addprefix tracee/,$(addsuffix .c,base/msgpack_builder base/encoder base/command_inbox \
	base/fork_gate base/job_due base/ring base/state_ring \
	base/counter base/ruby_words base/ticks requests/profile_watch session/permissions session/stream \
	vm/method_layout))
RUBYLESS_OBJECTS := $(patsubst %.c,$(BUILD)/obj/%.o,$(RUBYLESS_SOURCES))

.PHONY: all tracer extension static FORCE
all: tracer extension $(if $(filter build,$(BUILD)),compile_commands.json)

tracer: $(BUILD)/rbprobe $(BUILD)/tracers

# For copying into machines that lack its libraries: nothing of them is needed, nor their libc. Position-independent all the same.
static:
	@+$(MAKE) --no-print-directory BUILD='$(BUILD)/static' STATIC=1 LDFLAGS='$(LDFLAGS) -static-pie' tracer

# Where a binary that is not installed finds them.
$(BUILD)/tracers:
	@mkdir -p $(BUILD)
	@ln -sfn '$(CURDIR)/tracers' $@

$(BUILD)/rbprobe: $(TRACER_OBJECTS) $(PROTO_OBJECTS)
	$(call say,LD,$@)$(CC) $(CFLAGS) -pthread $(LDFLAGS) -o $@ $^ $(PACKAGE_LIBS)
	@$@ --version | sed -n '2,$$s/^/rbprobe: /p' >&2

# The page of `rbprobe export --to html`, as C.
$(BUILD)/obj/embedded/html_page.c: mk/embed $(wildcard tracer/html/page/*)
	@mkdir -p $(@D)
	$(call say,GEN,$@)mk/embed tracer/html/page >$@.new && mv $@.new $@

$(BUILD)/obj/embedded/html_page.o: $(BUILD)/obj/embedded/html_page.c
	$(call say,CC,$<)$(CC) $(OWN_FLAGS) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

# Where a library comes or goes, all objects are made anew.
$(BUILD)/obj/libraries: FORCE
	@mkdir -p $(@D)
	@echo '$(LIBRARIES)' | cmp -s - $@ || echo '$(LIBRARIES)' >$@

$(TRACER_OBJECTS): $(BUILD)/obj/libraries

# The only library that nothing works without. Said in one line, before a compiler says it in many.
.PHONY: msgpack
msgpack:
	@pkg-config --exists $(MSGPACK) || \
		{ echo 'rbprobe needs libmsgpack, which pkg-config does not find; on Debian: sh mk/setup build;' \
			'its package is msgpack-devel on Fedora, msgpack-c on Arch, msgpack-c-dev on Alpine' >&2; exit 1; }

$(TRACER_OBJECTS) $(PROTO_OBJECTS) $(RUBYLESS_OBJECTS): | msgpack

$(filter-out $(SCHEMA_OBJECTS),$(TRACER_OBJECTS)): | $(SCHEMA_SOURCES)

$(BUILD)/generated/%.pb-c.c: %.proto
	@mkdir -p $(@D)
	$(call say,PROTOC,$<)protoc-c --c_out=$(BUILD)/generated $<

# It is not ours to be warned of.
$(SCHEMA_OBJECTS): %.o: %.c
	$(call say,CC,$<)$(CC) -std=gnu11 $(PACKAGE_CFLAGS) $(CPPFLAGS) $(CFLAGS) -w -c -o $@ $<

$(BUILD)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) $(OWN_FLAGS) $(PACKAGE_CFLAGS) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/obj/%.o: %.cpp
	@mkdir -p $(@D)
	$(call say,CXX,$<)$(CXX) $(OWN_CXX_FLAGS) $(PACKAGE_CFLAGS) $(CPPFLAGS) $(CXXFLAGS) -MMD -MP -c -o $@ $<

-include $(wildcard $(BUILD)/obj/*/*.d $(BUILD)/obj/*/*/*.d)

extension:
	+@mk/extension

# For clangd and the like. It changes where a directory has another file, or a flag is another.
COMMANDS_FROM := Makefile mk/compile_commands tracee/extconf.rb \
	$(wildcard proto tracer/. tracer/*/. tracee/. tracee/*/. tests/unit tests/fuzz tests/security tests/security/*/.)
compile_commands.json: $(COMMANDS_FROM) | extension
	$(call say,GEN,$@)$(RUBY) mk/compile_commands '$(BUILD)' '$(CC)' '$(OWN_FLAGS) $(PACKAGE_CFLAGS) $(CPPFLAGS) $(CFLAGS)' \
		'$(CXX)' '$(OWN_CXX_FLAGS) $(PACKAGE_CFLAGS) $(CPPFLAGS) $(CXXFLAGS)'

# The extension for every Ruby that is found: in PATH, and where the usual managers of Rubies put them.
.PHONY: rubies
rubies:
	+@mk/rubies

# --- Tests

.PHONY: setup demo cast pictures check test truth security check-asan check-tsan lint fuzz bench matrix oracle
setup:
	@mk/setup build

demo:
	@mk/setup build demo
	@+$(MAKE) --no-print-directory all
	@tests/demo

cast:
	@mk/setup build demo cast
	@+$(MAKE) --no-print-directory all
	@mk/cast

pictures:
	@mk/setup build test demo
	@+$(MAKE) --no-print-directory all
	@mk/pictures

include mk/tests.mk

# --- Source as one file, and the gem; the same bytes from every clone of a commit

.PHONY: dist gem
dist gem:
	@mk/dist $@

# --- Installation

.PHONY: install uninstall clean help
install uninstall:
	+@DESTDIR='$(DESTDIR)' PREFIX='$(PREFIX)' RBTRACE='$(RBTRACE)' mk/$@

clean:
	rm -rf compile_commands.json \
		$(addprefix $(BUILD)/,rbprobe obj generated ext tracee static unit fuzz security asan ruby-asan tsan lint floor)

help:
	@echo 'make                  the tracer (build/rbprobe) and the extension (build/tracee/ABI/) for RUBY (ruby)'
	@echo 'make static           build/static/rbprobe, which needs no library: for copying into other machines'
	@echo 'make rubies           the extension for every Ruby that can be found'
	@echo 'make demo             watch a real web application at work, and write a page of it, build/demo.html'
	@echo 'make cast             record 20 seconds of it anew, as doc/demo.cast and doc/demo.svg'
	@echo 'make pictures         make the pictures of the guide anew, doc/pictures, of a recording of it'
	@echo 'make compile_commands.json   how each file is compiled, for clangd; `make` writes it, too'
	@echo 'make check            before each commit, 5 minutes: lint of what changed, unit tests, the live tests that matter'
	@echo 'make test             unit and live tests; TESTS="--live tree" runs the live test files with tree in their names'
	@echo '                      one test: ruby tests/live/tree_test.rb -n /words of its name/'
	@echo 'make security         attacks by other local users, a lying target, a lying client (root, as it needs other users)'
	@echo 'make check-asan       unit and live tests under AddressSanitizer and UBSan'
	@echo 'make check-ruby-asan  live tests, truth and soak with a Ruby that is built with AddressSanitizer as well;'
	@echo '                      SESSIONS (300); by hand'
	@echo 'make check-tsan       the unit tests of what runs in several threads under ThreadSanitizer'
	@echo 'make matrix           the live tests on Ruby 2.7, 3.1 and 3.3 in chroots (root), and on RUBIES=/path/a:/path/b'
	@echo '                      or, of SOURCES=/path/source,/path/clone@v3_2_9, on what is built:'
	@echo '                      VARIANTS="shared static+cf+lto"'
	@echo 'make matrix-arm64     unit tests, chosen live tests, truth and oracle on aarch64, which it emulates (root);'
	@echo '                      matrix-ppc64el, matrix-riscv64 likewise'
	@echo 'make matrix-musl      chosen live tests on a Ruby with musl, which it builds, and in a chroot with it alone (root)'
	@echo 'make matrix-apparmor live tests of containers under AppArmor, on an emulated machine (root)'
	@echo 'make cross            what compiles of both sides for aarch64, ppc64el and riscv64'
	@echo 'make truth            what is shown of programs that know what is true of them, by every engine'
	@echo 'make oracle           a million calls of core methods, traced and not, without a difference; ENGINE=hook'
	@echo 'make lint             formatting, static analysis, and a compilation with -Werror; FILES="..." looks at these only'
	@echo 'make fuzz             the decoders under libFuzzer, FUZZ_SECONDS each'
	@echo 'make soak             random commands against an application that checks itself: SESSIONS (300), SEED, RUBY;'
	@echo '                      make soak-asan'
	@echo 'make conformance      the test suite of MRI, alone and observed, test by test: FILES, RUBY, RUBY_SOURCE'
	@echo 'make soak-load        load into processes of every kind, SOAK_LOADS (500) each; every one checks its own results'
	@echo 'make bench            what it costs, beside rbtrace and beside nothing: table, bench.json, plots'
	@echo 'make packages         Debian packages of two releases, tarball, gem, static binary, RPM, Arch: built, checked,'
	@echo '                      installed, used, removed (root); STEPS="trixie static" does only these'
	@echo 'make dist, make gem   build/rbprobe-VERSION.tar.gz and .gem of the commit that is checked out, reproducibly'
	@echo 'make setup            the Debian packages that building needs'
	@echo 'make install          below DESTDIR and PREFIX (/usr/local); make uninstall takes it away'
	@echo '                      RBTRACE=1: also the name rbtrace, for the command line of rbtrace'
	@echo 'WITHOUT="libdw zlib"   the tracer without these libraries (mk/libraries); others are left out where missing'
	@echo 'V=1                   whole commands instead of a line for each file'
	@echo 'make clean            all that was built; chroots of the matrix stay'
