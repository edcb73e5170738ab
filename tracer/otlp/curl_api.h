#ifndef RBPROBE_CURL_API_H
#define RBPROBE_CURL_API_H

#ifdef HAVE_LIBCURL

#include "proto/error.h"

#include <curl/curl.h>

/*
 * libcurl, loaded when it is needed: with the thirty libraries that it needs itself it would take as long as all the rest of
 * rbprobe's start. Names as in curl/curl.h, without "curl_".
 */
struct curl_api {
	__typeof__(&curl_easy_cleanup) easy_cleanup;
	__typeof__(&curl_easy_getinfo) easy_getinfo;
	__typeof__(&curl_easy_init) easy_init;
	__typeof__(&curl_easy_perform) easy_perform;
	__typeof__(&curl_easy_setopt) easy_setopt;
	__typeof__(&curl_easy_strerror) easy_strerror;
	__typeof__(&curl_global_init) global_init;
	__typeof__(&curl_slist_append) slist_append;
	__typeof__(&curl_slist_free_all) slist_free_all;
	__typeof__(&curl_url) url;
	__typeof__(&curl_url_cleanup) url_cleanup;
	__typeof__(&curl_url_set) url_set;
};

/* The same for all, ready to be used; or NULL, and the error is set. Before threads that use it begin. */
const struct curl_api *curl_api_load(struct error *err);

#endif

#endif
