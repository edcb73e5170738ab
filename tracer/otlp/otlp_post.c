/* Requests of OTLP over HTTP, with libcurl. See otlp_post.h. */

#ifdef HAVE_LIBCURL

#include "tracer/otlp/otlp_post.h"

#include "proto/clock.h"
#include "proto/names.h"
#include "tracer/otlp/otlp_answer.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdlib.h>

#define ANSWER_MAX (64u << 10) /* bytes of an answer that are looked at */
#define WAIT_MAX_S 300
#define QUICK_EXIT_SINCE 0x075700 /* of libcurl */

struct otlp_post {
	const struct otlp_settings *settings;
	CURL *curl;
	struct curl_slist *headers;
	struct buffer answer;
	char error[CURL_ERROR_SIZE];
};

static size_t on_answer(char *bytes, size_t size, size_t count, void *owner)
{
	struct otlp_post *post = owner;
	size_t room = ANSWER_MAX - post->answer.size, more = size * count;

	buffer_add(&post->answer, bytes, more < room ? more : room);
	return more;
}

static int on_progress(void *stop, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
	(void)a;
	(void)b;
	(void)c;
	(void)d;
	return atomic_load((atomic_bool *)stop);
}

static void add_header(struct otlp_post *post, const char *text)
{
	struct curl_slist *longer = curl_slist_append(post->headers, text);

	if (longer)
		post->headers = longer;
}

/* What libcurl thinks of the URL, before anything is traced for it. */
static int check_url(const struct otlp_settings *settings, struct error *err)
{
	CURLU *url = curl_url();
	CURLUcode code = url ? curl_url_set(url, CURLUPART_URL, settings->url, 0) : CURLUE_OK;

	curl_url_cleanup(url);
	return code == CURLUE_OK ? 0 : error_set(err, -EINVAL, "--otlp: %s is no URL that can be used", settings->shown_url);
}

int otlp_post_open(struct otlp_post **made, const struct otlp_settings *settings, struct error *err)
{
	struct otlp_post *post;

	curl_global_init(CURL_GLOBAL_DEFAULT);
	if (check_url(settings, err) < 0)
		return err->code;
	post = *made = memory_zeroed(sizeof(*post));
	post->settings = settings;
	post->curl = curl_easy_init();
	if (!post->curl) {
		free(post);
		return error_set(err, -ENOMEM, "libcurl cannot be used");
	}
	add_header(post, "Content-Type: application/x-protobuf");
	add_header(post, "Expect:"); /* no question first */
	for (size_t i = 0; i < settings->header_count; i++)
		add_header(post, settings->headers[i]);
	curl_easy_setopt(post->curl, CURLOPT_URL, settings->url);
	curl_easy_setopt(post->curl, CURLOPT_HTTPHEADER, post->headers);
	curl_easy_setopt(post->curl, CURLOPT_USERAGENT, "rbprobe/" RBPROBE_VERSION);
	curl_easy_setopt(post->curl, CURLOPT_POST, 1L);
	curl_easy_setopt(post->curl, CURLOPT_NOSIGNAL, 1L);
#if LIBCURL_VERSION_NUM >= QUICK_EXIT_SINCE
	/* Otherwise the end of a request waits for a name server that does not answer, whatever the timeout is. */
	curl_easy_setopt(post->curl, CURLOPT_QUICK_EXIT, 1L);
#endif
	curl_easy_setopt(post->curl, CURLOPT_NOPROGRESS, 0L);
	curl_easy_setopt(post->curl, CURLOPT_XFERINFOFUNCTION, on_progress);
	curl_easy_setopt(post->curl, CURLOPT_WRITEFUNCTION, on_answer);
	curl_easy_setopt(post->curl, CURLOPT_WRITEDATA, post);
	curl_easy_setopt(post->curl, CURLOPT_ERRORBUFFER, post->error);
	if (settings->certificate)
		curl_easy_setopt(post->curl, CURLOPT_CAINFO, settings->certificate);
	return 0;
}

static enum otlp_outcome outcome_of_failure(CURLcode code)
{
	switch (code) {
	case CURLE_UNSUPPORTED_PROTOCOL:
	case CURLE_URL_MALFORMAT:
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_SSL_CERTPROBLEM:
	case CURLE_SSL_ISSUER_ERROR:
	case CURLE_SSL_INVALIDCERTSTATUS:
	case CURLE_SSL_CONNECT_ERROR:
		return OTLP_NEVER;
	default:
		return OTLP_LATER;
	}
}

static void fail(struct otlp_post *post, CURLcode code, struct otlp_answer *answer)
{
	const char *why = *post->error ? post->error : curl_easy_strerror(code);

	answer->outcome = outcome_of_failure(code);
	snprintf(answer->why, sizeof(answer->why), "%s", why);
}

void otlp_post_send(struct otlp_post *post, const struct buffer *request, uint64_t timeout_ns, atomic_bool *stop,
                    struct otlp_answer *answer)
{
	curl_off_t wait_s = 0;
	CURLcode code;
	long status = 0;

	*answer = (struct otlp_answer){0};
	*post->error = '\0';
	post->answer.size = 0;
	curl_easy_setopt(post->curl, CURLOPT_POSTFIELDS, request->size ? request->bytes : "");
	curl_easy_setopt(post->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->size);
	curl_easy_setopt(post->curl, CURLOPT_TIMEOUT_MS, (long)(timeout_ns / NS_PER_MS + 1));
	curl_easy_setopt(post->curl, CURLOPT_XFERINFODATA, stop);
	code = curl_easy_perform(post->curl);
	if (code != CURLE_OK) {
		fail(post, code, answer);
		return;
	}
	curl_easy_getinfo(post->curl, CURLINFO_RESPONSE_CODE, &status);
	curl_easy_getinfo(post->curl, CURLINFO_RETRY_AFTER, &wait_s);
	otlp_answer_read(answer, status, &post->answer);
	if (answer->outcome == OTLP_LATER && wait_s > 0)
		answer->wait_ns = (uint64_t)(wait_s < WAIT_MAX_S ? wait_s : WAIT_MAX_S) * NS_PER_S;
}

void otlp_post_close(struct otlp_post *post)
{
	if (!post)
		return;
	curl_easy_cleanup(post->curl);
	curl_slist_free_all(post->headers);
	buffer_free(&post->answer);
	free(post);
}

#endif
