/* Requests of OTLP over HTTP, with libcurl. See otlp_post.h. */

#ifdef HAVE_LIBCURL

#include "tracer/otlp/otlp_post.h"

#include "proto/clock.h"
#include "proto/names.h"
#include "tracer/base/gzip.h"
#include "tracer/otlp/curl_api.h"
#include "tracer/otlp/otlp_answer.h"
#include "tracer/otlp/otlp_json.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#define ANSWER_MAX (64u << 10) /* bytes of an answer's body that are read: it may have no end */
#define WAIT_MAX_S 300
#define QUICK_EXIT_SINCE 0x075700 /* of libcurl */

struct otlp_post {
	const struct curl_api *api;
	const struct otlp_settings *settings;
	CURL *curl;
	struct curl_slist *headers;
	struct buffer json, packed; /* what the request becomes, where it does */
	struct buffer answer;
	bool cut; /* there is more of it */
	char error[CURL_ERROR_SIZE];
};

static size_t on_answer(char *bytes, size_t size, size_t count, void *owner)
{
	struct otlp_post *post = owner;
	size_t room = ANSWER_MAX - post->answer.size, more = size * count;

	post->cut = more > room;
	buffer_add(&post->answer, bytes, post->cut ? room : more);
	return post->cut ? 0 : more; /* 0 ends the request */
}

static int on_progress(void *stop, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
	(void)a;
	(void)b;
	(void)c;
	(void)d;
	return atomic_load((atomic_bool *)stop);
}

/*
 * libcurl's own sockets are closed by no exec (7.88), and `rbprobe exec` starts a program while the first connection is made: it
 * would have that one, too.
 */
