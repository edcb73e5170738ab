/* An extension that takes the GVL and does not give it back until a file is there; built by tests/live/stuck_test.rb. */

#include <ruby.h>
#include <unistd.h>

void Init_holder(void);
__attribute__((noinline)) long hold_the_gvl(const char *path, int asleep);

/* Global, and with work left behind each call, so that its frame is there and has a name. */
long hold_the_gvl(const char *path, int asleep)
{
	long turns = 0;

	while (access(path, F_OK) != 0) {
		if (asleep)
			usleep(1000);
		/* Computes most of the time: into one that does nothing but system calls, nothing can be loaded. */
		for (volatile int i = 0; !asleep && i < 100000; i++)
			;
		turns++;
	}
	return turns;
}

static VALUE hold(VALUE self, VALUE path, VALUE asleep)
{
	(void)self;
	return LONG2NUM(hold_the_gvl(StringValueCStr(path), RTEST(asleep)) > 0);
}

/* For ever, in a function without unwind information that uses the frame pointer for a number of its own. */
void spin_without_a_frame(void);
/* The same in one that has left everything where its caller had it. */
void spin_as_a_leaf(void);
__asm__(".text\n"
        ".globl spin_without_a_frame, spin_as_a_leaf\n"
#if defined(__x86_64__)
        ".type spin_without_a_frame, @function\n"
        "spin_without_a_frame:\n"
        "	push %rbp\n"
        "	sub $64, %rsp\n"
        "	lea 16(%rsp), %rbp\n"
        "	mov %rsp, (%rbp)\n"
        "	movabs $0x6ee2a59a7f27722f, %rax\n"
        "	mov %rax, 8(%rbp)\n"
        "1:	jmp 1b\n"
        ".size spin_without_a_frame, . - spin_without_a_frame\n"
        ".type spin_as_a_leaf, @function\n"
        "spin_as_a_leaf:\n"
        "1:	jmp 1b\n"
        ".size spin_as_a_leaf, . - spin_as_a_leaf\n"
#elif defined(__aarch64__)
        ".type spin_without_a_frame, %function\n"
        "spin_without_a_frame:\n"
        "	stp x29, x30, [sp, #-80]!\n"
        "	add x29, sp, #16\n"
        "	mov x0, sp\n"
        "	ldr x30, =0x6ee2a59a7f27722f\n"
        "	stp x0, x30, [x29]\n"
        "1:	b 1b\n"
        "	.ltorg\n"
        ".size spin_without_a_frame, . - spin_without_a_frame\n"
        ".type spin_as_a_leaf, %function\n"
        "spin_as_a_leaf:\n"
        "1:	b 1b\n"
        ".size spin_as_a_leaf, . - spin_as_a_leaf\n"
#endif
);

static VALUE spin(VALUE self, VALUE as_a_leaf)
{
	if (RTEST(as_a_leaf))
		spin_as_a_leaf();
	else
		spin_without_a_frame();
	return self;
}

void Init_holder(void)
{
	rb_define_module_function(rb_define_module("Holder"), "spin", spin, 1);
	rb_define_module_function(rb_define_module("Holder"), "hold", hold, 2);
}
