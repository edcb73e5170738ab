# The one description of how the extension is built. Run in an empty directory, it writes a Makefile there:
#
#     mkdir build && cd build && ruby ../tracee/extconf.rb && make
#
# RubyGems runs it here, in its own directory, to build a gem: then that Makefile has mk/gem build the extension, by this file
# and in a directory of its own, and the command line.
#
# RBPROBE_CFLAGS and RBPROBE_LDFLAGS are appended (sanitizers use them).

require "mkmf"

SOURCE_ROOT = File.expand_path("..", __dir__)

if File.realpath(Dir.pwd) == File.realpath(__dir__)
  abort "rbprobe needs Linux" unless RUBY_PLATFORM.include?("linux")
  File.write("Makefile", <<~MAKEFILE)
    sitearchdir = #{RbConfig::CONFIG["sitearchdir"]}
    .PHONY: all install clean
    all install clean:
    \t+@RUBY='#{RbConfig.ruby}' MAKE='$(MAKE)' ../mk/gem $@ '$(sitearchdir)'
  MAKEFILE
  exit
end

# --- Compiler flags. Ruby's own are kept for what concerns the ABI; its warnings are replaced by ours.

# Ruby's headers do not keep to our warnings on every version: as system headers they are not looked at.
$INCFLAGS = $INCFLAGS.gsub(/-I(?=\$\((?:arch_)?hdrdir\))/, "-isystem ")
# Ours serve quoted includes only, and from the root ("proto/limits.h"): no file of ours may stand in for <limits.h>.
$INCFLAGS = $INCFLAGS.sub("-I$(srcdir)", "-iquote #{SOURCE_ROOT}")
$warnflags = ""
$CFLAGS << " -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes"
# Frame pointers: a profiler that looks at the target walks through our frames as well. Unwind tables: frame_calibrate.c walks
# through them, and not every compiler makes them by itself.
$CFLAGS << " -std=gnu11 -O2 -fno-omit-frame-pointer -fasynchronous-unwind-tables -fvisibility=hidden -pthread"
# Ruby's own flags may have -flto, as Fedora's do. Link-time optimisation does not see calls from assembly, and inlines functions
# whose return addresses we look for.
$CFLAGS << " -fno-lto"

# --- libmsgpack, statically: the target needs nothing but libc and Ruby.

# Where distributions have it and its headers.
PACKAGES = "libmsgpack-dev on Debian, msgpack-devel and msgpack-static on Fedora, msgpack-c-dev on Alpine"

def static_library(*names)
  names.each do |name|
    path = IO.popen([*Shellwords.split(CONFIG["CC"]), "-print-file-name=lib#{name}.a"], &:read).chomp
    return path if File.file?(path)
  end
  abort "libmsgpack's static library is missing; packages: #{PACKAGES}"
end

# The library's name up to version 5, and since.
MSGPACK = static_library("msgpackc", "msgpack-c")

have_header("msgpack.h") or abort "msgpack.h is missing; packages: #{PACKAGES}"

# --- What this Ruby has. Each line: function, headers, and why it is asked for.

DEBUG = "ruby/debug.h"

[
  # >= 3.3. Below, rb_postponed_job_register_one takes its place; that one is gone since 4.1.
  ["rb_postponed_job_preregister", DEBUG],
  ["rb_postponed_job_register_one", DEBUG],
  # >= 3.0. Says that the extension may be required where Ractors are; without it the VM refuses its methods to them.
  ["rb_ext_ractor_safe", "ruby/ractor.h"],
  # >= 3.0. How it is found out, cheaply, whether code runs in the main Ractor.
  ["rb_ractor_local_storage_ptr_newkey", "ruby/ractor.h"],
  # >= 3.3. Frames of any thread; rb_profile_frames only knows those of the current one.
  ["rb_profile_thread_frames", DEBUG],
  # Everywhere so far, but declared nowhere: from the instructions of a frame to their object, and back.
  ["rb_iseqw_new"],
  ["rb_iseqw_to_iseq"],
  # >= 3.1. All classes, without a walk over the object space.
  ["rb_class_subclasses"],
  # >= 3.1. The parameters of the method an event is about, without a Method object.
  ["rb_tracearg_parameters", DEBUG],
  # Everywhere so far, but declared nowhere: how the heap is walked over.
  ["rb_objspace_each_objects"],
  # The same: how many bytes an object takes.
  ["rb_obj_memsize_of"],
  # The same: whether an object is one that only the VM may see.
  ["rb_objspace_internal_object_p"],
  # The same, for what an object refers to.
  ["rb_objspace_reachable_objects_from"],
  ["rb_objspace_reachable_objects_from_root"],
  # >= 3.2. The object of a singleton class.
  ["rb_class_attached_object", "ruby.h"],
  # Everywhere so far, but declared nowhere: a Hash that compares by identity, without asking Hash's own method for it.
  ["rb_ident_hash_new"],
  # Everywhere so far, but declared nowhere: what Coverage has counted.
  ["rb_get_coverages"],
  # >= 3.3. A typed data object's data may lie within the object.
  ["RTYPEDDATA_GET_DATA", "ruby.h"],
  # Everywhere so far: what 1.step(10, 3) counts.
  ["rb_arithmetic_sequence_extract", "ruby.h"],
  # >= 4.0. Set is a class of the VM's own.
  ["rb_set_foreach", "ruby.h"],
  # >= 3.2. Who waits for the GVL.
  ["rb_internal_thread_add_event_hook", "ruby/thread.h"],
].each { |function, *headers| have_func(function, headers) }