static curl_socket_t open_socket(void *owner, curlsocktype purpose, struct curl_sockaddr *address)
{
	(void)owner;
	(void)purpose;
	return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static void add_header(struct otlp_post *post, const char *text)
{
	struct curl_slist *longer = post->api->slist_append(post->headers, text);

	if (longer)
		post->headers = longer;
}

/* What libcurl thinks of the URL, before anything is traced for it. */
static int check_url(const struct curl_api *api, const struct otlp_settings *settings, struct error *err)
{
	CURLU *url = api->url();
	CURLUcode code = url ? api->url_set(url, CURLUPART_URL, settings->url, 0) : CURLUE_OK;
	char *refused;

	api->url_cleanup(url);
	if (code == CURLUE_OK)
		return 0;
	refused = otlp_url_to_refuse(settings->url);
	error_set(err, -EINVAL, "--otlp: %s is no URL that can be used", refused);
	free(refused);
	return -EINVAL;
}

int otlp_post_open(struct otlp_post **made, const struct otlp_settings *settings, struct error *err)
{
	const struct curl_api *api = curl_api_load(err);
	struct otlp_post *post;

	if (!api || check_url(api, settings, err) < 0)
		return err->code;
	post = *made = memory_zeroed(sizeof(*post));
	post->api = api;
	post->settings = settings;
	post->curl = api->easy_init();
	if (!post->curl) {
		free(post);
		return error_set(err, -ENOMEM, "libcurl cannot be used");
	}
	add_header(post, settings->as & OTLP_AS_JSON ? "Content-Type: application/json" : "Content-Type: application/x-protobuf");
	if (settings->as & OTLP_AS_GZIP)
		add_header(post, "Content-Encoding: gzip");
	add_header(post, "Expect:"); /* no question first */
	for (size_t i = 0; i < settings->header_count; i++)
		add_header(post, settings->headers[i]);
	api->easy_setopt(post->curl, CURLOPT_URL, settings->url);
	api->easy_setopt(post->curl, CURLOPT_HTTPHEADER, post->headers);
	api->easy_setopt(post->curl, CURLOPT_USERAGENT, "rbprobe/" RBPROBE_VERSION);
	api->easy_setopt(post->curl, CURLOPT_POST, 1L);
	api->easy_setopt(post->curl, CURLOPT_NOSIGNAL, 1L);
#if LIBCURL_VERSION_NUM >= QUICK_EXIT_SINCE
	/* Otherwise the end of a request waits for a name server that does not answer, whatever the timeout is. */
	api->easy_setopt(post->curl, CURLOPT_QUICK_EXIT, 1L);
#endif
	api->easy_setopt(post->curl, CURLOPT_OPENSOCKETFUNCTION, open_socket);
	api->easy_setopt(post->curl, CURLOPT_NOPROGRESS, 0L);
	api->easy_setopt(post->curl, CURLOPT_XFERINFOFUNCTION, on_progress);
	api->easy_setopt(post->curl, CURLOPT_WRITEFUNCTION, on_answer);
	api->easy_setopt(post->curl, CURLOPT_WRITEDATA, post);
	api->easy_setopt(post->curl, CURLOPT_ERRORBUFFER, post->error);
	if (settings->client_certificate)
		api->easy_setopt(post->curl, CURLOPT_SSLCERT, settings->client_certificate);
	if (settings->client_key)
		api->easy_setopt(post->curl, CURLOPT_SSLKEY, settings->client_key);
	if (settings->certificate)
		api->easy_setopt(post->curl, CURLOPT_CAINFO, settings->certificate);
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
	const char *why = *post->error ? post->error : post->api->easy_strerror(code);

	answer->outcome = outcome_of_failure(code);
	snprintf(answer->why, sizeof(answer->why), "%s", why);
}

/* As it is sent: the request itself, or what is made of it, which is the post's. */
static const struct buffer *written(struct otlp_post *post, const struct buffer *request)
{
	unsigned as = post->settings->as;

	post->json.size = post->packed.size = 0;
	if (as & OTLP_AS_JSON) {
		otlp_json_add(&post->json, post->settings->signal, request);
		request = &post->json;
	}
	if (!(as & OTLP_AS_GZIP))
		return request;
	gzip_add(&post->packed, request);
	return &post->packed;
}

void otlp_post_send(struct otlp_post *post, const struct buffer *request, uint64_t timeout_ns, atomic_bool *stop,
                    struct otlp_answer *answer)
{
	const struct buffer *body = written(post, request);
	curl_off_t wait_s = 0;
	CURLcode code;
	long status = 0;

	*answer = (struct otlp_answer){0};
	*post->error = '\0';
	post->answer.size = 0;
	post->cut = false;
	post->api->easy_setopt(post->curl, CURLOPT_POSTFIELDS, body->size ? body->bytes : "");
	post->api->easy_setopt(post->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body->size);
	post->api->easy_setopt(post->curl, CURLOPT_TIMEOUT_MS, (long)(timeout_ns / NS_PER_MS + 1));
	post->api->easy_setopt(post->curl, CURLOPT_XFERINFODATA, stop);
	code = post->api->easy_perform(post->curl);
	/* The status, which has come before the body, holds all the same. */
	if (code != CURLE_OK && !post->cut) {
		fail(post, code, answer);
		return;
	}
	post->api->easy_getinfo(post->curl, CURLINFO_RESPONSE_CODE, &status);
	post->api->easy_getinfo(post->curl, CURLINFO_RETRY_AFTER, &wait_s);
	otlp_answer_read(answer, status, post->settings->as & OTLP_AS_JSON, &post->answer);
	if (answer->outcome == OTLP_LATER && wait_s > 0)
		answer->wait_ns = (uint64_t)(wait_s < WAIT_MAX_S ? wait_s : WAIT_MAX_S) * NS_PER_S;
}

void otlp_post_close(struct otlp_post *post)
{
	if (!post)
		return;
	post->api->easy_cleanup(post->curl);
	post->api->slist_free_all(post->headers);
	buffer_free(&post->json);
	buffer_free(&post->packed);
	buffer_free(&post->answer);
	free(post);
}

#endif
