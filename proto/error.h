#ifndef RBPROBE_ERROR_H
#define RBPROBE_ERROR_H

/*
 * How a failure travels: a function returns 0 or a negative errno-like code and fills a sentence for
 * people. Nobody below main() prints. Any context except the signal handler (vsnprintf).
 */

#define ERROR_TEXT_SIZE 1024

struct error {
	int code;                   /* what the function returned: negative, or 0 when there is no error */
	char text[ERROR_TEXT_SIZE]; /* what happened, why, and what to do; no newline */
};

/* Fills err (NULL is allowed) and returns code, so that `return error_set(err, -EINVAL, ...)` reads well. */
int error_set(struct error *err, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
