/* The steps to a session, with a child that plays the target: each step comes after the one before, and each lie is refused. */

#define _GNU_SOURCE
#include "tracer/attach/attach_parts.h"

#include "proto/clock.h"
#include "unit.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include "target_fixture.h"

#define TIMEOUT_NS (5 * NS_PER_S)

static struct target_child child;
static struct attachment attachment;
static struct error err;

/* Signals to a thread: how many there were, and how many more find that it has just ended. */
static int thread_signals, signals_too_late;

/* In the place of libc's: all that a process is asked for by number goes through here. */
long syscall(long number, ...)
{
	static long (*real)(long, ...);
	long arguments[6];
	va_list list;

	va_start(list, number);
	for (int i = 0; i < 6; i++)
		arguments[i] = va_arg(list, long);
	va_end(list);
	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "syscall");
	if (number == SYS_pidfd_send_signal || number == SYS_rt_tgsigqueueinfo) {
		thread_signals++;
		if (signals_too_late > 0) {
			signals_too_late--;
			errno = ESRCH;
			return -1;
		}
	}
	return real(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
}

/* As `rbprobe exec` does it, which needs neither Ruby in the process nor rings. */
static int setup(void **state)
{
	struct command command = {.kind = COMMAND_EVAL, .arguments = {.text = SLICE("1 + 1")}};

	(void)state;
	memset(&err, 0, sizeof(err));
	if (target_child_start(&child) != 0)
		return -1;
	return attachment_expect(&attachment, child.pid, &command, TIMEOUT_NS, &err);
}

static int teardown(void **state)
{
	(void)state;
	attachment_close(&attachment);
	target_child_end(&child);
	return 0;
}

static int step(void)
{
	return attachment_step(&attachment, clock_now_ns(), &err);
}

static void steps_to(enum attachment_state wanted)
{
	uint64_t deadline_ns = clock_now_ns() + TIMEOUT_NS;

	while (attachment.state != wanted && clock_now_ns() < deadline_ns) {
		if (step() < 0)
			fail_msg("%s", err.text);
		usleep(200);
	}
	assert_int_equal(attachment.state, wanted);
}

static void connected(void)
{
	target_child_make(&child, TARGET_MAKES_QUEUE);
	steps_to(ATTACHMENT_ATTACHING);
	assert_int_equal(step(), 0);
	assert_int_equal(target_child_order(&child, TARGET_READS_ATTACH), 1);
	assert_int_equal(target_child_order(&child, TARGET_CONNECTS), 0);
	steps_to(ATTACHMENT_CONNECTED);
}

static struct record_hello hello(void)
{
	return (struct record_hello){.version = PROTOCOL_VERSION,
	                             .nonce = {(const char *)attachment.nonce, NONCE_SIZE},
	                             .pid = (uint32_t)child.pid,
	                             .ruby_version = SLICE("3.1.2"),
	                             .extension_version = SLICE("0.1.0")};
}

static struct record_reply reply(uint32_t id)
{
	return (struct record_reply){.command_id = id, .text = SLICE("")};
}

static void on_alarm(int number)
{
	(void)number;
}

/* A terminal that changes its size is one, for `rbprobe top`. */
static void signals_do_not_disturb_the_making_of_the_socket(void **state)
{
	static const struct itimerval often = {{0, 500}, {0, 500}}, never;
	const struct sigaction action = {.sa_handler = on_alarm};
	struct sigaction before;
	struct rendezvous rendezvous;
	int status = 0;

	(void)state;
	sigaction(SIGALRM, &action, &before);
	setitimer(ITIMER_REAL, &often, NULL);
	for (int i = 0; i < 20 && status == 0; i++) {
		status = rendezvous_open(&rendezvous, &attachment.target, false, &err);
		rendezvous_close(&rendezvous);
	}
	setitimer(ITIMER_REAL, &never, NULL);
	sigaction(SIGALRM, &before, NULL);
	if (status < 0)
		fail_msg("%s", err.text);
}

static void it_waits_for_the_queue_and_says_when_it_looks_again(void **state)
{
	uint64_t now_ns = clock_now_ns();

	(void)state;
	assert_int_equal(step(), 0);
	assert_int_equal(attachment.state, ATTACHMENT_EXPECTING);
	assert_true(attachment.wake_ns > now_ns && attachment.wake_ns < now_ns + NS_PER_S);
	assert_int_equal(attachment_descriptor(&attachment), -1);
}

static void what_the_client_was_busy_with_is_no_end_of_an_endless_wait(void **state)
{
	(void)state;
	attachment_excuse(&attachment, NS_PER_S);
	assert_int_equal(step(), 0);
	assert_int_equal(attachment.state, ATTACHMENT_EXPECTING);
}

