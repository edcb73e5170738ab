/* Escape sequences. See colors.h. */

#include "tracer/base/colors.h"

const struct slice colors[] = {
	[COLOR_NONE] = {"\033[0m", 4},      [COLOR_NAME] = {"\033[1;36m", 7}, [COLOR_LABEL] = {"\033[2m", 4},
	[COLOR_VALUE] = {"\033[32m", 5},    [COLOR_TIME] = {"\033[33m", 5},   [COLOR_ERROR] = {"\033[1;31m", 7},
	[COLOR_THREAD] = {"\033[1;35m", 7},
};
