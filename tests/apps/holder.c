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

#ifdef __x86_64__
/* For ever, in a function without unwind information that uses the frame pointer for a number of its own. */
void spin_without_a_frame(void);
__asm__(".text\n"
        ".globl spin_without_a_frame\n"
        ".type spin_without_a_frame, @function\n"
        "spin_without_a_frame:\n"
        "	push %rbp\n"
        "	sub $64, %rsp\n"
        "	lea 16(%rsp), %rbp\n"
        "	mov %rsp, (%rbp)\n"
        "	movabs $0x6ee2a59a7f27722f, %rax\n"
        "	mov %rax, 8(%rbp)\n"
        "1:	jmp 1b\n"
        ".size spin_without_a_frame, . - spin_without_a_frame\n");

static VALUE spin(VALUE self)
{
	spin_without_a_frame();
	return self;
}
#endif

void Init_holder(void)
{
#ifdef __x86_64__
	rb_define_module_function(rb_define_module("Holder"), "spin", spin, 0);
#endif
	rb_define_module_function(rb_define_module("Holder"), "hold", hold, 2);
}