/* A launched process has called exec: the queue is that of the program before, and the new one replaces it. */
static void a_queue_that_is_replaced_by_a_new_program_is_left_for_its_own(void **state)
{
	int old;

	(void)state;
	target_child_make(&child, TARGET_MAKES_QUEUE);
	steps_to(ATTACHMENT_ATTACHING);
	old = attachment.queue;
	assert_int_equal(step(), 0);
	assert_true(attachment.wake_ns < clock_now_ns() + NS_PER_S / 10);
	queue_remove_old(&child.target, old);
	steps_to(ATTACHMENT_EXPECTING);
	assert_int_equal(attachment.deadline_ns, UINT64_MAX);
	connected();
	assert_int_not_equal(attachment.queue, old);
}

static void queue_commands_connection_greeting_answer(void **state)
{
	struct record_hello greeting;
	struct record_reply answer;

	(void)state;
	connected();
	assert_int_equal(target_child_order(&child, TARGET_READS_ALL), 1); /* the request, right after the ATTACH */
	assert_true(attachment.fd >= 0);
	assert_int_equal(attachment_descriptor(&attachment), attachment.fd);
	greeting = hello();
	assert_int_equal(attachment_hello(&attachment, &greeting, &err), 0);
	answer = reply(attachment.command_id + 7); /* of somebody else's command */
	assert_int_equal(attachment_reply(&attachment, &answer, &err), 0);
	assert_int_equal(attachment.state, ATTACHMENT_CONNECTED);
	answer = reply(attachment.command_id);
	assert_int_equal(attachment_reply(&attachment, &answer, &err), 0);
	assert_int_equal(attachment.state, ATTACHMENT_ARMED);
	assert_int_equal(step(), 0);
	assert_true(attachment.wake_ns == UINT64_MAX);
}

static void another_process_than_the_target_is_not_accepted(void **state)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	(void)state;
	target_child_make(&child, TARGET_MAKES_QUEUE);
	steps_to(ATTACHMENT_ATTACHING);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", attachment.rendezvous.socket_path);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(step(), 0);
	assert_int_equal(attachment.state, ATTACHMENT_ATTACHING);
	assert_int_equal(target_child_order(&child, TARGET_READS_ATTACH), 1);
	assert_int_equal(target_child_order(&child, TARGET_CONNECTS), 0);
	steps_to(ATTACHMENT_CONNECTED);
	close(fd);
}

static void who_greets_wrongly_is_not_trusted(void **state)
{
	static const uint8_t other[NONCE_SIZE] = {0};
	struct record_hello lie;

	(void)state;
	connected();
	lie = hello();
	lie.version = PROTOCOL_VERSION + 1;
	assert_int_equal(attachment_hello(&attachment, &lie, &err), -EPROTO);
	assert_error(&err, -EPROTO, "speaks protocol 3");
	lie = hello();
	lie.nonce = (struct slice){(const char *)other, NONCE_SIZE};
	assert_int_equal(attachment_hello(&attachment, &lie, &err), -EPROTO);
	assert_error(&err, -EPROTO, "the secret of another session");
	lie = hello();
	lie.nonce.size--;
	assert_int_equal(attachment_hello(&attachment, &lie, &err), -EPROTO);
	lie = hello();
	lie.pid++;
	assert_int_equal(attachment_hello(&attachment, &lie, &err), -EPROTO);
	assert_error(&err, -EPROTO, "refusing to trust it");
}

static void an_answer_before_the_greeting_is_refused(void **state)
{
	struct record_reply answer;

	(void)state;
	connected();
	answer = reply(attachment.command_id);
	assert_int_equal(attachment_reply(&attachment, &answer, &err), -EPROTO);
	assert_error(&err, -EPROTO, "without a greeting");
}

static void a_refusal_has_the_process_s_words(void **state)
{
	struct record_hello greeting;
	struct record_reply answer;

	(void)state;
	connected();
	greeting = hello();
	assert_int_equal(attachment_hello(&attachment, &greeting, &err), 0);
	answer = reply(attachment.command_id);
	answer.code = EBUSY;
	answer.text = SLICE("this session traces already");
	assert_int_equal(attachment_reply(&attachment, &answer, &err), -ECANCELED);
	assert_error(&err, -ECANCELED, "this session traces already");
}

static void a_process_that_ends_meanwhile(void **state)
{
	(void)state;
	child_end(child.pid);
	assert_int_equal(step(), -ESRCH);
	assert_error(&err, -ESRCH, "ended without having loaded the rbprobe extension");
}

/* Nobody has to make a /tmp for it, and RUBYOPT is what `rbprobe exec` starts programs with. */
static void a_process_that_ends_before_the_socket_is_made(void **state)
{
	(void)state;
	attachment.launched = false; /* one of -p */
	child_end(child.pid);
	assert_int_equal(attachment_address(&attachment, &err), -ESRCH);
	assert_error(&err, -ESRCH, "ended while rbprobe was attaching to it");
}

