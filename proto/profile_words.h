#ifndef RBPROBE_PROFILE_WORDS_H
#define RBPROBE_PROFILE_WORDS_H

/*
 * Frames of a profile that are no methods. PROTOCOL.md, "PROFILE". No method has such a file, as Ruby shows them: whose files are
 * called so by the application is shown the same way.
 */

#define PROFILE_PATH_OBJECTS "(objects)" /* the file of a class whose objects are made */
#define PROFILE_PATH_STATE "(state)"     /* the file of what is no method, such as PROFILE_GC */
#define PROFILE_PATH_NATIVE "(native)"   /* the file of a native function, in the name of which is its library */
#define PROFILE_GC "(garbage collection)"
#define PROFILE_NO_FRAMES "(no frames)" /* what a client shows for a stack without any */

#endif
