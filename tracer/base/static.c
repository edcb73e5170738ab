/*
 * What a static rbprobe (make static) has in the place of some of libc's functions, for itself and for the libraries in it.
 * libc's own load libraries of the system: of another libc's version than the one inside, perhaps, which ends in a crash. This
 * binary is meant for copying into other systems, and loads nothing. Names of users come from /etc/passwd alone.
 */

#ifdef RBPROBE_STATIC

#define _GNU_SOURCE
#include <dlfcn.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

static FILE *users;

void setpwent(void)
{
	endpwent();
	users = fopen("/etc/passwd", "re");
}

struct passwd *getpwent(void)
{
	if (!users)
		setpwent();
	return users ? fgetpwent(users) : NULL;
}

void endpwent(void)
{
	if (users)
		fclose(users);
	users = NULL;
}

struct passwd *getpwuid(uid_t uid)
{
	struct passwd *user;

	setpwent();
	while ((user = getpwent()) && user->pw_uid != uid)
		;
	endpwent();
	return user;
}

struct passwd *getpwnam(const char *name)
{
	struct passwd *user;

	setpwent();
	while ((user = getpwent()) && strcmp(user->pw_name, name) != 0)
		;
	endpwent();
	return user;
}

void *dlopen(const char *file, int mode)
{
	(void)file;
	(void)mode;
	return NULL;
}

void *dlsym(void *restrict handle, const char *restrict name)
{
	(void)handle;
	(void)name;
	return NULL;
}

int dlclose(void *handle)
{
	(void)handle;
	return -1;
}

char *dlerror(void)
{
	static char why[] = "a static program loads no library";

	return why;
}

#endif
