#ifndef RBPROBE_ASSUMPTION_CHECKS_H
#define RBPROBE_ASSUMPTION_CHECKS_H

#include "tracee/selftest/vm_assumptions.h"

/*
 * The checks that vm_assumptions.c lists, and whether what they ask for is known already. Private to it; vm_assumptions.h says
 * what they do.
 */

enum assumption_state check_signal(struct text *reason);
enum assumption_state check_frame_identity(struct text *reason);
enum assumption_state check_frame_endings(struct text *reason);
enum assumption_state check_frame_direct(struct text *reason);
enum assumption_state check_silence(struct text *reason);
enum assumption_state check_hook_list(struct text *reason);
enum assumption_state check_event_flags(struct text *reason);
enum assumption_state check_frame_hook(struct text *reason);
enum assumption_state check_patch_trial(struct text *reason);
enum assumption_state check_patch_stubs(struct text *reason);
enum assumption_state check_patch_layout(struct text *reason);
enum assumption_state check_patch_frames(struct text *reason);
enum assumption_state check_patch_calls(struct text *reason);
enum assumption_state check_patch_endings(struct text *reason);
enum assumption_state check_patch_restores(struct text *reason);
enum assumption_state check_patch_names(struct text *reason);
enum assumption_state check_patch_instructions(struct text *reason);
enum assumption_state check_patch_compiler(struct text *reason);
enum assumption_state check_shared_methods(struct text *reason);
enum assumption_state check_code_events(struct text *reason);
enum assumption_state check_attribute_events(struct text *reason);
enum assumption_state check_instruction_events(struct text *reason);
enum assumption_state check_block_method_defaults(struct text *reason);
enum assumption_state check_thread_context(struct text *reason);
enum assumption_state check_thread_interrupts(struct text *reason);
enum assumption_state check_thread_mutex(struct text *reason);
enum assumption_state check_thread_frames(struct text *reason);
enum assumption_state check_handler_frames(struct text *reason);
enum assumption_state check_heap_pages(struct text *reason);
enum assumption_state check_heap_objspace(struct text *reason);
enum assumption_state check_ticks(struct text *reason);

bool check_frames_known(void);
bool check_hook_frames_known(void);

#endif
