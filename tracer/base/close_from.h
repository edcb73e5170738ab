#ifndef RBPROBE_CLOSE_FROM_H
#define RBPROBE_CLOSE_FROM_H

/* Closes this descriptor and all above it; before Linux 5.9, those below 4096. */
void close_from(unsigned first);

#endif
