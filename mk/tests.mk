# Test targets; included by the Makefile. Those that people call run mk/setup first, and then make again.

UNIT_TESTS := $(patsubst tests/unit/%.c,$(BUILD)/unit/%,$(wildcard tests/unit/test_*.c))
# Everything a unit test may call, of which the linker takes what it needs.
UNIT_LIBRARY := $(BUILD)/obj/units.a

$(UNIT_LIBRARY): $(PROTO_OBJECTS) $(RUBYLESS_OBJECTS) $(filter-out %/main.o,$(TRACER_OBJECTS))
	@rm -f $@
	$(call say,AR,$@)$(AR) rcs $@ $^

$(BUILD)/unit/%: $(BUILD)/obj/tests/unit/%.o $(UNIT_LIBRARY)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(CFLAGS) -pthread $(LDFLAGS) -o $@ $^ $(PACKAGE_LIBS) -lcmocka

-include $(wildcard $(BUILD)/obj/tests/*/*.d)
.SECONDARY: $(UNIT_TESTS:$(BUILD)/unit/%=$(BUILD)/obj/tests/unit/%.o)

.PHONY: unit-tests
unit-tests: $(UNIT_TESTS)

# Which tests: `make test TESTS="--live tree"`.
TESTS ?=

test:
	@mk/setup build test
	@mk/consumers
	@+$(MAKE) --no-print-directory all unit-tests
	@RBPROBE_BUILD=$(BUILD) RBPROBE_RUBY='$(RUBY)' tests/run $(TESTS)

# What a contributor runs before each commit. One live test file or two for each thing that can break: attaching and what is
# refused (attach, load), every engine (tree, patch), what is shown (selectors, values, output), a request each way (eval,
# backtrace), and above all that the target is never harmed (safety). What needs minutes is left to `make test`: every
# blocking call, every overridden method, heap dumps, consoles. Live tests that were changed or added run as well.
CHECK_LIVE := $(addsuffix _test,attach load tree patch selectors values output eval backtrace safety)
CHECK_CHANGED = $(filter-out $(CHECK_LIVE),$(patsubst tests/live/%.rb,%,$(filter tests/live/%_test.rb,$(shell mk/changed))))

check:
	@mk/setup build test lint
	@+$(MAKE) --no-print-directory lint FILES='$(or $(shell mk/changed),nothing)'
	@+$(MAKE) --no-print-directory all unit-tests
	@RBPROBE_BUILD=$(BUILD) tests/run --unit
	@RBPROBE_BUILD=$(BUILD) RBPROBE_RUBY='$(RUBY)' RBPROBE_PATIENCE=2 RBPROBE_CYCLES=100 RBPROBE_SHORT=1 \
		tests/run --live --jobs 4 $(CHECK_LIVE) $(CHECK_CHANGED)

# --- Attacks. Programs of attackers that have to be fast, or to speak to the kernel, are written in C.

SECURITY_PROGRAMS := $(patsubst tests/security/%.c,$(BUILD)/security/%,$(wildcard tests/security/*.c))

$(BUILD)/security/%: tests/security/%.c $(PROTO_OBJECTS)
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) $(OWN_FLAGS) $(PACKAGE_CFLAGS) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.c %.o,$^) \
		$(PACKAGE_LIBS)

$(BUILD)/security/liar: $(wildcard tests/security/liar/*)
# It is taken for the extension, which has symbols.
$(BUILD)/security/liar: LDFLAGS += -rdynamic

.PHONY: security-programs
security-programs: $(SECURITY_PROGRAMS)

# One file at a time: the end of a test takes away all that its users have, who are numbers that no process had at its beginning.
security:
	@mk/setup build test
	@+$(MAKE) --no-print-directory all security-programs
	@RBPROBE_BUILD=$(BUILD) RBPROBE_RUBY='$(RUBY)' tests/run --security --jobs 1 $(TESTS)

# --- Sanitizers. Everything is built once more, in a directory of its own.

ASAN_FLAGS := -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
TSAN_FLAGS := -fsanitize=thread
# What runs in more than one thread.
TSAN_TESTS := command_inbox ring state_ring stream ticks
# Ruby leaves C frames by __builtin_longjmp, of which the sanitizer does not learn: what it has noted about the stack of the
# frames that were left would be held against those that come after them.
ASAN_EXTENSION_FLAGS := $(ASAN_FLAGS) --param asan-stack=0 -U_FORTIFY_SOURCE
# An instrumented extension is loaded by a Ruby that is not: the runtime has to be there first. Ruby keeps its memory until
# it exits, which is no leak of ours.
ASAN_TARGET_ENV = LD_PRELOAD=$(shell $(CC) -print-file-name=libasan.so):$(shell $(CC) -print-file-name=libubsan.so) \
	ASAN_OPTIONS=detect_leaks=0:use_sigaltstack=0

check-asan:
	@mk/setup build test
	@+RBPROBE_CFLAGS='$(ASAN_EXTENSION_FLAGS)' RBPROBE_LDFLAGS='$(ASAN_FLAGS)' $(MAKE) --no-print-directory \
		BUILD=$(BUILD)/asan CFLAGS='-O1 -g $(ASAN_FLAGS)' all unit-tests
	@RBPROBE_BUILD=$(BUILD)/asan RBPROBE_RUBY='$(RUBY)' RBPROBE_PATIENCE=4 RBPROBE_CYCLES=100 RBPROBE_SHORT=1 \
		RBPROBE_TARGET_ENV='$(ASAN_TARGET_ENV)' \
		tests/run $(TESTS)

check-tsan:
	@mk/setup build test
	@+$(MAKE) --no-print-directory BUILD=$(BUILD)/tsan CFLAGS='-O1 -g $(TSAN_FLAGS)' unit-tests
	@RBPROBE_BUILD=$(BUILD)/tsan tests/run --unit $(TSAN_TESTS)

# Which engine: `make oracle ENGINE=hook`.
ENGINE ?= auto

oracle:
	@mk/setup build test
	@+$(MAKE) --no-print-directory all
	@RBPROBE_BUILD=$(BUILD) RBPROBE_RUBY='$(RUBY)' tests/oracle/run --engine $(ENGINE)

# What is shown is compared with what is true.
truth:
	@mk/setup build test
	@+$(MAKE) --no-print-directory all
	@RBPROBE_BUILD=$(BUILD) RBPROBE_RUBY='$(RUBY)' tests/truth/run

# OTHERS=1: not the machine's own Ruby.
OTHERS ?=

matrix:
	@mk/setup build test matrix $(if $(SOURCES),ruby-source)
	@+$(MAKE) --no-print-directory tracer
	@RUBIES='$(RUBIES)' SOURCES='$(SOURCES)' VARIANTS='$(VARIANTS)' tests/matrix/run $(if $(OTHERS),--others) $(TESTS)

# Unit tests and chosen live tests on another processor, which is emulated. TESTS as for `make test`.
EMULATED := matrix-arm64 matrix-ppc64el matrix-riscv64
.PHONY: $(EMULATED)
$(EMULATED): matrix-%:
	@mk/setup $@
	@tests/matrix/emulated $* $(TESTS)

# Chosen live tests on a Ruby with musl, which it builds. TESTS as for `make test`; TESTS=--all: all live tests.
.PHONY: matrix-musl
matrix-musl:
	@mk/setup build test matrix-musl
	@+$(MAKE) --no-print-directory tracer
	@tests/matrix/musl $(TESTS)

# Live tests of containers under AppArmor and with control groups of version 2, in an emulated machine. TESTS: names of files.
.PHONY: matrix-apparmor
matrix-apparmor:
	@mk/setup build test matrix-apparmor
	@+$(MAKE) --no-print-directory tracer extension
	@tests/matrix/apparmor $(TESTS)

# --- Other processors, as far as their compilers see

CROSS ?= aarch64-linux-gnu powerpc64le-linux-gnu riscv64-linux-gnu
CROSS_ABI = $(shell mk/abi)
CROSS_DEFINES = $(shell sed -n 's/^CPPFLAGS = //p' $(BUILD)/ext/$(CROSS_ABI)/Makefile | grep -o -e '-DHAVE_[A-Z_]*')

.PHONY: cross
cross:
	@mk/setup build test cross
	@+$(MAKE) --no-print-directory extension $(SCHEMA_SOURCES)
	@MACHINES='$(CROSS)' mk/cross '$(OWN_FLAGS) -isystem $(BUILD)/generated' \
		'-std=gnu11 -pthread -iquote . $(WARNINGS) $(RUBY_INCLUDES) $(CROSS_DEFINES)'

# --- Static analysis

OWN_SOURCES := $(wildcard proto/*.[ch] $(foreach side,tracer tracee,$(side)/*.[ch] $(side)/*/*.[ch] $(side)/*/*.cpp) \
	tests/unit/*.[ch] tests/fuzz/*.[ch] tests/security/*.[ch] tests/security/liar/*.[ch])

# `make lint FILES="tracer/base/output.c doc/guide.md"`: only these are formatted and analysed. What is about all files
# together is looked at in any case, as it takes no time.
FILES ?=
LINT_SOURCES = $(if $(FILES),$(filter $(OWN_SOURCES),$(FILES)),$(OWN_SOURCES))

lint:
	@mk/setup build test lint
	@$(if $(LINT_SOURCES),clang-format --dry-run -Werror $(LINT_SOURCES))
	mk/calls
	mk/columns
	mk/complete
	mk/links
	@+RBPROBE_CFLAGS=-Werror $(MAKE) --no-print-directory BUILD=$(BUILD)/lint WERROR=-Werror all unit-tests
	mk/rooms $(BUILD)/lint/obj $(BUILD)/lint/ext
	@+$(MAKE) --no-print-directory fuzz-syntax
	@+$(MAKE) --no-print-directory tidy

.PHONY: tidy
RUBY_INCLUDES = $(shell $(RUBY) -rrbconfig -e 'c = RbConfig::CONFIG; \
	print c.values_at("rubyarchhdrdir", "rubyhdrdir").map { |d| "-isystem " + d + " " }.join')
# What extconf.rb found out about this Ruby.
EXTENSION_DEFINES = $(shell sed -n 's/^CPPFLAGS = //p' $(wildcard $(BUILD)/lint/ext/*/Makefile) | grep -o -e '-DHAVE_[A-Z_]*')
tidy: $(SCHEMA_SOURCES)
	@FILES='$(FILES)' mk/tidy '$(RUBY_INCLUDES) $(EXTENSION_DEFINES)' '$(OWN_CXX_FLAGS) $(PACKAGE_CFLAGS)' \
		$(OWN_FLAGS) $(PACKAGE_CFLAGS)

