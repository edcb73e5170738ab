/* A run with --otlp. See otlp_run.h. */

#include "tracer/commands/otlp_run.h"

#include "proto/clock.h"
#include "tracer/base/exit_status.h"
#include "tracer/base/library.h"
#include "tracer/base/message.h"
#include "tracer/base/signals.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#define WAIT_TOLD_NS NS_PER_S

static const char *variable(const char *name)
{
	return getenv(name);
}

int otlp_run_check_spans(const struct options *options)
{
	if (!(options->otlp_as & OTLP_AS_EXPONENTIAL))
		return 0;
	message("--otlp-as exponential is for histograms, which `rbprobe stat` sends");
	return STATUS_USAGE;
}

int otlp_run_check(const struct options *options)
{
	struct error err;

	if (!options->otlp && options->otlp_as) {
		message("--otlp-as says how --otlp writes: give that, too");
		return STATUS_USAGE;
	}
	if (!options->otlp)
		return 0;
	if (options->output_path) {
		message("--otlp sends what -o would write: give one of them");
		return STATUS_USAGE;
	}
	if (library_require(LIBRARY_PROTOBUF, "--otlp", &err) == 0 && library_require(LIBRARY_CURL, "--otlp", &err) == 0)
		return 0;
	message("%s", err.text);
	return STATUS_FAILED;
}

static void give(void *owner, struct buffer *request, uint64_t items)
{
	otlp_run_give(owner, request, items);
}

static void look(void *owner, struct output *output)
{
	otlp_run_look(owner, output);
}

/* The environment, too, may want what needs them. */
static int require_libraries(const struct otlp_settings *settings, struct error *err)
{
	int status = settings->as & OTLP_AS_GZIP ? library_require(LIBRARY_ZLIB, "--otlp by gzip", err) : 0;

	/* For what the server answers. */
	return status < 0 || !(settings->as & OTLP_AS_JSON) ? status : library_require(LIBRARY_JANSSON, "--otlp by JSON", err);
}

int otlp_run_open(struct otlp_run *run, const struct options *options, enum otlp_signal signal)
{
	struct error err;

	*run = (struct otlp_run){.manner = {give, look, run},
	                         .item = signal == OTLP_TRACES ? "span" : "data point",
	                         .quiet = options->quiet,
	                         .stop = -1};
	if (otlp_settings_read(&run->settings, signal, options->otlp_url, options->otlp_as, variable, &err) == 0 &&
	    require_libraries(&run->settings, &err) == 0 && otlp_sender_open(&run->sender, &run->settings, &err) == 0) {
		/* Nothing, but the answer shows whether anything will be taken, before there is something. */
		otlp_run_give(run, &(struct buffer){0}, 0);
		return 0;
	}
	message("%s", err.text);
	otlp_settings_free(&run->settings);
	return err.code == -EINVAL ? STATUS_USAGE : STATUS_FAILED;
}

void otlp_run_give(struct otlp_run *run, struct buffer *request, uint64_t items)
{
	otlp_sender_give(run->sender, request, items, run->wait, run->stop);
}

void otlp_run_look(struct otlp_run *run, struct output *output)
{
	struct error err;

	if (!otlp_sender_ask(run->sender, &err))
		return;
	if (err.code == 0) {
		message("cannot send to %s: %s; trying again", run->settings.shown_url, err.text);
		return;
	}
	if (run->failed)
		return;
	run->failed = true;
	output->status = error_set(&output->error, err.code, "cannot send to %s: %s", run->settings.shown_url, err.text);
}

static void say(const struct otlp_run *run, uint64_t number, const char *what, const char *why)
{
	if (number)
		message("%" PRIu64 " %s%s %s%s%s%s", number, run->item, number == 1 ? "" : "s",
		        number == 1 ? "is lost: " : "are lost: ", what, *why ? ": " : "", why);
}

/* What goes wrong at the end only is said, and cannot end the run. */
static void say_at_end(struct otlp_run *run, bool tries)
{
	struct error err;

	if (!otlp_sender_ask(run->sender, &err) || run->failed)
		return;
	run->failed = err.code != 0;
	message("cannot send to %s: %s%s", run->settings.shown_url, err.text, run->failed || !tries ? "" : "; trying again");
}

static void look_at_end(void *owner)
{
	struct otlp_run *run = owner;

	say_at_end(run, true);
	if (run->quiet || run->failed || clock_now_ns() < run->wait_told_ns)
		return;
	run->wait_told_ns = UINT64_MAX;
	message("what is left is being sent to %s, for %g s at most; Ctrl-C ends that", run->settings.shown_url,
	        (double)run->settings.timeout_ns / 1e9);
}

int otlp_run_close(struct otlp_run *run, int signals, int status)
{
	struct otlp_counts counts;

	if (!run->sender)
		return status;
	/* Ctrl-C has ended the run; another one ends what is still to be sent. */
	signals_take(&(bool){false});
	signals_forgive();
	run->wait_told_ns = clock_now_ns() + WAIT_TOLD_NS;
	otlp_sender_finish(run->sender, signals, look_at_end, run, &counts);
	say_at_end(run, !counts.unsent);
	say(run, counts.dropped, "they came faster than they were taken", "");
	/* Why has been said where that ended the run, or was tried again. */
	say(run, counts.refused, "they were not taken", run->failed ? "" : counts.why);
	say(run, counts.unsent, "they could not be sent", "");
	if (!run->quiet && !run->failed)
		message("%" PRIu64 " %s%s sent to %s", counts.sent, run->item, counts.sent == 1 ? "" : "s",
		        run->settings.shown_url);
	otlp_sender_close(run->sender);
	otlp_settings_free(&run->settings);
	run->sender = NULL;
	return status == STATUS_DONE && (counts.dropped || counts.refused || counts.unsent) ? STATUS_FAILED : status;
}