# >= 3.3. Which thread such an event is of.
have_struct_member("rb_internal_thread_event_data_t", "thread", "ruby/thread.h")

# < 3.4. The buffer of an IO, to be made larger.
have_struct_member("rb_io_t", "wbuf", "ruby/io.h")
# Where it is not, the pattern is in the object itself (since 4.1).
have_struct_member("struct RRegexp", "ptr", "ruby/re.h")

# 3.0 to 3.2: where the VM notes what runs in this native thread. On 2.7 it is one variable for all. From 3.3 on it is the VM's
# own, and still links with a static Ruby's archive; but a process of that Ruby does not export it.
if $defs.none?("-DHAVE_RB_PROFILE_THREAD_FRAMES") &&
   try_link("#include <ruby.h>\nextern __thread void *ruby_current_ec;\nint main(void) { return ruby_current_ec != 0; }\n")
  $defs << "-DHAVE_RUBY_CURRENT_EC"
end

# For the signal handler (stuck.c): exported, but not declared by every Ruby that has them.
if try_link("int ruby_thread_has_gvl_p(void);\nint main(void) { return ruby_thread_has_gvl_p(); }\n")
  $defs << "-DHAVE_RUBY_THREAD_HAS_GVL_P"
end
# >= 3.0. The Ractor while there is but one.
if try_link("extern void *ruby_single_main_ractor;\nint main(void) { return ruby_single_main_ractor != 0; }\n")
  $defs << "-DHAVE_RUBY_SINGLE_MAIN_RACTOR"
end

# --- Linking. What loading needs is exported: Init_rbprobe, what `rbprobe load` calls and reads (entry.c), and the ABI
# number that unreleased Rubies look at. Everything is bound when it is loaded (-z now), so that no signal handler enters
# the dynamic loader.
# libruby is not linked: its symbols are those of the process that loads us, be its Ruby a shared or a static one of the
# same ABI.

EXPORTS = %w[Init_rbprobe rbprobe_start rbprobe_ring rbprobe_startup rbprobe_stuck_look ruby_abi_version].freeze
File.write("exports.map", "{ global: #{EXPORTS.join("; ")}; local: *; };\n")
$DLDFLAGS << " -Wl,--version-script=exports.map -Wl,--exclude-libs,ALL -Wl,--as-needed -Wl,-z,now -static-libgcc -pthread"
$LIBRUBYARG = $LIBRUBYARG_SHARED = $LIBRUBYARG_STATIC = ""
$DEFLIBPATH = $LIBPATH = []
$LOCAL_LIBS << " #{MSGPACK}"
# The allocator that this Ruby may have been linked with (--with-jemalloc) is not linked either: another Ruby of the ABI may have
# none.
$LIBS = $LIBS.gsub(/-l\w*malloc\w*/, "")

$CFLAGS << " -MMD"
$CFLAGS << " #{ENV["RBPROBE_CFLAGS"]}" if ENV["RBPROBE_CFLAGS"]
$DLDFLAGS << " #{ENV["RBPROBE_LDFLAGS"]}" if ENV["RBPROBE_LDFLAGS"]

# --- Sources. Several directories may have a file of one name: the objects keep their directories.

$VPATH << SOURCE_ROOT
$objs = Dir.glob("{tracee,proto}/**/*.c", base: SOURCE_ROOT).sort.map { |path| path.sub(/c\z/, "o") }
FileUtils.mkdir_p($objs.map { |path| File.dirname(path) })
$cleanfiles << "$(OBJS:.o=.d)"

create_makefile("rbprobe") do |configuration|
  # Which object depends on which header is what -MMD finds out.
  configuration.map { |part| part.sub(/^HDRS = .*$/, "HDRS =") }
end
# Its messages are those of our Makefile.
makefile = File.read("Makefile").gsub("compiling $(<)", "CC $(<:#{SOURCE_ROOT}/%=%)")
                                .sub("linking shared-object $(DLLIB)", "LD $(DLLIB)")
File.write("Makefile", makefile)
# What every call of a traced method runs has no arrays on the stack, and calls hardly anything.
HOT = %w[tracee/engine/engine_target_event.o tracee/engine/patch_call.o].freeze
File.write("Makefile", "\n#{HOT.join(" ")}: CFLAGS += -fno-stack-protector\n", mode: "a")
# A header that is gone, and that an object once needed, is no reason to fail: the object is built anew.
File.write("Makefile", "\n$(DLLIB): exports.map\n%.h: ;\n-include $(OBJS:.o=.d)\n", mode: "a")