# --- Fuzzing

FUZZ_SECONDS ?= 20
FUZZ_TARGETS := $(patsubst tests/fuzz/%.c,$(BUILD)/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))
# The whole tracer but its main program. Of an archive nothing is taken whose file a target has included.
FUZZ_HEAP_OBJECT := $(BUILD)/fuzz/heap_line.o
FUZZ_TRACER_SOURCES := $(filter-out tracer/main.c tracer/stream/decode.c,$(TRACER_SOURCES)) tests/fuzz/records.c
FUZZ_TRACER := $(patsubst %.c,$(BUILD)/fuzz/obj/%.o,$(FUZZ_TRACER_SOURCES)) $(FUZZ_HEAP_OBJECT)
FUZZ_SOURCES := $(wildcard proto/*.c) $(BUILD)/fuzz/tracer.a

$(BUILD)/fuzz/%: tests/fuzz/%.c $(FUZZ_SOURCES) $(wildcard proto/*.h tracer/*/*.h)
	@mkdir -p $(@D)
	$(call say,CLANG,$<)$(CLANG) $(OWN_FLAGS) $(PACKAGE_CFLAGS) -O1 -g -fsanitize=fuzzer,address,undefined \
		-o $@ $< $(FUZZ_SOURCES) $(PACKAGE_LIBS)