/* Another client leaves, and with it the thread that its load started, just as this one rings. */
static void a_bell_thread_that_ends_as_it_is_rung_is_no_end_of_the_process(void **state)
{
	(void)state;
	assert_int_equal(target_child_order(&child, TARGET_HAS_BELL), 0);
	target_child_make(&child, TARGET_MAKES_QUEUE);
	steps_to(ATTACHMENT_ATTACHING);
	attachment.launched = false; /* such a one is not rung */
	thread_signals = 0;
	signals_too_late = 1;
	for (uint64_t deadline_ns = clock_now_ns() + TIMEOUT_NS; thread_signals < 2 && clock_now_ns() < deadline_ns;) {
		if (step() < 0)
			fail_msg("%s", err.text);
		usleep(200);
	}
	assert_int_equal(thread_signals, 2);
	assert_int_equal(signals_too_late, 0);
}

static void a_process_that_does_not_connect_is_waited_for_until_the_deadline(void **state)
{
	(void)state;
	target_child_make(&child, TARGET_MAKES_QUEUE);
	steps_to(ATTACHMENT_ATTACHING);
	assert_int_equal(attachment_step(&attachment, attachment.deadline_ns - 1, &err), 0);
	assert_int_equal(attachment_step(&attachment, attachment.deadline_ns, &err), -ETIMEDOUT);
	assert_error(&err, -ETIMEDOUT, "did not come to a safe point within 5 s");
}

static void a_queue_that_vanishes_is_looked_for_again_but_not_for_ever(void **state)
{
	int status = 0;
	unsigned times = 0;

	(void)state;
	while (status == 0 && times < 20) {
		target_child_make(&child, TARGET_MAKES_QUEUE);
		while (status == 0 && attachment.queue < 0)
			status = step();
		times++;
		queue_remove(&child.target);
		while (status == 0 && attachment.queue >= 0)
			status = attachment_step(&attachment, clock_now_ns() + NS_PER_S, &err);
	}
	assert_int_equal(status, -EIDRM);
	assert_error(&err, -EIDRM, "was removed 5 times while attaching");
	assert_int_equal(times, 5);
}

static void detaching_has_a_deadline_of_its_own(void **state)
{
	(void)state;
	connected();
	attachment_detach(&attachment);
	assert_int_equal(attachment.state, ATTACHMENT_DETACHING);
	assert_int_equal(step(), 0);
	assert_int_equal(target_child_order(&child, TARGET_READS_ALL), 2); /* the request, and DETACH */
	assert_int_equal(attachment_step(&attachment, attachment.deadline_ns, &err), -ETIMEDOUT);
	assert_error(&err, -ETIMEDOUT, "it disarms by itself");
}

static void closing_leaves_no_socket_and_may_come_twice(void **state)
{
	char path[SOCKET_PATH_MAX + 1];

	(void)state;
	target_child_make(&child, TARGET_MAKES_QUEUE);
	steps_to(ATTACHMENT_ATTACHING);
	snprintf(path, sizeof(path), "%s", attachment.rendezvous.socket_path);
	assert_int_equal(access(path, F_OK), 0);
	attachment_close(&attachment);
	assert_int_not_equal(access(path, F_OK), 0);
	assert_int_equal(attachment.state, ATTACHMENT_OVER);
	assert_int_equal(attachment_descriptor(&attachment), -1);
	attachment_close(&attachment);
	assert_int_equal(step(), 0);
}

static void what_is_no_ruby_is_not_attached_to(void **state)
{
	const struct attach_manner manner = {.timeout_ns = TIMEOUT_NS};
	struct command command = {.kind = COMMAND_EVAL};
	struct attachment other;

	(void)state;
	assert_true(attachment_open(&other, child.pid, &command, &manner, &err) < 0);
	assert_error(&err, err.code, "is not a Ruby process");
	assert_true(attachment_open(&other, 0x3ffffff, &command, &manner, &err) < 0);
	assert_error(&err, -ESRCH, "no process has the PID");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(signals_do_not_disturb_the_making_of_the_socket),
		TEST(it_waits_for_the_queue_and_says_when_it_looks_again),
		TEST(what_the_client_was_busy_with_is_no_end_of_an_endless_wait),
		TEST(a_queue_that_is_replaced_by_a_new_program_is_left_for_its_own),
		TEST(queue_commands_connection_greeting_answer),
		TEST(another_process_than_the_target_is_not_accepted),
		TEST(who_greets_wrongly_is_not_trusted),
		TEST(an_answer_before_the_greeting_is_refused),
		TEST(a_refusal_has_the_process_s_words),
		TEST(a_process_that_ends_meanwhile),
		TEST(a_process_that_ends_before_the_socket_is_made),
		TEST(a_bell_thread_that_ends_as_it_is_rung_is_no_end_of_the_process),
		TEST(a_process_that_does_not_connect_is_waited_for_until_the_deadline),
		TEST(a_queue_that_vanishes_is_looked_for_again_but_not_for_ever),
		TEST(detaching_has_a_deadline_of_its_own),
		TEST(closing_leaves_no_socket_and_may_come_twice),
		TEST(what_is_no_ruby_is_not_attached_to),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
