#ifndef RBPROBE_LIMITS_H
#define RBPROBE_LIMITS_H

/*
 * Every length, depth and count that crosses the wire has a limit, and both sides check it: the target does
 * not trust a client, the client does not trust a byte from the socket.
 */

#define PROTOCOL_VERSION 2u

#define NONCE_SIZE 16                /* bytes; proves that queue and socket belong to the same session */
#define COMMAND_SIZE_MAX (64u << 20) /* bytes of one command, all chunks together */
#define CHUNK_SIZE_MAX 8192u         /* bytes of one System V message: Linux' default msgmax */
#define FRAME_SIZE_MAX (1u << 20)    /* bytes of one record on the socket, without its length prefix */
#define SOCKET_PATH_MAX 107u         /* bytes; sun_path less its NUL */
#define SELECTORS_MAX 10000u         /* selectors of one command */
#define SELECTOR_SETS_MAX 255u       /* sets of selectors of one command */
#define EXPRESSIONS_MAX 64u          /* expressions of one selector */
#define EXPRESSION_SIZE_MAX 65536u   /* bytes of one expression */
#define NAME_SIZE_MAX 4096u          /* bytes of a class, method, thread or file name */
#define VALUES_MAX 128u              /* values of one event */
#define VALUE_SIZE_DEFAULT 256u      /* bytes of one rendered value */
#define VALUE_SIZE_MAX 16384u
#define VALUES_SIZE_MAX 49152u                     /* bytes of all values of one event */
#define VALUE_DEPTH_DEFAULT 3u                     /* nesting of arrays and hashes that is shown */
#define VALUE_LENGTH_DEFAULT 16u                   /* elements of an array or a hash that are shown */
#define BATCH_EVENTS_MAX 4096u                     /* events of one EVENTS record */
#define BATCH_ELEMENTS_MAX (7u * BATCH_EVENTS_MAX) /* numbers and arrays of values in it */
#define OUTPUT_SIZE_MAX (256u << 10)               /* bytes of one OUTPUT record */
#define EVAL_TEXT_MAX (512u << 10)                 /* bytes of a shown result */
#define EVAL_TEXT_DEFAULT (64u << 10)
#define STACK_FRAMES_MAX 128u /* callers that are shown of one call */
#define STACK_FRAMES_DEFAULT 20u
#define VERSIONS_TEXT_MAX 16384u /* bytes of the constants of one VERSIONS */
#define FRAMES_TEXT_MAX 65536u   /* bytes of the addresses of one FRAMES */
#define SESSIONS_MAX 16u         /* clients attached to one process at a time */
#define TEXT_SIZE_MAX 8192u      /* bytes of a message for people */

#endif