$(BUILD)/fuzz/obj/%.o: %.c $(wildcard proto/*.h tracer/*/*.h) tests/fuzz/records.h tracer/stream/decode.c | $(SCHEMA_SOURCES)
	@mkdir -p $(@D)
	$(call say,CLANG,$<)$(CLANG) $(OWN_FLAGS) $(PACKAGE_CFLAGS) -O1 -g -fsanitize=fuzzer-no-link,address,undefined -c -o $@ $<

$(BUILD)/fuzz/tracer.a: $(FUZZ_TRACER)
	@rm -f $@
	$(call say,AR,$@)$(AR) rcs $@ $^

# Checks of C++ that need a runtime of their own are left out.
$(FUZZ_HEAP_OBJECT): tracer/heap/heap_line.cpp tracer/heap/heap_line.h
	@mkdir -p $(@D)
	$(call say,CLANG,$<)$(CLANG) $(OWN_CXX_FLAGS) $(PACKAGE_CFLAGS) -O1 -g -fsanitize=fuzzer-no-link,address,undefined \
		-fno-sanitize=function,vptr -c -o $@ $<

# They are run by hand, and compiled by nobody else.
.PHONY: fuzz-syntax
fuzz-syntax:
	@for file in tests/fuzz/*.c; do \
		$(CLANG) -fsyntax-only -Werror=implicit-function-declaration $(OWN_FLAGS) $(PACKAGE_CFLAGS) $$file || exit 1; \
	done

.PHONY: fuzz-targets
fuzz-targets: $(FUZZ_TARGETS)

fuzz:
	@mk/setup build fuzz
	@+$(MAKE) --no-print-directory fuzz-targets
	@FUZZ_SECONDS=$(FUZZ_SECONDS) tests/fuzz/run $(FUZZ_TARGETS)

bench:
	@mk/setup build bench
	@+$(MAKE) --no-print-directory all
	@tests/bench/run

# --- Packages, tarball, gem and static binary: built, installed, used and removed. Which: `make packages STEPS="trixie static"`

STEPS ?=

.PHONY: packages
packages:
	@mk/setup build test packages
	@+$(MAKE) --no-print-directory static
	@tests/packages/run $(STEPS)

# --- Loading into processes of every kind, SOAK_LOADS each; each checks its own results

SOAK_LOADS ?= 500
SOAK_KINDS ?=

.PHONY: soak-load
soak-load:
	@mk/setup build soak
	@+$(MAKE) --no-print-directory all
	@RBPROBE_BUILD=$(BUILD) RBPROBE_RUBY='$(RUBY)' tests/soak/load $(SOAK_LOADS) $(SOAK_KINDS)

# --- Random commands against an application that checks itself: `make soak SEED=1 SESSIONS=5000 RUBY=/path/to/ruby`

SESSIONS ?= 300
SEED     ?=
# 0.25: all waits a fourth as long.
PACE     ?= 1
export PACE SEED

.PHONY: soak
soak:
	@mk/setup build soak
	@+$(MAKE) --no-print-directory all
	@RBPROBE_BUILD=$(BUILD) RBPROBE_RUBY='$(RUBY)' \
		tests/soak/run --sessions $(SESSIONS) --pace $(PACE) $(if $(SEED),--seed $(SEED))

# On each Ruby of the matrix.
.PHONY: soak-matrix
soak-matrix:
	@mk/setup build soak matrix
	@+$(MAKE) --no-print-directory tracer
	@RUBIES='$(RUBIES)' tests/matrix/run $(if $(OTHERS),--others) --soak $(SESSIONS)

# The same under AddressSanitizer, where only the extension and the tracer are instrumented.
.PHONY: soak-asan
soak-asan:
	@mk/setup build soak
	@+RBPROBE_CFLAGS='$(ASAN_EXTENSION_FLAGS)' RBPROBE_LDFLAGS='$(ASAN_FLAGS)' $(MAKE) --no-print-directory \
		BUILD=$(BUILD)/asan CFLAGS='-O1 -g $(ASAN_FLAGS)' all
	@RBPROBE_BUILD=$(BUILD)/asan RBPROBE_RUBY='$(RUBY)' RBPROBE_PATIENCE=4 RBPROBE_TARGET_ENV='$(ASAN_TARGET_ENV)' \
		tests/soak/run --sessions $(SESSIONS) --pace $(PACE) $(if $(SEED),--seed $(SEED))

# --- A Ruby that is instrumented itself: what the extension does to the objects and the memory of the VM is seen, too

# Absolute, as the extension is built elsewhere.
RUBY_ASAN = $(abspath $(BUILD)/ruby-asan)

.PHONY: check-ruby-asan
check-ruby-asan:
	@mk/setup build test soak conformance ruby-asan
	@+tests/ruby_asan/build
	@+ASAN_OPTIONS=detect_leaks=0:use_sigaltstack=0 RBPROBE_CFLAGS='$(ASAN_EXTENSION_FLAGS)' RBPROBE_LDFLAGS='$(ASAN_FLAGS)' \
		$(MAKE) --no-print-directory BUILD=$(RUBY_ASAN) RUBY=$(RUBY_ASAN)/ruby/bin/ruby CFLAGS='-O1 -g $(ASAN_FLAGS)' all
	@RBPROBE_BUILD=$(RUBY_ASAN) RBPROBE_RUBY=$(RUBY_ASAN)/ruby/bin/ruby \
		PACE=$(PACE) SEED='$(SEED)' tests/ruby_asan/run $(SESSIONS) $(TESTS)

# --- MRI's own test suite, alone and observed: `make conformance FILES="test_array test_hash" RUBY=... RUBY_SOURCE=...`;
# all files without FILES

.PHONY: conformance
conformance:
	@mk/setup build conformance
	@+$(MAKE) --no-print-directory all
	@RBPROBE_BUILD=$(BUILD) RBPROBE_RUBY='$(RUBY)' tests/conformance/run $(FILES)
