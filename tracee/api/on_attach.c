/*
 * Rbprobe.on_attach. See on_attach.h. Context: job (note_client), and a Ruby thread of our own, which runs the blocks.
 *
 * The blocks are the application's and may do anything: write to a log that blocks, raise, or never come back. So the job
 * only notes who has attached, and makes the thread where there is none. The thread takes one note after the other, and ends when
 * there is none left. It inherits from the job that interrupts are held back, and lets them in around the blocks.
 */

#include "tracee/api/on_attach.h"

#include "tracee/session/debug.h"
#include "tracee/session/session.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/fiber.h"
#include "tracee/vm/interrupts.h"
#include "tracee/vm/own.h"
#include "tracee/vm/quiet.h"

#include <ruby/encoding.h>
#include <stdlib.h>
#include <string.h>

#define NOTES_MAX 64 /* that wait for a block that takes long: more are dropped */

struct note {
	struct note *next;
	struct session_client client; /* its command is in text */
	char text[];
};

/* GVL. In a forked child, notes of the parent's are left as they are. */
static struct {
	VALUE blocks; /* an Array */
	VALUE client; /* the Struct's class */
	struct note *oldest, **newest;
	unsigned count;
	bool running; /* there is a thread */
} announced;

static struct note *take_note(void)
{
	struct note *note = announced.oldest;

	if (!note)
		return NULL;
	announced.oldest = note->next;
	if (!announced.oldest)
		announced.newest = &announced.oldest;
	announced.count--;
	return note;
}

/* --- In the thread */

static VALUE client_of(VALUE argument)
{
	const struct session_client *client = (const struct session_client *)argument;
	VALUE command = Qnil;

	if (client->command.size) {
		command = rb_utf8_str_new(client->command.bytes, (long)client->command.size);
		rb_obj_freeze(command);
	}
	return rb_struct_new(announced.client, client->pid ? UINT2NUM(client->pid) : Qnil, UINT2NUM(client->uid), command);
}

static VALUE run_block(VALUE argument)
{
	const VALUE *block_and_client = (const VALUE *)argument;

	return rb_proc_call_with_block(block_and_client[0], 1, &block_and_client[1], Qnil);
}

static VALUE run_admitted(VALUE argument)
{
	return interrupts_admitted(run_block, argument);
}

/* What a block raises is the client's to hear of, who is the one that is there. False: the thread is being killed. */
static bool failed_alone(const struct session_client *client)
{
	VALUE error = rb_errinfo();
	struct session *session;
	char message[512];

	exception_drop(Qnil);
	if (RB_SPECIAL_CONST_P(error))
		return false;
	/* It may call methods, and the session be over after that. */
	builtin_describe(error, message, sizeof(message));
	session = session_find(client->nonce);
	if (session)
		session_note(session, NOTE_INFO, "a block of the application's Rbprobe.on_attach failed: %s", message);
	return true;
}

static VALUE announce(VALUE argument)
{
	const struct note *note = (const struct note *)argument;
	VALUE client = client_of((VALUE)&note->client);

	/* One of them may add another. */
	for (long i = 0; i < RARRAY_LEN(announced.blocks); i++) {
		VALUE block_and_client[] = {rb_ary_entry(announced.blocks, i), client};
		struct quiet loud = quiet_pause();
		int failed = 0;

		rb_protect(run_admitted, (VALUE)block_and_client, &failed);
		quiet_end(loud);
		if (failed && !failed_alone(&note->client))
			return Qfalse;
		RB_GC_GUARD(block_and_client[0]);
	}
	RB_GC_GUARD(client);
	return Qtrue;
}

static VALUE introduce(VALUE thread)
{
	builtin_call1(BUILTIN_THREAD_SET_NAME, thread, rb_str_new_cstr("rbprobe on_attach"));
	/* Puma warns of threads at its fork that have not this. */
	builtin_call(BUILTIN_THREAD_VARIABLE_SET, thread, 2, (VALUE[]){ID2SYM(rb_intern("fork_safe")), Qtrue});
	builtin_call1(BUILTIN_THREAD_SET_REPORT, thread, Qfalse);
	return Qnil;
}

/* began: a bool, that this has come so far. */
static VALUE run_thread(VALUE began)
{
	struct fiber_state *own = fiber_suppress_begin();
	struct note *note;
	int failed = 0;

	*(bool *)began = true;
	rb_protect(introduce, rb_thread_current(), &failed);
	exception_drop(Qnil);
	fiber_suppress_end(own);
	while ((note = take_note())) {
		VALUE goes_on = rb_protect(announce, (VALUE)note, &failed);

		free(note);
		exception_drop(Qnil);
		if (goes_on == Qfalse)
			break;
	}
	/* From here on a job makes another one. */
	announced.running = false;
	return Qnil;
}

static VALUE run_deferring(VALUE began)
{
	return interrupts_deferred(run_thread, began, Qnil);
}

static VALUE thread_main(void *unused)
{
	bool began = false;
	int failed = 0;

	(void)unused;
	rb_protect(run_deferring, (VALUE)&began, &failed);
	exception_drop(Qnil);
	if (!began)
		announced.running = false;
	return Qnil;
}

/* --- In the job */

static VALUE create(VALUE unused)
{
	(void)unused;
	return own_thread_new(thread_main, NULL);
}

static void note_client(const struct session_client *client)
{
	struct session *session = session_find(client->nonce);
	struct note *note;
	int failed = 0;

	if (RARRAY_LEN(announced.blocks) == 0)
		return;
	note = announced.count < NOTES_MAX ? malloc(sizeof(*note) + client->command.size) : NULL;
	if (!note) {
		debug(session, DEBUG_SESSION, "the application's on_attach is not told of this client: it does not keep up");
		return;
	}
	note->next = NULL;
	note->client = *client;
	if (client->command.size)
		memcpy(note->text, client->command.bytes, client->command.size);
	note->client.command.bytes = note->text;
	*announced.newest = note;
	announced.newest = &note->next;
	announced.count++;
	if (announced.running)
		return;
	announced.running = true;
	rb_protect(create, Qnil, &failed);
	/* The next client's job tries again, and then they are told of both. */
	if (failed) {
		announced.running = false;
		exception_drop(Qnil);
	}
}

/* --- From outside */

void on_attach_init(VALUE client)
{
	announced.newest = &announced.oldest;
	announced.client = client;
	/* Hidden: who goes through ObjectSpace finds no Array of ours to change. */
	announced.blocks = rb_obj_hide(rb_ary_new());
	rb_gc_register_address(&announced.client);
	rb_gc_register_address(&announced.blocks);
	session_on_attached(note_client);
}

void on_attach_add(VALUE block)
{
	rb_ary_push(announced.blocks, block);
}

void on_attach_fork_child(void)
{
	announced.oldest = NULL;
	announced.newest = &announced.oldest;
	announced.count = 0;
	announced.running = false;
}
