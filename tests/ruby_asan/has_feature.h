/* Ruby asks __has_feature(address_sanitizer), which GCC 12 does not know, whether to poison the free slots of its heap. Included
 * first into every source of it: whoever reads an object that the GC has collected is reported then. */

#ifndef __has_feature
#define __has_feature(name) RBPROBE_HAS_##name
#define RBPROBE_HAS_address_sanitizer 1
#define RBPROBE_HAS_memory_sanitizer 0
#endif
