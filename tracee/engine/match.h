#ifndef RBPROBE_MATCH_H
#define RBPROBE_MATCH_H

#include <ruby.h>

/* A method that a selector names. */
struct match {
	VALUE owner;        /* where it is defined */
	VALUE name;         /* Symbol, as selected: an alias's own name */
	VALUE method;       /* UnboundMethod */
	VALUE only_kind_of; /* a class below owner that was meant, or Qundef */
};

#endif
